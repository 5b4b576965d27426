"""Where the batches of several tasks come from: each step has a batch of one of them (Liu et al., 2019)."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from polyseme.course import NO_COURSE, Course
from polyseme.objectives.base import generator
from polyseme.tasks.examples import Examples
from polyseme.tensors import Batch
from polyseme.text.utf16 import Numbers

ALONE = 0.25  # of the steps, with labels alone before others come


@dataclass(frozen=True, kw_only=True, eq=False)
class Several:
    """The examples of tasks by name: an epoch has each batch of each of them once, in an order of chance."""

    sources: Mapping[str, Examples]
    course: Course = NO_COURSE  # of the run

    @property
    def num_rows(self) -> int:
        """Items a batch, at most."""
        return max(source.num_rows for source in self.sources.values())

    @property
    def num_batches(self) -> int:
        """Of an epoch."""
        return sum(source.num_batches for source in self.sources.values())

    @property
    def num_tokens(self) -> int:
        """Of an epoch."""
        return sum(source.num_tokens for source in self.sources.values())

    @property
    def length(self) -> int:
        """Tokens of the longest row."""
        return max(source.length for source in self.sources.values())

    def shortened(self, divisor: int) -> Several:
        """The same: texts are as long as they are."""
        return self

    def draw(self, *, seed: int, step: int) -> Batch:
        """The batch of a step, with what is asked of it under the name of its task."""
        numbers = tuple(source.num_batches for source in self.sources.values())
        epoch, place = divmod(step, sum(numbers))
        order = _epoch(numbers, seed, epoch)
        name = list(self.sources)[order[place]]
        source, before = self.sources[name], int((order[:place] == order[place]).sum())
        return source.draw(name, seed=seed, step=epoch * source.num_batches + before)


@dataclass(frozen=True, kw_only=True, eq=False)
class Alternating(Several):
    """The same by turns with others that have no labels, after a while alone: who knows nothing yet teaches nothing."""

    unlabelled: Several

    @property
    def num_batches(self) -> int:
        """Of an epoch of those with labels."""
        return round(super().num_batches * 2 / (1 + ALONE))

    @property
    def num_tokens(self) -> int:
        share = (self.num_batches - super().num_batches) / self.unlabelled.num_batches
        return super().num_tokens + round(share * self.unlabelled.num_tokens)

    @property
    def length(self) -> int:
        return max(super().length, self.unlabelled.length)

    def draw(self, *, seed: int, step: int) -> Batch:
        alone = min(step, round(ALONE * self.course.steps))
        turn, unlabelled = divmod(step - alone, 2)
        if unlabelled:
            return self.unlabelled.draw(seed=seed, step=turn)
        return super().draw(seed=seed, step=alone + turn)


@functools.lru_cache(maxsize=4)
def _epoch(num_batches: tuple[int, ...], seed: int, epoch: int) -> Numbers:
    """Which task each batch of an epoch is of."""
    return generator(seed, "tasks", epoch).permutation(np.repeat(np.arange(len(num_batches)), num_batches))
