"""Vectors that know no context: a word has one, whatever stands around it.

Set apart from all that came later by having a single layer, and from each other only by how it is learnt: by counting
(classes of words, SVD), by predicting neighbours (word2vec) or by fitting how often words meet (GloVe).
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from polyseme.models.base import Encoder, ModelConfig
from polyseme.tensors import Batch, Encoded, State


class VectorsConfig(ModelConfig):
    """The sizes of a table of vectors."""

    vocab_size: int = Field(100_000, ge=1)  # words at most; rare ones have no vector
    width: int = Field(100, ge=1)


class Vectors(Encoder):
    """See the top of this file."""

    Config = VectorsConfig
    context = "none"
    any_length = True

    def __init__(self, config: VectorsConfig) -> None:
        super().__init__()
        self.config = config
        self.widths = (config.width,)
        # Twice as large as in the paper's program of word2vec: CBOW is better after few passes (measured).
        weight = torch.empty(config.vocab_size, config.width).uniform_(-1 / config.width, 1 / config.width)
        self.tokens = nn.Embedding(config.vocab_size, config.width, _weight=weight)

    def forward(self, batch: Batch, state: State | None = None) -> Encoded:
        return Encoded(layers=(self.tokens(batch.ids),), mask=batch.mask, lengths=batch.lengths)

    def summarize(self, encoded: Encoded) -> Tensor:
        return encoded.mean()

    def stages(self) -> list[nn.Module]:
        return [self.tokens]


class OneHotConfig(ModelConfig):
    """The size of a vocabulary, which is the width as well."""


class OneHot(Vectors):
    """Every word as far from all others as from any: a one in its own place, found by its id and never stored."""

    Config = OneHotConfig  # type: ignore[assignment]

    def __init__(self, config: OneHotConfig) -> None:
        Encoder.__init__(self)
        self.config = config
        self.widths = (config.vocab_size,)
        self.tokens = nn.Embedding(config.vocab_size, 0, _weight=torch.empty(config.vocab_size, 0))

    def forward(self, batch: Batch, state: State | None = None) -> Encoded:
        layer = F.one_hot(batch.ids, self.config.vocab_size).to(self.tokens.weight.dtype)
        return Encoded(layers=(layer,), mask=batch.mask, lengths=batch.lengths)
