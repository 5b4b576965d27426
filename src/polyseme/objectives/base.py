"""How text becomes batches, and what each batch costs."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from polyseme.config import Config
from polyseme.course import NO_COURSE, Course
from polyseme.errors import ConfigError
from polyseme.models.base import Encoder
from polyseme.tensors import Batch, Encoded, Outcome, State
from polyseme.text.languages import shares
from polyseme.text.store import Store
from polyseme.text.tokenizer import Specials

_SHORTEST = 8  # tokens that a row needs, its special ones included


class ObjectiveConfig(Config):
    """What every objective can be asked about."""

    by_gradient: ClassVar[bool] = True  # whether weights move down a gradient; else kernels fill a table of vectors
    whole_text: ClassVar[bool] = False  # whether each step takes all of the text into account

    @property
    def uses_units(self) -> bool:
        """Whether the words of the text have to be known."""
        return False

    @property
    def uses_turns(self) -> bool:
        """Whether the text is dialogues."""
        return False

    @property
    def uses_pairs(self) -> bool:
        """Whether the text is sentences with their translations."""
        return False


@dataclass(frozen=True)
class Source:
    """A store of tokens, read in rows of one length, so many a batch."""

    store: Store
    length: int  # tokens a row
    num_rows: int  # rows a batch
    measuring: bool = False  # rows are measured on, not learnt from: what is asked of them is always the same
    course: Course = NO_COURSE  # of the run; what is asked may change on the way
    sampling: float = 1.0  # languages are drawn in proportion to their share of the text to this power
    before: tuple[int, ...] = ()  # tokens that every row begins with, of which nothing is asked

    def starts(self, span: int, *, seed: int, step: int) -> NDArray[np.int64]:
        """Where in the store the rows of a step begin: each epoch cuts the text anew and visits every cut once.

        Of several languages the large ones are visited in part and the small ones more than once; an epoch has as
        many rows as if each cut were visited once.
        """
        bounds = (*self.store.languages, self.store.num_tokens)
        cuts = [max(1, (end - first) // span) for first, end in pairwise(bounds)]
        visits = tuple(np.maximum(1, np.round(sum(cuts) * shares(cuts, self.sampling))).astype(int).tolist())
        epochs, places = np.divmod(np.arange(step * self.num_rows, (step + 1) * self.num_rows), sum(visits))
        starts = np.empty(self.num_rows, dtype=np.int64)
        for epoch in np.unique(epochs):
            inside = epochs == epoch
            starts[inside] = _epoch(seed, int(epoch), span, bounds, visits)[places[inside]]
        return starts

    def streams(self, read: int, length: int, *, seed: int, num_tokens: int = 0) -> NDArray[np.int64]:
        """Where the next tokens of each row lie, (B, length), after so many of each were read.

        Row b of B begins where the b-th of B parts of the text begins and reads on without end, so that the rows of a
        step go on from those of the step before. Languages are read as they come, whatever their sampling. With
        `num_tokens` they are places in something else that is as long.
        """
        num_tokens = num_tokens or self.store.num_tokens
        first = int(generator(seed, "order", 0).integers(num_tokens))
        firsts = first + np.arange(self.num_rows) * num_tokens // self.num_rows
        return (firsts[:, None] + read + np.arange(length)) % num_tokens

    def shortened(self, divisor: int) -> Source:
        """The same text in shorter rows, as many tokens a batch."""
        length = max(_SHORTEST, self.length // divisor)
        return dataclasses.replace(self, length=length, num_rows=self.num_rows * self.length // length)

    def read(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """The tokens at some positions; the end of the text runs on into its beginning."""
        return self.store.tokens[positions % self.store.num_tokens].astype(np.int64)

    def read_units(self, positions: NDArray[np.int64]) -> Tensor | None:
        """Which units each of these tokens shares with the one before, if the store knows."""
        units = self.store.units
        return None if units is None else torch.from_numpy(units[positions % self.store.num_tokens])


@functools.lru_cache(maxsize=4)
def _epoch(seed: int, epoch: int, span: int, bounds: tuple[int, ...], visits: tuple[int, ...]) -> NDArray[np.int64]:
    """Where the rows of an epoch begin, given where languages begin and end and how often each is visited."""
    chance = generator(seed, "order", epoch)
    languages = []
    for (first, end), num_visits in zip(pairwise(bounds), visits, strict=True):
        num_cuts = max(1, (end - first) // span)
        rounds = [chance.permutation(num_cuts) for _ in range(-(-num_visits // num_cuts))]
        order = np.concatenate(rounds)[:num_visits]
        languages.append(first + (order * span + chance.integers(span)) % max(1, end - first))
    return languages[0] if len(languages) == 1 else chance.permutation(np.concatenate(languages))


_PURPOSES = {"order": 0, "rows": 1, "masks": 2, "lengths": 4, "words": 5, "tasks": 6}  # 3 is dropout's


def generator(seed: int, purpose: str, step: int) -> np.random.Generator:
    """Chance that depends on nothing but its arguments, so that a resumed run has nothing to restore."""
    return np.random.Generator(np.random.Philox(np.random.SeedSequence([seed, _PURPOSES[purpose], step])))


def required(specials: Specials, *roles: str) -> list[int]:
    """The ids of special tokens that an objective cannot do without."""
    ids = [getattr(specials, role) for role in roles]
    if None in ids:
        names = ", ".join(roles)
        raise ConfigError(f"this objective needs tokens for {names}; set tokenizer.specials=bert")
    return ids


class Objective(nn.Module):
    """Draws rows, asks something of them, and says what the answers cost."""

    answers: ClassVar[tuple[str, ...]] = ()  # what its labels mean, where there is one a row

    def batch(self, source: Any, *, seed: int, step: int) -> Batch:
        """The batch of a step, a pure function of its arguments; from whatever this objective draws."""
        return self.label(self.draw(source, seed=seed, step=step), source, seed=seed, step=step)

    def draw(self, source: Source, *, seed: int, step: int) -> Batch:
        """The rows of a step."""
        raise NotImplementedError

    def label(self, batch: Batch, source: Source, *, seed: int, step: int) -> Batch:
        """The rows with this objective's questions added."""
        return batch

    def forward(self, encoder: Encoder, batch: Batch, state: State | None = None) -> Outcome:
        """Encode the rows and say what they cost."""
        encoded = encoder(batch, state)
        return dataclasses.replace(self.cost(encoder, encoded, batch), state=encoded.state)

    def cost(self, encoder: Encoder, encoded: Encoded, batch: Batch) -> Outcome:
        """Losses by name, as sums."""
        raise NotImplementedError

    def figures(self, means: Mapping[str, float], source: Any) -> dict[str, float]:
        """What else the mean losses on a text say of it."""
        return {}


