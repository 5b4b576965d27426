"""Predict each token from those before it (Radford et al., 2019); the output layer is the embedding itself."""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch
from torch import Tensor

from polyseme.layers.linear import linear
from polyseme.layers.softmax import linear_cross_entropy, token_nats
from polyseme.models.base import Encoder
from polyseme.objectives.base import Objective, ObjectiveConfig, Source
from polyseme.tensors import IGNORED, Batch, Encoded, Outcome


class NextTokenConfig(ObjectiveConfig):
    """Nothing to choose."""

    kind: Literal["next_token"] = "next_token"


class NextToken(Objective):
    """Rows are cut from the running text, over document ends, which a token marks."""

    def draw(self, source: Source, *, seed: int, step: int) -> Batch:
        starts = source.starts(source.length, seed=seed, step=step)
        row = torch.from_numpy(source.read(starts[:, None] + np.arange(source.length + 1)))  # (B, T + 1)
        return Batch.of(row[:, :-1].contiguous()).labelled("next_token", row[:, 1:].contiguous())

    def cost(self, encoder: Encoder, encoded: Encoded, batch: Batch) -> Outcome:
        labels = batch.labels["next_token"]
        scored = labels != IGNORED
        everything = batch.counts["next_token"] == labels.numel()
        hidden, targets = encoded.layers[-1], labels
        hidden, targets = (hidden.flatten(0, 1), targets.flatten()) if everything else (hidden[scored], targets[scored])
        if self.training:
            return Outcome(losses={"next_token": linear_cross_entropy(hidden, *self.output(encoder), targets)})
        nats, right = token_nats(hidden, *self.output(encoder), targets)
        return Outcome(losses={"next_token": nats.sum()}, correct={"next_token": right.sum()})

    def output(self, encoder: Encoder) -> tuple[Tensor, Tensor | None]:
        """The matrix and the bias by which every token is scored."""
        return encoder.tokens.weight, None

    def logits(self, encoder: Encoder, hidden: Tensor) -> Tensor:
        """Scores of every token as the next one, (…, V)."""
        return linear(hidden, *self.output(encoder))
