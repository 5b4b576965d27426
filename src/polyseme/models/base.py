"""What every family is: a map from rows of tokens to all of its layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from polyseme.config import Config
from polyseme.layers.attention import Allowed
from polyseme.models.names import Foreign
from polyseme.tensors import Batch, Encoded, State
from polyseme.text.tokenizer import Tokenizer

Context = Literal["none", "left", "right", "both"]
Layout = Literal["framed", "marked", "apart"]


class ModelConfig(Config):
    """What every family has to know of its size."""

    vocab_size: int = Field(8192, ge=1)  # tokens with a vector of their own; the tokenizer is trained to it
    max_length: int = Field(512, ge=1)  # tokens that a row may have


class Encoder(nn.Module):
    """One per family."""

    Config: ClassVar[type[ModelConfig]]
    context: Context  # which other tokens a token's vector may depend on
    layout: Layout = "apart"  # how it reads two texts: in one frame, between marks of a task, or one by one
    any_length: ClassVar[bool] = False  # whether a task may read longer rows: nothing in it is as long as a row
    pools: ClassVar[bool] = False  # whether a layer of its own makes the summary
    biattentive: ClassVar[bool] = False  # whether tasks read texts against each other, word by word, from its vectors
    reads_letters: ClassVar[bool] = False
    foreign: ClassVar[Foreign | None] = None  # its names in the transformers library, which opens its directories

    config: Any
    widths: tuple[int, ...]  # of each layer
    tokens: nn.Embedding  # layer 0 looks words up here; output layers may be tied to it

    @property
    def device(self) -> torch.device:
        """Where its weights are."""
        weight = next(self.parameters(), None)
        return self.tokens.weight.device if weight is None else weight.device  # all in bytes

    def spell(self, tokenizer: Tokenizer) -> None:
        """Take note of how tokens are written, where their letters matter."""

    def letters(self, words: Sequence[str]) -> Tensor | None:
        """The letters of words that the vocabulary lacks, (N, C), where they can be read from these."""
        return None

    def forward(self, batch: Batch, state: State | None = None) -> Encoded:
        """Encode rows of tokens, going on from `state` where the family can."""
        raise NotImplementedError

    def summarize(self, encoded: Encoded) -> Tensor:
        """One vector a row, (B, summary width)."""
        raise NotImplementedError

    def stages(self) -> list[nn.Module]:
        """Its parts from bottom to top, for unfreezing and layer-wise rates."""
        raise NotImplementedError

    def begin(self, num_rows: int, max_length: int) -> State | None:
        """An empty state with room for so many tokens, for families that read left to right."""
        return None


def visible(batch: Batch) -> Allowed:
    """What attention is allowed to see: all, or real tokens (B, 1, 1, T), or each row that lies after another."""
    if batch.lengths is not None:
        return batch.lengths
    if not torch.compiler.is_compiling() and bool(batch.mask.all()):  # a graph is for rows with padding too
        return None
    return batch.mask[:, None, None, :]


def placed(positions: nn.Embedding, batch: Batch, *, start: int = 0) -> Tensor:
    """The vectors of the places of tokens in their row, whose first is `start`, (T, D)."""
    if batch.lengths is None:
        return positions.weight[start : start + batch.ids.shape[1]]
    return torch.cat([positions.weight[start : start + length] for length in batch.lengths])
