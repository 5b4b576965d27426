"""Batches of things of about the same length.

Each epoch puts the things of a length in another order and cuts the batches anew, and these come in another order too.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from polyseme.objectives.base import generator
from polyseme.text.utf16 import Numbers


@dataclass(frozen=True, eq=False)
class Batches:
    """How things are cut into batches once they are sorted by their length."""

    lengths: Numbers
    bounds: Numbers  # where batches begin and end

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def __iter__(self) -> Iterator[Numbers]:
        """The numbers of all things, batch by batch."""
        yield from np.split(np.argsort(self.lengths, kind="stable"), self.bounds[1:-1])

    def draw(self, *, seed: int, step: int) -> Numbers:
        """The numbers of the things of a step."""
        epoch, place = divmod(step, len(self))
        order, numbers = _epoch(self, seed, epoch)
        number = numbers[place]
        return order[self.bounds[number] : self.bounds[number + 1]]


@functools.lru_cache(maxsize=4)
def _epoch(batches: Batches, seed: int, epoch: int) -> tuple[Numbers, Numbers]:
    """The order of the things, by length and by chance where that is the same, and that of the batches."""
    chance = generator(seed, "order", epoch)
    order = np.argsort(batches.lengths + chance.random(len(batches.lengths)))
    return order, chance.permutation(len(batches))
