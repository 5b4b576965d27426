"""Batches of several tasks: each step has a batch of one of them (Liu et al., 2019)."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np

from polyseme.arrays import Integers
from polyseme.batch import Batch
from polyseme.objectives.sources import rng
from polyseme.step_schedule import NO_SCHEDULE, StepSchedule
from polyseme.tasks.inputs.dataset import TaskDataset

SUPERVISED_WARMUP = 0.25  # fraction of the steps before unlabelled batches are used


@dataclass(frozen=True, kw_only=True, eq=False)
class MultiTaskDataset:
    """Datasets of tasks by name; an epoch has each of their batches once, in random order."""

    sources: Mapping[str, TaskDataset]
    schedule: StepSchedule = NO_SCHEDULE

    @property
    def num_rows(self) -> int:
        """Instances per batch, at most."""
        return max(source.num_rows for source in self.sources.values())

    @property
    def num_batches(self) -> int:
        return sum(source.num_batches for source in self.sources.values())

    @property
    def num_tokens(self) -> int:
        return sum(source.num_tokens for source in self.sources.values())

    @property
    def length(self) -> int:
        return max(source.length for source in self.sources.values())

    def with_shorter_sequences(self, divisor: int) -> Self:
        """Return the dataset unchanged: the length of examples is given."""
        return self

    def draw(self, *, seed: int, step: int) -> Batch:
        """Return the batch of a step, labelled under the name of its task."""
        numbers = tuple(source.num_batches for source in self.sources.values())
        epoch, position = divmod(step, sum(numbers))
        order = _epoch(numbers, seed, epoch)
        name = list(self.sources)[order[position]]
        source, before = self.sources[name], int((order[:position] == order[position]).sum())
        return source.draw(name, seed=seed, step=epoch * source.num_batches + before)


@dataclass(frozen=True, kw_only=True, eq=False)
class SemiSupervisedDataset(MultiTaskDataset):
    """Alternates labelled and unlabelled batches after a supervised warm-up."""

    unlabelled: MultiTaskDataset

    @property
    def num_batches(self) -> int:
        """Batches per epoch of the labelled data."""
        return round(super().num_batches * 2 / (1 + SUPERVISED_WARMUP))

    @property
    def num_tokens(self) -> int:
        unlabelled_epochs = (self.num_batches - super().num_batches) / self.unlabelled.num_batches
        return super().num_tokens + round(unlabelled_epochs * self.unlabelled.num_tokens)

    @property
    def length(self) -> int:
        return max(super().length, self.unlabelled.length)

    def draw(self, *, seed: int, step: int) -> Batch:
        warmup = min(step, round(SUPERVISED_WARMUP * self.schedule.steps))
        turn, unlabelled = divmod(step - warmup, 2)
        if unlabelled:
            return self.unlabelled.draw(seed=seed, step=turn)
        return super().draw(seed=seed, step=warmup + turn)


@functools.lru_cache(maxsize=4)
def _epoch(num_batches: tuple[int, ...], seed: int, epoch: int) -> Integers:
    """The task index of each batch of an epoch."""
    return rng(seed, "tasks", epoch).permutation(np.repeat(np.arange(len(num_batches)), num_batches))
