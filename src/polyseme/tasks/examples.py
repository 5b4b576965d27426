"""Where the batches of a task come from: examples of about the same length, as a pure function of seed and step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from polyseme.course import NO_COURSE, Course
from polyseme.objectives.by_length import Batches
from polyseme.tasks.layout import Layout, Row
from polyseme.tensors import IGNORED, Batch
from polyseme.text.utf16 import Numbers


@dataclass(frozen=True, kw_only=True)
class Item:
    """What is asked at once: an example, or a part of one that is too long."""

    example: int  # which one
    rows: Sequence[Row]
    label: ArrayLike  # a number, or several of its first row


@dataclass(frozen=True, kw_only=True, eq=False)
class Examples:
    """Examples of a task as a model reads them."""

    items: Sequence[Item]
    layout: Layout
    num_rows: int  # items a batch
    batches: Batches
    course: Course = NO_COURSE  # of the run

    @classmethod
    def of(cls, items: Sequence[Item], layout: Layout, *, num_rows: int) -> Self:
        """Cut items into batches of as many rows each and about the same length."""
        groups = np.array([len(item.rows) for item in items])
        longest = np.array([max(len(row.ids) for row in item.rows) for item in items])
        bounds = [0]
        for _, number in zip(*np.unique(groups, return_counts=True), strict=True):
            num_batches = -(-number // num_rows)
            bounds += (bounds[-1] + np.arange(1, num_batches + 1) * number // num_batches).tolist()
        lengths = groups * (longest.max() + 1) + longest  # so that another number of rows is far away
        return cls(items=items, layout=layout, num_rows=num_rows, batches=Batches(lengths, np.array(bounds)))

    @property
    def num_batches(self) -> int:
        """Of an epoch."""
        return len(self.batches)

    @property
    def num_tokens(self) -> int:
        """Of all rows."""
        return sum(len(row.ids) for item in self.items for row in item.rows)

    @property
    def length(self) -> int:
        """Tokens of the longest row."""
        return max(len(row.ids) for item in self.items for row in item.rows)

    def shortened(self, divisor: int) -> Examples:
        """The same: texts are as long as they are."""
        return self

    def draw(self, name: str, *, seed: int, step: int) -> Batch:
        """The batch of a step, with what is asked of it under a name."""
        return self.batch(self.batches.draw(seed=seed, step=step), name)

    def batch(self, numbers: Numbers, name: str) -> Batch:
        """Some items, with what is asked of them under a name."""
        items = [self.items[number] for number in numbers]
        batch = self.layout.batch([row for item in items for row in item.rows], group=len(items[0].rows))
        return batch.labelled(name, _labels([np.asarray(item.label) for item in items], batch.group))


def _labels(labels: Sequence[NDArray[Any]], group: int) -> Tensor:
    """What is right, at the first row of each group, (B,) or (B, N)."""
    found = np.full((len(labels) * group, max(label.size for label in labels)), IGNORED, labels[0].dtype)
    for number, label in enumerate(labels):
        found[number * group, : label.size] = label
    return torch.from_numpy(found if labels[0].ndim else found[:, 0])
