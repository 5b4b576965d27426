"""Predict each token from those before it (Radford et al., 2019); the output layer is the embedding itself."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from polyseme.layers.linear import linear
from polyseme.layers.softmax import linear_cross_entropy, token_nats
from polyseme.models.base import Encoder
from polyseme.objectives.base import Objective, ObjectiveConfig, Source
from polyseme.tensors import IGNORED, Batch, Encoded, Outcome
from polyseme.text.store import Store


class NextTokenConfig(ObjectiveConfig):
    """Nothing to choose."""

    kind: Literal["next_token"] = "next_token"


class NextToken(Objective):
    """Rows are cut from the running text, over document ends, which a token marks."""

    name: ClassVar[str] = "next_token"

    def draw(self, source: Source, *, seed: int, step: int) -> Batch:
        room = source.length - len(source.before)
        starts = source.starts(room, seed=seed, step=step)
        row = torch.from_numpy(source.read(starts[:, None] + np.arange(room + 1)))  # (B, T + 1)
        ids, labels = row[:, :-1].contiguous(), row[:, 1:].contiguous()
        if source.before:
            before = torch.tensor(source.before).expand(len(ids), -1)
            ids, labels = torch.cat([before, ids], 1), torch.cat([torch.full_like(before, IGNORED), labels], 1)
        return Batch.of(ids).labelled("next_token", labels)

    def cost(self, encoder: Encoder, encoded: Encoded, batch: Batch) -> Outcome:
        hidden, targets = scored(self.read(encoded), batch, self.name)
        if self.training:
            return Outcome(losses={self.name: self.loss(encoder, hidden, targets, batch)})
        nats, right = self.nats(encoder, hidden, targets)
        return Outcome(losses={self.name: nats.sum()}, correct={self.name: right.sum()})

    def read(self, encoded: Encoded) -> Tensor:
        """The vectors that the next tokens are predicted from, (B, T, D)."""
        return encoded.layers[-1]

    def loss(self, encoder: Encoder, hidden: Tensor, targets: Tensor, batch: Batch) -> Tensor:
        """What is minimised: the nats of targets (N,), given vectors (N, D), summed."""
        return linear_cross_entropy(hidden, *self.output(encoder), targets)

    def nats(self, encoder: Encoder, hidden: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """The nats of each target, and whether it was the likeliest."""
        return token_nats(hidden, *self.output(encoder), targets)

    def figures(self, means: Mapping[str, float], source: Any) -> dict[str, float]:
        bits = means[self.name] / math.log(2) * self.num_asked(source.store)
        return {"bits_per_character": bits / max(1, source.store.num_characters)}

    def num_asked(self, store: Store) -> int:
        """How many tokens are predicted in reading a text once."""
        return store.num_tokens

    def output(self, encoder: Encoder) -> tuple[Tensor, Tensor | None]:
        """The matrix and the bias by which every token is scored."""
        return encoder.tokens.weight, None

    def logits(self, encoder: Encoder, hidden: Tensor) -> Tensor:
        """Scores of every token as the next one, (…, V)."""
        return linear(hidden, *self.output(encoder))


def scored(hidden: Tensor, batch: Batch, name: str) -> tuple[Tensor, Tensor]:
    """The vectors (N, D) of the places that are asked about, and what is right there, (N,)."""
    labels = batch.labels[name]
    if batch.counts[name] == labels.numel():
        return hidden.flatten(0, 1), labels.flatten()
    asked = labels != IGNORED
    return hidden[asked], labels[asked]
