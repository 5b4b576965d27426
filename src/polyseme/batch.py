"""Tensors exchanged between data, encoders and objectives.

Shape legend, used throughout: B sequences per batch, T tokens per sequence, D width, H attention heads,
V vocabulary size, C characters per token.
"""

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor

IGNORED = -100
"""Label of a position that does not contribute to the loss."""


class SampledCandidates(NamedTuple):
    """Candidate classes of a sampled softmax, the same for every target of a batch."""

    ids: Tensor  # (N,), sorted
    expected_counts: Tensor  # (N,), how often each was expected to be sampled


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Token sequences with their targets."""

    ids: Tensor  # (B, T)
    mask: Tensor  # (B, T), True on real tokens
    segments: Tensor | None = None  # (B, T)
    packed_lengths: tuple[int, ...] | None = None  # of sequences concatenated without padding into one row (B = 1)
    labels: Mapping[str, Tensor] = field(default_factory=dict)  # by loss term, IGNORED where nothing is predicted
    counts: Mapping[str, int] = field(default_factory=dict)  # targets per loss term
    units: Tensor | None = None  # (B, T) bits of the masking units that a token shares with the token before it
    rows_per_example: int = 1  # consecutive sequences that form one example; its label is on the first

    # Recurrent families
    continues: bool = False  # each sequence continues the same row of the batch before
    initial_state: Mapping[str, Tensor] = field(default_factory=dict)  # recurrent state by name, (B, …)
    bptt_length: int = 0  # tokens per chunk of truncated backpropagation through time; 0: the whole sequence
    length_ratio: float = 1.0  # length relative to the configured one; scales the learning rate

    # ELMo and fastText
    backward_ids: Tensor | None = None  # (B, T) other sequences for the backward direction, in reading order
    oov_characters: Tensor | None = None  # (N, C), or vectors (N, D), of out-of-vocabulary words; their ids start at V
    sampled_candidates: SampledCandidates | None = None

    @classmethod
    def of(cls, ids: Tensor, **rest: Any) -> Self:
        """A batch without padding."""
        return cls(ids=ids, mask=torch.ones_like(ids, dtype=torch.bool), **rest)

    def with_labels(self, name: str, labels: Tensor) -> Self:
        """Add the labels of a loss term."""
        count = int((labels != IGNORED).sum())
        return dataclasses.replace(self, labels={**self.labels, name: labels}, counts={**self.counts, name: count})

    def split(self, num_rows: int) -> Iterator[Self]:
        """Split into micro-batches of about `num_rows` sequences, keeping the rows of an example together."""
        num_rows = -(-num_rows // self.rows_per_example) * self.rows_per_example
        if num_rows >= len(self.ids):
            yield self
            return
        for start in range(0, len(self.ids), num_rows):
            part = self._map(lambda tensor, rows=slice(start, start + num_rows): tensor[rows])  # type: ignore[misc]
            yield dataclasses.replace(part, oov_characters=self.oov_characters)

    def to(self, device: torch.device) -> Self:
        """Move to a device."""
        if self.ids.device == device:
            return self

        def move(tensor: Tensor) -> Tensor:
            return tensor.to(device, non_blocking=True)

        candidates = self.sampled_candidates and SampledCandidates(*map(move, self.sampled_candidates))
        return dataclasses.replace(self._map(move), sampled_candidates=candidates)

    def _map(self, function: Callable[[Tensor], Tensor]) -> Self:
        """Apply a function to every tensor but the sampled candidates."""
        labels = {name: function(tensor) for name, tensor in self.labels.items()}
        tensors: dict[str, Any] = {name: function(one) for name, one in vars(self).items() if isinstance(one, Tensor)}
        return dataclasses.replace(
            self,
            **tensors,
            labels=labels,
            initial_state={name: function(tensor) for name, tensor in self.initial_state.items()},
            counts={name: int((tensor != IGNORED).sum()) for name, tensor in labels.items()},
        )


def split_packed(tokens: Tensor, lengths: Sequence[int]) -> Iterator[Tensor]:
    """Split packed sequences (T, …) into one tensor (B, length, …) per run of equal lengths."""
    start = 0
    for length, run in itertools.groupby(lengths):
        end = start + length * len(list(run))
        yield tokens[start:end].view(-1, length, *tokens.shape[1:])
        start = end


class State:
    """State that an encoder passes from one batch to the next: recurrent state, or a key-value cache."""

    length: int = 0  # tokens read so far
    capacity: int | None = None  # tokens that fit, where there is a limit
    recurrent_state: Mapping[str, Tensor] = MappingProxyType({})  # by name, (B, …)


class RecurrentState(State):
    """Hidden and cell states."""

    def __init__(self, recurrent_state: Mapping[str, Tensor], length: int = 0) -> None:
        self.recurrent_state = recurrent_state
        self.length = length


@dataclass(frozen=True, kw_only=True)
class Encoded:
    """All layers of an encoder; layer 0 is the context-free embedding."""

    layers: tuple[Tensor, ...]  # each (B, T, D)
    mask: Tensor
    state: State | None = None
    packed_lengths: tuple[int, ...] | None = None  # see Batch

    def first(self) -> Tensor:
        """Top layer at the first token of each sequence, (B, D)."""
        if self.packed_lengths is None:
            return self.layers[-1][:, 0]
        return self.layers[-1][0, list(itertools.accumulate(self.packed_lengths[:-1], initial=0))]

    def last(self) -> Tensor:
        """Top layer at the last real token of each sequence, (B, D)."""
        if self.packed_lengths is None:
            rows = torch.arange(len(self.mask), device=self.mask.device)
            return self.layers[-1][rows, self.mask.sum(1) - 1]
        return self.layers[-1][0, [end - 1 for end in itertools.accumulate(self.packed_lengths)]]

    def mean(self) -> Tensor:
        """Mean of the top layer over the real tokens of each sequence, (B, D)."""
        top = self.layers[-1]
        if self.packed_lengths is not None:
            return torch.cat([rows.mean(1) for rows in split_packed(top[0], self.packed_lengths)])
        real = self.mask[..., None].to(top.dtype)
        return (top * real).sum(1) / real.sum(1).clamp_min(1)


@dataclass(frozen=True, kw_only=True)
class LossOutput:
    """Losses of a batch by loss term, as sums, so that accumulation and data parallelism do not change the update."""

    losses: Mapping[str, Tensor]
    correct: Mapping[str, Tensor] = field(default_factory=dict)  # correct predictions, in evaluation only
    state: State | None = None  # after the batch
