"""Predict tokens that were hidden, from both sides (Devlin et al., 2018, section 3.1).

Of the chosen tokens 80 % become [MASK], 10 % another token and 10 % stay, so that the encoder
cannot tell which ones it will be asked about. The choice is drawn afresh for every batch.

Tokens may be chosen alone; by whole words (Devlin et al., 2019, the released models); by runs of one to
three words (Joshi et al., 2019, as in ALBERT: Lan et al., 2019, section 4.1); or by the largest unit there is,
entity, phrase or word (Sun et al., 2019). What is chosen together is hidden whole or not at all.
"""

from __future__ import annotations

import dataclasses
from typing import Literal, Self

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from pydantic import Field, model_validator
from torch import Tensor, nn

from polyseme.course import Course
from polyseme.layers.blocks import activate
from polyseme.layers.softmax import linear_cross_entropy, token_nats
from polyseme.models.base import Encoder
from polyseme.models.bert import initialize
from polyseme.objectives.base import Objective, ObjectiveConfig, Source, generator, required
from polyseme.tensors import IGNORED, Batch, Encoded, Outcome
from polyseme.text.tokenizer import Specials
from polyseme.text.units import WORD
from polyseme.text.utf16 import Flags

MEASURED_RATE = 0.15
"""Share of the tokens asked for on dev text: the paper's, whatever is trained with, so that losses can be compared."""

_TWO_WORDS, _THREE_WORDS = 6 / 11, 9 / 11  # lots from which a run has as many: n words have a chance as 1 / n

Masking = Literal["token", "word", "ngram", "unit"]


class MaskedConfig(ObjectiveConfig):
    """What is hidden, and what else is asked of a row."""

    kind: Literal["masked"] = "masked"
    masking: Masking = "token"  # what is hidden together
    stages: tuple[tuple[Masking, int | float], ...] = ()  # or one after another, from steps or shares of the run on
    rate: float = Field(0.15, gt=0, lt=1)  # share of the tokens that are asked for while learning
    pairs: Literal["none", "next", "order", "dialogue"] = "next"  # whether rows are pairs, and what is asked of them
    pairs_weight: float = Field(1.0, ge=0)  # of that question, where a masked token counts 1

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        starts = [start for _, start in self.stages]
        if starts and (starts[0] != 0 or sorted(set(starts)) != starts):
            raise ValueError('stages start at 0 and follow each other, such as [["token", 0], ["unit", 0.5]]')
        if any(0 < start < 1 for start in starts) and starts[-1] >= 1:
            raise ValueError("stages start at steps or at shares of the run; use one of the two")
        if starts and self.masking != "token":
            raise ValueError("stages say what is hidden, in place of masking; set one of the two")
        return self

    @property
    def uses_units(self) -> bool:
        return {self.masking, *(masking for masking, _ in self.stages)} != {"token"}

    @property
    def uses_turns(self) -> bool:
        return self.pairs == "dialogue"

    def masking_at(self, step: int, course: Course) -> Masking:
        """What is hidden together at a step of a run."""
        if not self.stages:
            return self.masking

        def has_begun(start: float) -> bool:
            return step >= start if start >= 1 else course.place(step) >= start * course.steps

        return [masking for masking, start in self.stages if has_begun(start)][-1]


