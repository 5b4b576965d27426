"""Transformer layers: post-norm (Vaswani et al., 2017) and pre-norm (GPT-2; Radford et al., 2019)."""

import math
from typing import Any, Literal, Self

import torch
import torch.nn.functional as F
from pydantic import Field, model_validator
from torch import Tensor, nn

from polyseme.config import Config
from polyseme.layers.attention import AttentionContext, SelfAttention
from polyseme.layers.dropout import Dropout
from polyseme.layers.linear import Linear

Activation = Literal["gelu", "gelu_tanh", "relu"]

_LINEAR = 2 * math.sqrt(2 / math.pi)
_CUBIC = 0.044715 * _LINEAR


class BlockConfig(Config):
    """Sizes of a stack of Transformer layers."""

    width: int = Field(768, ge=1)  # of every layer
    num_layers: int = Field(12, ge=1)
    num_heads: int = Field(12, ge=1)  # attention heads, each of size width / num_heads
    inner_width: int = Field(3072, ge=1)  # of the feed-forward sublayer; 4 · width by default
    dropout: float = Field(0.1, ge=0, lt=1)  # on embeddings, attention weights and sublayer outputs
    activation: Activation = "gelu"
    epsilon: float = Field(1e-5, gt=0)  # of the layer norms

    @model_validator(mode="before")
    @classmethod
    def _default_inner_width(cls, values: dict[str, Any]) -> dict[str, Any]:
        if "width" in values and "inner_width" not in values and isinstance(values["width"], int):
            return {**values, "inner_width": 4 * values["width"]}
        return values

    @model_validator(mode="after")
    def _check_num_heads(self) -> Self:
        if self.width % self.num_heads:
            raise ValueError(f"width = {self.width} is not divisible by num_heads = {self.num_heads}; change one")
        return self


class _GeluTanh(torch.autograd.Function):
    """Tanh approximation of GELU (Hendrycks and Gimpel, 2016), which torch computes slowly on a CPU.

    The equal form x · sigmoid(a x + b x³) needs fewer passes over memory and no tanh: twice as fast.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        gate = torch.addcmul(x.new_tensor(_LINEAR), x, x, value=_CUBIC).mul_(x).sigmoid_()
        ctx.save_for_backward(x, gate)
        return gate * x

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> Tensor:
        x, gate = ctx.saved_tensors
        slope = torch.addcmul(x.new_tensor(_LINEAR), x, x, value=3 * _CUBIC)
        return slope.mul_(x).mul_(1 - gate).add_(1).mul_(gate).mul_(upstream[0])


def activate(x: Tensor, activation: Activation) -> Tensor:
    """Apply an activation function; the exact and the tanh form of GELU are not interchangeable."""
    if activation == "relu":
        return F.relu(x)
    if activation == "gelu":
        return F.gelu(x)
    if x.is_cpu and x.requires_grad:
        return _GeluTanh.apply(x)  # type: ignore[no-any-return, no-untyped-call]
    return F.gelu(x, approximate="tanh")


class FeedForward(nn.Module):
    """Position-wise feed-forward network (Vaswani et al., 2017, section 3.3)."""

    def __init__(self, width: int, inner_width: int, activation: Activation) -> None:
        super().__init__()
        self.inner = Linear(width, inner_width)
        self.outer = Linear(inner_width, width)
        self.activation = activation

    def forward(self, x: Tensor) -> Tensor:
        return self.outer(activate(self.inner(x), self.activation))  # type: ignore[no-any-return]


class _Block(nn.Module):
    """Self-attention and a feed-forward network, each with a residual connection and a layer norm."""

    def __init__(self, config: BlockConfig) -> None:
        super().__init__()
        self.attention = SelfAttention(config.width, config.num_heads, config.dropout)
        self.attention_norm = nn.LayerNorm(config.width, eps=config.epsilon)
        self.feed_forward = FeedForward(config.width, config.inner_width, config.activation)
        self.feed_forward_norm = nn.LayerNorm(config.width, eps=config.epsilon)
        self.drop = Dropout(config.dropout)


class PostNormBlock(_Block):
    """Adds each sublayer to its input and normalizes the sum (post-LN)."""

    def forward(self, x: Tensor, context: AttentionContext, layer: int = 0) -> Tensor:
        x = self.attention_norm(x + self.drop(self.attention(x, context, layer)))
        return self.feed_forward_norm(x + self.drop(self.feed_forward(x)))  # type: ignore[no-any-return]


class PreNormBlock(_Block):
    """Normalizes the input of each sublayer and leaves the residual stream as it is (pre-LN)."""

    def forward(self, x: Tensor, context: AttentionContext, layer: int = 0) -> Tensor:
        x = x + self.drop(self.attention(self.attention_norm(x), context, layer))
        return x + self.drop(self.feed_forward(self.feed_forward_norm(x)))  # type: ignore[no-any-return]
