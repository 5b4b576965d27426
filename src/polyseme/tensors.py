"""What passes between text, models and objectives.

Shapes are written with these letters everywhere: B rows of a batch, T tokens of a row, D width, H heads,
V vocabulary, C characters of a token.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

IGNORED = -100
"""The label of a position that is not scored."""


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Rows of tokens with what is asked of them."""

    ids: Tensor  # (B, T)
    mask: Tensor  # (B, T), True on real tokens
    mirrored: Tensor | None = None  # (B, T) for those that read from the end as well: other rows, as they read them
    segments: Tensor | None = None  # (B, T)
    letters: Tensor | None = None  # (N, C) of words that the vocabulary lacks, whose ids go on behind it
    drawn: tuple[Tensor, Tensor] | None = None  # words (N,) to hold against the true ones, and how likely each came in
    documents: Tensor | None = None  # (B, T) which packed document a token belongs to
    units: Tensor | None = None  # (B, T) bits of the units that a token shares with the token before
    lengths: tuple[int, ...] | None = None  # of rows that lie one after another in a single one (B = 1), unpadded
    labels: Mapping[str, Tensor] = field(default_factory=dict)  # one entry per loss term, IGNORED where not scored
    counts: Mapping[str, int] = field(default_factory=dict)  # scored items per loss term
    continues: bool = False  # rows go on where those of the batch before ended
    carried: Mapping[str, Tensor] = field(default_factory=dict)  # the recurrent state that they go on from, rows first
    stretch: float = 1.0  # by what its rows are longer than usual, and the rate of their step higher
    chunk: int = 0  # tokens of a row between which a recurrent state passes a gradient back; 0: all
    group: int = 1  # rows that belong together; what is asked of all of them stands at the first

    @classmethod
    def of(cls, ids: Tensor, **rest: Any) -> Batch:
        """Rows without padding."""
        return cls(ids=ids, mask=torch.ones_like(ids, dtype=torch.bool), **rest)

    def labelled(self, name: str, labels: Tensor) -> Batch:
        """The same rows with one more thing asked of them."""
        count = int((labels != IGNORED).sum())
        return dataclasses.replace(self, labels={**self.labels, name: labels}, counts={**self.counts, name: count})

    def split(self, num_rows: int) -> Iterator[Batch]:
        """The rows in parts of at most `num_rows`, or as many as whole groups take, each with its own counts."""
        num_rows = -(-num_rows // self.group) * self.group
        if num_rows >= len(self.ids):
            yield self
            return
        for start in range(0, len(self.ids), num_rows):
            yield self._each(lambda tensor, rows=slice(start, start + num_rows): tensor[rows])

    def to(self, device: torch.device) -> Batch:
        """The same batch in another memory."""
        if self.ids.device == device:
            return self

        def moved(tensor: Tensor) -> Tensor:
            return tensor.to(device, non_blocking=True)

        letters = None if self.letters is None else moved(self.letters)
        drawn = None if self.drawn is None else (moved(self.drawn[0]), moved(self.drawn[1]))
        return dataclasses.replace(self._each(moved), letters=letters, drawn=drawn)

    def _each(self, change: Any) -> Batch:
        def changed(tensor: Tensor | None) -> Tensor | None:
            return None if tensor is None else change(tensor)

        labels = {name: change(tensor) for name, tensor in self.labels.items()}
        return dataclasses.replace(
            self,
            ids=change(self.ids),
            mask=change(self.mask),
            mirrored=changed(self.mirrored),
            segments=changed(self.segments),
            documents=changed(self.documents),
            units=changed(self.units),
            labels=labels,
            carried={name: change(tensor) for name, tensor in self.carried.items()},
            counts={name: int((tensor != IGNORED).sum()) for name, tensor in labels.items()},
        )


def runs(tokens: Tensor, lengths: Sequence[int]) -> Iterator[Tensor]:
    """Rows that lie one after another, (T, ...), as one tensor for each run of equal lengths, (rows, length, ...)."""
    start = 0
    for length, group in itertools.groupby(lengths):
        end = start + length * len(list(group))
        yield tokens[start:end].view(-1, length, *tokens.shape[1:])
        start = end


class State:
    """What an encoder carries from one batch to the next: recurrent state, or keys and values."""

    length: int = 0  # tokens read so far
    room: int | None = None  # tokens that it can hold, where there is a limit
    carried: Mapping[str, Tensor] = MappingProxyType({})  # recurrent state by name, rows first


class Recurrent(State):
    """Recurrent state, which is all that there is to know of what was read."""

    def __init__(self, carried: Mapping[str, Tensor], length: int = 0) -> None:
        self.carried = carried
        self.length = length


@dataclass(frozen=True, kw_only=True)
class Encoded:
    """Every layer of an encoder, always; layer 0 is the context-free embedding."""

    layers: tuple[Tensor, ...]  # each (B, T, D)
    mask: Tensor
    state: State | None = None
    lengths: tuple[int, ...] | None = None  # as in the batch

    def first(self) -> Tensor:
        """The top layer at the first token of each row, (B, D)."""
        if self.lengths is None:
            return self.layers[-1][:, 0]
        return self.layers[-1][0, [end - length for end, length in zip(self._ends, self.lengths, strict=True)]]

    def last(self) -> Tensor:
        """The same at the last real token."""
        if self.lengths is None:
            rows = torch.arange(len(self.mask), device=self.mask.device)
            return self.layers[-1][rows, self.mask.sum(1) - 1]
        return self.layers[-1][0, [end - 1 for end in self._ends]]

    def mean(self) -> Tensor:
        """The same on average over the real tokens."""
        top = self.layers[-1]
        if self.lengths is not None:
            return torch.cat([rows.mean(1) for rows in runs(top[0], self.lengths)])
        real = self.mask[..., None].to(top.dtype)
        return (top * real).sum(1) / real.sum(1).clamp_min(1)

    @property
    def _ends(self) -> list[int]:
        return list(itertools.accumulate(self.lengths or ()))


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a batch cost: sums by loss term, so that accumulation and data parallelism change nothing."""

    losses: Mapping[str, Tensor]
    correct: Mapping[str, Tensor] = field(default_factory=dict)  # items got right, counted only while evaluating
    state: State | None = None  # to go on from