class MaskedTokens(Objective):
    """The head is a dense layer and a norm, then the embedding turned round, with a bias of its own."""

    def __init__(self, config: MaskedConfig, encoder: Encoder, specials: Specials) -> None:
        super().__init__()
        self.config = config
        self.start, self.separator, self.mask = required(specials, "start", "separator", "mask")
        vocab_size, width = encoder.tokens.weight.shape
        self.dense = nn.Linear(encoder.widths[-1], width)
        self.norm = nn.LayerNorm(width, eps=encoder.config.epsilon)
        self.bias = nn.Parameter(torch.zeros(vocab_size))
        self.activation = encoder.config.activation
        self.choosable = np.ones(vocab_size, dtype=bool)
        self.choosable[[id for id in dataclasses.asdict(specials).values() if id is not None]] = False
        self.apply(initialize)

    def draw(self, source: Source, *, seed: int, step: int) -> Batch:
        inside = source.length - 2
        # Special tokens stand where the text would go on: a unit that is cut there then holds one.
        places = source.starts(inside, seed=seed, step=step)[:, None] + np.arange(-1, inside + 1)
        ids = source.read(places)
        ids[:, 0], ids[:, -1] = self.start, self.separator
        return Batch.of(torch.from_numpy(ids), units=source.read_units(places))

    def label(self, batch: Batch, source: Source, *, seed: int, step: int) -> Batch:
        chance = generator(seed, "masks", step)
        ids = batch.ids.numpy()
        num_rows, length = ids.shape
        rate = MEASURED_RATE if source.measuring else self.config.rate
        # Dev text is always asked for token by token, so that losses can be compared.
        masking = "token" if source.measuring else self.config.masking_at(step, source.course)
        lot = chance.random((num_rows, length), dtype=np.float32)
        padded = not bool(batch.mask.all())
        if masking == "token" and not padded:
            num_chosen = max(1, round(rate * length))
            lot[~self.choosable[ids]] = 2.0  # never drawn, unless nothing else is left
            places = np.argpartition(lot, num_chosen - 1, axis=1)[:, :num_chosen]  # (B, chosen)
            rows = np.arange(num_rows)[:, None]
            kept = lot[rows, places] < 2.0
        else:
            begins = np.ones_like(ids, dtype=bool)
            if masking != "token":
                assert batch.units is not None, "the store was made without units"
                units = batch.units.numpy()
                begins[:, 1:] = (units if masking == "unit" else units & WORD)[:, 1:] == 0
            if masking == "ngram":
                begins = _join(begins, self.choosable[ids], chance)
            # Rounded up now and then, so that over many rows the share is right.
            num_tokens = batch.mask.numpy().sum(axis=1, keepdims=True)
            room = np.maximum(1, rate * num_tokens + chance.random((num_rows, 1))).astype(np.int64)
            rows, places = np.nonzero(_choose(begins, self.choosable[ids], lot, room))
            kept = np.ones(len(places), dtype=bool)
        answers = ids[rows, places]

        fate = chance.random(places.shape, dtype=np.float32)
        others = chance.integers(len(self.choosable), size=places.shape)
        others = np.where(self.choosable[others], others, answers)
        shown = np.where(fate < 0.8, self.mask, np.where(fate < 0.9, others, answers))
        hidden, labels = ids.copy(), np.full_like(ids, IGNORED)
        hidden[rows, places] = np.where(kept, shown, answers)
        labels[rows, places] = np.where(kept, answers, IGNORED)
        shown_batch = dataclasses.replace(batch, ids=torch.from_numpy(hidden))
        return shown_batch.labelled("masked", torch.from_numpy(labels))

    def cost(self, encoder: Encoder, encoded: Encoded, batch: Batch) -> Outcome:
        # The vocabulary is scored only where something was hidden: a seventh of the row.
        labels = batch.labels["masked"].flatten()
        places = (labels != IGNORED).nonzero().squeeze(1)
        hidden = self.transform(encoded.layers[-1].flatten(0, 1)[places])  # (hidden tokens, D)
        if self.training:
            loss = linear_cross_entropy(hidden, encoder.tokens.weight, self.bias, labels[places])
            return Outcome(losses={"masked": loss})
        nats, right = token_nats(hidden, encoder.tokens.weight, self.bias, labels[places])
        return Outcome(losses={"masked": nats.sum()}, correct={"masked": right.sum()})

    def transform(self, hidden: Tensor) -> Tensor:
        """What is compared with the embedding of every token."""
        return self.norm(activate(self.dense(hidden), self.activation))  # type: ignore[no-any-return]

    def logits(self, encoder: Encoder, hidden: Tensor) -> Tensor:
        """Scores of every token in a place, (…, V)."""
        return F.linear(self.transform(hidden), encoder.tokens.weight, self.bias)


def _groups(begins: Flags, choosable: Flags) -> tuple[NDArray[np.int64], NDArray[np.int64], Flags]:
    """Of groups that begin at some tokens: which one each token is in, how large they are, which may be chosen."""
    group = np.cumsum(begins) - 1  # (B * T,), counted through all rows
    size = np.bincount(group)
    return group, size, np.bincount(group[choosable.ravel()], minlength=len(size)) == size


def _join(begins: Flags, choosable: Flags, chance: np.random.Generator) -> Flags:
    """Where runs of words begin, given where words do: n of them together with a chance of 1 / n."""
    num_rows, length = begins.shape
    group, _, whole = _groups(begins, choosable)
    lot = chance.random(begins.shape, dtype=np.float32)
    lengths = 1 + (lot > _TWO_WORDS) + (lot > _THREE_WORDS)
    starts = np.zeros((num_rows, length + 1), dtype=bool)  # by the number of a word in its row
    starts[np.arange(num_rows)[:, None], np.minimum(np.cumsum(lengths, axis=1) - lengths, length)] = True
    number = np.cumsum(begins, axis=1) - 1
    whole_word = whole[group].reshape(begins.shape)
    whole_before = np.roll(whole_word, 1, axis=1)
    # What may not be chosen stands alone, or its neighbours would never be asked for.
    return begins & (np.take_along_axis(starts, number, axis=1) | ~whole_word | ~whole_before)


def _choose(begins: Flags, choosable: Flags, lot: NDArray[np.float32], room: NDArray[np.int64]) -> Flags:
    """Tokens of groups taken in the order of their lots, but for those that no longer fit into the `room` of a row."""
    never = room.max() + 1  # the size of what never fits
    group, size, whole = _groups(begins, choosable)
    sizes = np.full(begins.size, never)
    firsts = np.flatnonzero(begins)
    sizes[firsts] = np.where(whole, size, never)
    order = np.argsort(lot, axis=1)
    sizes = np.take_along_axis(sizes.reshape(begins.shape), order, axis=1)
    taken = np.zeros(begins.shape, dtype=bool)
    while (fit := sizes <= room).any():
        # Up to the first that does not fit; it is too large from then on.
        take = fit & (np.cumsum(np.where(fit, sizes, 0), axis=1) <= room)
        room = room - np.where(take, sizes, 0).sum(axis=1, keepdims=True)
        sizes[take] = never
        taken |= take
    chosen = np.empty_like(taken)
    np.put_along_axis(chosen, order, taken, axis=1)
    return chosen.ravel()[firsts][group].reshape(begins.shape)
