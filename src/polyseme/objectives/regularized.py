"""Predict the next token, with layers that stay small and slow (Merity et al., 2017), in rows of drawn lengths."""

from __future__ import annotations

import dataclasses
import functools
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor, nn

from polyseme.models.base import Encoder
from polyseme.objectives.base import ObjectiveConfig, Source, generator
from polyseme.objectives.next_token import NextToken
from polyseme.tensors import Batch, Encoded, Outcome

_BLOCK = 1024  # lengths that are drawn together
_SHORTEST, _DEVIATION = 5, 5  # tokens
_HALVED = 0.05  # share of the rows that are cut about half as long


class RegularizedConfig(ObjectiveConfig):
    """What the top layer is held to, and how its rows are cut."""

    kind: Literal["regularized"] = "regularized"
    small: float = Field(2.0, ge=0)  # α: how much the squares of its numbers cost
    slow: float = Field(1.0, ge=0)  # β: how much the squares of its changes from token to token cost
    lengths: Literal["drawn", "fixed"] = "drawn"  # drawn: about data.length, another in each step


class Regularized(NextToken):
    """The output is the embedding and a bias."""

    def __init__(self, config: RegularizedConfig, encoder: Encoder) -> None:
        super().__init__()
        self.config = config
        self.backward = encoder.context == "right"
        self.bias = nn.Parameter(torch.zeros(encoder.config.vocab_size))

    def draw(self, source: Source, *, seed: int, step: int) -> Batch:
        read, length = step * source.length, source.length
        if self.config.lengths == "drawn" and not source.measuring:
            read, length = drawn_span(source.length, seed=seed, step=step)
        places = source.streams(read, length + 1, seed=seed)
        row = torch.from_numpy(source.read(-1 - places if self.backward else places))  # as it is read, (B, T + 1)
        ids, labels = row[:, :-1], row[:, 1:]
        if self.backward:
            ids, labels = ids.flip(1), labels.flip(1)
        batch = Batch.of(ids.contiguous(), continues=True, stretch=length / source.length)
        return batch.labelled("next_token", labels.contiguous())

    def output(self, encoder: Encoder) -> tuple[Tensor, Tensor | None]:
        return encoder.tokens.weight, self.bias

    def cost(self, encoder: Encoder, encoded: Encoded, batch: Batch) -> Outcome:
        if not self.training:
            return super().cost(encoder, encoded, batch)
        top = encoded.layers[-1]  # (B, T, D)
        dropped = encoder.get_submodule("drop_output")(top)
        outcome = super().cost(encoder, dataclasses.replace(encoded, layers=(*encoded.layers[:-1], dropped)), batch)
        # Sums which the count of the tokens turns into the means of the paper.
        length, width = top.shape[1:]
        small = dropped.square().sum() / width
        slow = top.diff(dim=1).square().sum() / width * length / max(1, length - 1)
        penalty = self.config.small * small + self.config.slow * slow
        # Minimised with the rest, but no nats of the text: it adds its gradient and nothing else.
        return Outcome(losses={"next_token": outcome.losses["next_token"] + (penalty - penalty.detach())})


def drawn_span(length: int, *, seed: int, step: int) -> tuple[int, int]:
    """How much of its text a row has read before a step, and how much it reads in it."""
    block, place = divmod(step, _BLOCK)
    before = sum(int(_lengths(length, seed, number).sum()) for number in range(block))
    lengths = _lengths(length, seed, block)
    return before + int(lengths[:place].sum()), int(lengths[place])


@functools.lru_cache(maxsize=4096)
def _lengths(length: int, seed: int, block: int) -> NDArray[np.int64]:
    chance = generator(seed, "lengths", block)
    means = np.where(chance.random(_BLOCK) < _HALVED, length / 2, length)
    return np.maximum(_SHORTEST, chance.normal(means, _DEVIATION).astype(np.int64))
