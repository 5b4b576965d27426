"""One-hot vectors: the encoder, its settings, and a trainer without steps to take."""

from typing import Literal

import torch
import torch.nn.functional as F
from torch import nn

from polyseme.batch import Batch, Encoded, State
from polyseme.models.base import Encoder, ModelConfig
from polyseme.static_embeddings.base import StaticTrainer
from polyseme.static_embeddings.config import StaticObjectiveConfig
from polyseme.static_embeddings.encoder import StaticEmbedding


class OneHotConfig(ModelConfig):
    """The vocabulary size, which is the width as well."""


class OneHot(StaticEmbedding):
    """One-hot vectors, computed from the ids and never stored."""

    Config = OneHotConfig  # type: ignore[assignment]

    def __init__(self, config: OneHotConfig) -> None:
        Encoder.__init__(self, config)
        self.widths = (config.vocab_size,)
        self.tokens = nn.Embedding(config.vocab_size, 0, _weight=torch.empty(config.vocab_size, 0))

    def forward(self, batch: Batch, state: State | None = None) -> Encoded:
        layer = F.one_hot(batch.ids, self.config.vocab_size).to(self.tokens.weight.dtype)
        return Encoded(layers=(layer,), mask=batch.mask, packed_lengths=batch.packed_lengths)


class OneHotObjectiveConfig(StaticObjectiveConfig):
    """No settings: one-hot vectors have no parameters."""

    full_batch = True
    trainer = "onehot:OneHotTrainer"
    kind: Literal["onehot"] = "onehot"


class OneHotTrainer(StaticTrainer):
    """No-op trainer: one-hot vectors have no parameters."""

    def train_step(self) -> dict[str, float]:
        return {}