class Together(Objective):
    """Objectives that share one pass: the first draws the rows, each adds its questions and its cost."""

    def __init__(self, parts: Mapping[str, Objective], weights: Mapping[str, float] | None = None) -> None:
        super().__init__()
        self.names = tuple(parts)
        self.weights = {**dict.fromkeys(parts, 1.0), **(weights or {})}  # of each mean loss in what is minimised
        # So that a weight is called `masked.bias`, whatever else is trained with it; not as attributes, because users
        # choose names of tasks.
        self._modules.update(parts)

    @property
    def parts(self) -> list[Objective]:
        """The objectives in order."""
        return [cast(Objective, self._modules[name]) for name in self.names]

    def asked(self, batch: Batch) -> list[Objective]:
        """Those that ask something of a batch."""
        return self.parts

    def draw(self, source: Source, *, seed: int, step: int) -> Batch:
        return self.parts[0].draw(source, seed=seed, step=step)

    def label(self, batch: Batch, source: Source, *, seed: int, step: int) -> Batch:
        for part in self.parts:
            batch = part.label(batch, source, seed=seed, step=step)
        return batch

    def cost(self, encoder: Encoder, encoded: Encoded, batch: Batch) -> Outcome:
        outcomes = [part.cost(encoder, encoded, batch) for part in self.asked(batch)]
        losses = {name: loss for outcome in outcomes for name, loss in outcome.losses.items()}
        correct = {name: right for outcome in outcomes for name, right in outcome.correct.items()}
        return Outcome(losses=losses, correct=correct)

    def figures(self, means: Mapping[str, float], source: Any) -> dict[str, float]:
        return {name: value for part in self.parts for name, value in part.figures(means, source).items()}
