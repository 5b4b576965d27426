"""Where the sequences of each step start in the token store, and seeded random generators."""

import dataclasses
import functools
from dataclasses import dataclass
from itertools import pairwise
from typing import Self

import numpy as np
import torch
from torch import Tensor

from polyseme.arrays import Ids
from polyseme.corpora.corpus import sampling_probabilities
from polyseme.datasets.token_store import TokenStore
from polyseme.step_schedule import NO_SCHEDULE, StepSchedule

_MIN_LENGTH = 8  # tokens of a sequence, special tokens included


@dataclass(frozen=True)
class TokenSource:
    """A token store, read in sequences of one length."""

    store: TokenStore
    length: int  # tokens per sequence
    num_rows: int  # sequences per batch
    validation: bool = False  # targets do not depend on the training settings, so that losses can be compared
    schedule: StepSchedule = NO_SCHEDULE  # of the run; objectives may change with it
    language_sampling: float = 1.0  # exponent of the language probabilities (1: proportional to size)
    prefix_ids: tuple[int, ...] = ()  # tokens that start every sequence and are not predicted

    def sequence_starts(self, span: int, *, seed: int, step: int) -> Ids:
        """Start positions of the sequences of a step: each epoch cuts the text anew and visits every cut once.

        With several languages, large ones are visited in part and small ones more than once; an epoch has as many
        sequences as if each cut were visited once.
        """
        bounds = (*self.store.language_starts, self.store.num_tokens)
        cuts = [max(1, (end - first) // span) for first, end in pairwise(bounds)]
        probabilities = sampling_probabilities(cuts, self.language_sampling)
        visits = tuple(np.maximum(1, np.round(sum(cuts) * probabilities)).astype(int).tolist())
        epochs, indices = np.divmod(np.arange(step * self.num_rows, (step + 1) * self.num_rows), sum(visits))
        starts = np.empty(self.num_rows, dtype=np.int64)
        for epoch in np.unique(epochs):
            inside = epochs == epoch
            starts[inside] = _epoch_starts(seed, int(epoch), span, bounds, visits)[indices[inside]]
        return starts

    def stream_positions(self, num_read: int, length: int, *, seed: int, num_tokens: int = 0) -> Ids:
        """Positions (B, length) of the next tokens of each sequence after `num_read` tokens, for recurrent models.

        Sequence b of B starts at the b-th of B equal segments of the text and never ends, so that each step continues
        the one before. Languages are read in order, without sampling. `num_tokens` overrides the size of the store.
        """
        num_tokens = num_tokens or self.store.num_tokens
        first = int(rng(seed, "order", 0).integers(num_tokens))
        firsts = first + np.arange(self.num_rows) * num_tokens // self.num_rows
        return (firsts[:, None] + num_read + np.arange(length)) % num_tokens

    def with_shorter_sequences(self, divisor: int) -> Self:
        """The same text in shorter sequences, with as many tokens per batch."""
        length = max(_MIN_LENGTH, self.length // divisor)
        return dataclasses.replace(self, length=length, num_rows=self.num_rows * self.length // length)

    def read(self, positions: Ids) -> Ids:
        """Tokens at these positions; the text is circular."""
        return self.store.tokens[positions % self.store.num_tokens].astype(np.int64)

    def read_units(self, positions: Ids) -> Tensor | None:
        """Masking units that each of these tokens shares with the one before, if the store has them."""
        units = self.store.units
        return None if units is None else torch.from_numpy(units[positions % self.store.num_tokens])


@functools.lru_cache(maxsize=4)
def _epoch_starts(seed: int, epoch: int, span: int, bounds: tuple[int, ...], visits: tuple[int, ...]) -> Ids:
    """Start positions of all sequences of an epoch, given the bounds and the number of visits of each language."""
    generator = rng(seed, "order", epoch)
    languages = []
    for (first, end), num_visits in zip(pairwise(bounds), visits, strict=True):
        num_cuts = max(1, (end - first) // span)
        rounds = [generator.permutation(num_cuts) for _ in range(-(-num_visits // num_cuts))]
        order = np.concatenate(rounds)[:num_visits]
        languages.append(first + (order * span + generator.integers(span)) % max(1, end - first))
    return languages[0] if len(languages) == 1 else generator.permutation(np.concatenate(languages))


_PURPOSES = {"order": 0, "rows": 1, "masks": 2, "lengths": 4, "words": 5, "tasks": 6}  # 3 is used by dropout


def rng(seed: int, purpose: str, step: int) -> np.random.Generator:
    """A random generator that depends on its arguments only, so that a resumed run has no generator to restore."""
    return np.random.Generator(np.random.Philox(np.random.SeedSequence([seed, _PURPOSES[purpose], step])))
