"""Static word embeddings: one vector per word, whatever its context.

The encoder of all static families but one-hot. They differ in training only: by counting (word clusters, SVD), by
predicting neighbours (word2vec) or by regression on log co-occurrence counts (GloVe).
"""

import torch
from pydantic import Field
from torch import nn

from polyseme.batch import Batch, Encoded, State
from polyseme.models.base import Encoder, ModelConfig


class StaticEmbeddingConfig(ModelConfig):
    """The sizes of an embedding table."""

    vocab_size: int = Field(100_000, ge=1)  # the most frequent words that get a vector
    width: int = Field(100, ge=1)


class StaticEmbedding(Encoder):
    """An embedding table as an encoder with a single layer."""

    Config = StaticEmbeddingConfig
    context = "none"
    unlimited_length = True

    def __init__(self, config: StaticEmbeddingConfig) -> None:
        super().__init__(config)
        self.widths = (config.width,)
        # Twice the range of the original word2vec code: CBOW is better after few epochs (measured).
        weight = torch.empty(config.vocab_size, config.width).uniform_(-1 / config.width, 1 / config.width)
        self.tokens = nn.Embedding(config.vocab_size, config.width, _weight=weight)

    def forward(self, batch: Batch, state: State | None = None) -> Encoded:
        return Encoded(layers=(self.tokens(batch.ids),), mask=batch.mask, packed_lengths=batch.packed_lengths)

    def layer_groups(self) -> list[nn.Module]:
        return [self.tokens]
