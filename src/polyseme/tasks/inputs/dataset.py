"""Examples of a task as batches of about the same length, a pure function of seed and step."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from polyseme.arrays import Integers
from polyseme.batch import IGNORED, Batch
from polyseme.objectives.bucketing import LengthBuckets
from polyseme.step_schedule import NO_SCHEDULE, StepSchedule
from polyseme.tasks.inputs.input_formatter import EncodedRow, InputFormatter


@dataclass(frozen=True, kw_only=True)
class Instance:
    """Token sequences with one target: an example, or a part of one that is too long."""

    example: int  # index
    rows: Sequence[EncodedRow]
    label: ArrayLike  # a number, or several for the first row


@dataclass(frozen=True, kw_only=True, eq=False)
class TaskDataset:
    """Encoded examples of a task."""

    instances: Sequence[Instance]
    formatter: InputFormatter
    num_rows: int  # instances per batch
    batches: LengthBuckets
    schedule: StepSchedule = NO_SCHEDULE

    @classmethod
    def of(cls, instances: Sequence[Instance], formatter: InputFormatter, *, num_rows: int) -> Self:
        """Split instances into batches with the same number of rows per instance and about the same length."""
        groups = np.array([len(instance.rows) for instance in instances])
        longest = np.array([max(len(row.ids) for row in instance.rows) for instance in instances])
        bounds = [0]
        for _, number in zip(*np.unique(groups, return_counts=True), strict=True):
            num_batches = -(-number // num_rows)
            bounds += (bounds[-1] + np.arange(1, num_batches + 1) * number // num_batches).tolist()
        lengths = groups * (longest.max() + 1) + longest  # keeps numbers of rows apart
        batches = LengthBuckets(lengths, np.array(bounds))
        return cls(instances=instances, formatter=formatter, num_rows=num_rows, batches=batches)

    @property
    def num_batches(self) -> int:
        """Batches per epoch."""
        return len(self.batches)

    @property
    def num_tokens(self) -> int:
        """Tokens per epoch."""
        return sum(len(row.ids) for instance in self.instances for row in instance.rows)

    @property
    def length(self) -> int:
        """Tokens of the longest row."""
        return max(len(row.ids) for instance in self.instances for row in instance.rows)

    def with_shorter_sequences(self, divisor: int) -> Self:
        """Return the dataset unchanged: the length of examples is given."""
        return self

    def draw(self, name: str, *, seed: int, step: int) -> Batch:
        """Return the batch of a step, labelled under a task name."""
        return self.batch(self.batches.draw(seed=seed, step=step), name)

    def batch(self, numbers: Integers, name: str) -> Batch:
        """Return some instances as a batch, labelled under a task name."""
        instances = [self.instances[number] for number in numbers]
        rows = [row for instance in instances for row in instance.rows]
        batch = self.formatter.batch(rows, rows_per_example=len(instances[0].rows))
        labels = [np.asarray(instance.label) for instance in instances]
        return batch.with_labels(name, _labels(labels, batch.rows_per_example))


def _labels(labels: Sequence[NDArray[Any]], rows_per_example: int) -> Tensor:
    """Place labels at the first row of each instance, (B,) or (B, N)."""
    placed = np.full((len(labels) * rows_per_example, max(label.size for label in labels)), IGNORED, labels[0].dtype)
    for number, label in enumerate(labels):
        placed[number * rows_per_example, : label.size] = label
    return torch.from_numpy(placed if labels[0].ndim else placed[:, 0])
