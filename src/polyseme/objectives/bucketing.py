"""Batches of items of about equal length.

Each epoch shuffles the items of equal length, cuts the batches anew and shuffles the batches.
"""

import functools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from polyseme.arrays import Integers
from polyseme.objectives.sources import rng


@dataclass(frozen=True, eq=False)
class LengthBuckets:
    """How items are cut into batches after sorting by length."""

    lengths: Integers
    bounds: Integers  # of the batches

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def __iter__(self) -> Iterator[Integers]:
        """Item indices, batch by batch, shortest first."""
        yield from np.split(np.argsort(self.lengths, kind="stable"), self.bounds[1:-1])

    def draw(self, *, seed: int, step: int) -> Integers:
        """Item indices of the batch of a step."""
        epoch, index = divmod(step, len(self))
        items, batches = _epoch_order(self, seed, epoch)
        number = batches[index]
        return items[self.bounds[number] : self.bounds[number + 1]]


@functools.lru_cache(maxsize=4)
def _epoch_order(buckets: LengthBuckets, seed: int, epoch: int) -> tuple[Integers, Integers]:
    """Items sorted by length, shuffled among equals; and the shuffled batches."""
    generator = rng(seed, "order", epoch)
    items = np.argsort(buckets.lengths + generator.random(len(buckets.lengths)))
    return items, generator.permutation(len(buckets))
