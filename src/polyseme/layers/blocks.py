"""A Transformer layer, with the norm after each step (as published) or before it (GPT-2)."""

from __future__ import annotations

from typing import Any, Literal

import torch.nn.functional as F
from pydantic import Field, model_validator
from torch import Tensor, nn

from polyseme.config import Config
from polyseme.layers.attention import Allowed, Cache, Caches, SelfAttention
from polyseme.layers.dropout import Dropout
from polyseme.layers.gelu import gelu_tanh
from polyseme.layers.linear import Linear

Activation = Literal["gelu", "gelu_tanh", "relu"]


class BlockConfig(Config):
    """The sizes of a stack of Transformer layers."""

    width: int = Field(768, ge=1)  # of every layer
    num_layers: int = Field(12, ge=1)
    num_heads: int = Field(12, ge=1)  # of attention; they share the width between them
    inner_width: int = Field(3072, ge=1)  # of the feed-forward step; four widths unless given
    dropout: float = Field(0.1, ge=0, lt=1)  # on embeddings, attention weights and both steps of a layer
    activation: Activation = "gelu"
    epsilon: float = Field(1e-5, gt=0)  # of the norms

    @model_validator(mode="before")
    @classmethod
    def _four_widths(cls, values: dict[str, Any]) -> dict[str, Any]:
        if "width" in values and "inner_width" not in values and isinstance(values["width"], int):
            return {**values, "inner_width": 4 * values["width"]}
        return values

    @model_validator(mode="after")
    def _heads_share_the_width(self) -> BlockConfig:
        if self.width % self.num_heads:
            raise ValueError(f"width = {self.width} cannot be shared by num_heads = {self.num_heads}; change one")
        return self


def activate(x: Tensor, activation: Activation) -> Tensor:
    """Apply the non-linearity that a checkpoint was trained with: the two forms of GELU are not interchangeable."""
    if activation == "relu":
        return F.relu(x)
    return gelu_tanh(x) if activation == "gelu_tanh" else F.gelu(x)


class FeedForward(nn.Module):
    """Two linear maps with a non-linearity between, applied to each token alone."""

    def __init__(self, width: int, inner_width: int, activation: Activation) -> None:
        super().__init__()
        self.inner = Linear(width, inner_width)
        self.outer = Linear(inner_width, width)
        self.activation = activation

    def forward(self, x: Tensor) -> Tensor:
        return self.outer(activate(self.inner(x), self.activation))  # type: ignore[no-any-return]


class _Block(nn.Module):
    def __init__(self, config: BlockConfig) -> None:
        super().__init__()
        self.attention = SelfAttention(config.width, config.num_heads, config.dropout)
        self.attention_norm = nn.LayerNorm(config.width, eps=config.epsilon)
        self.feed_forward = FeedForward(config.width, config.inner_width, config.activation)
        self.feed_forward_norm = nn.LayerNorm(config.width, eps=config.epsilon)
        self.drop = Dropout(config.dropout)


class PostNormBlock(_Block):
    """Each step is added to its input and the sum normalised."""

    def forward(
        self,
        x: Tensor,
        *,
        allowed: Allowed = None,
        causal: bool = False,
        cache: Cache | Caches | None = None,
        layer: int = 0,
    ) -> Tensor:
        attended = self.attention(x, allowed=allowed, causal=causal, cache=cache, layer=layer)
        x = self.attention_norm(x + self.drop(attended))
        return self.feed_forward_norm(x + self.drop(self.feed_forward(x)))  # type: ignore[no-any-return]


class PreNormBlock(_Block):
    """Each step reads a normalised copy, so that the sum runs undisturbed from bottom to top."""

    def forward(
        self,
        x: Tensor,
        *,
        allowed: Allowed = None,
        causal: bool = False,
        cache: Cache | Caches | None = None,
        layer: int = 0,
    ) -> Tensor:
        attended = self.attention(self.attention_norm(x), allowed=allowed, causal=causal, cache=cache, layer=layer)
        x = x + self.drop(attended)
        return x + self.drop(self.feed_forward(self.feed_forward_norm(x)))  # type: ignore[no-any-return]
