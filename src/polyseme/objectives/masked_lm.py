"""Masked language modelling: predict masked tokens from both sides (Devlin et al., 2018, section 3.1).

Of the selected tokens 80 % become [MASK], 10 % a random token and 10 % stay. Masks are dynamic: they are drawn afresh
for every batch (Liu et al., 2019).

Tokens are selected individually; by whole words (whole word masking, Devlin et al., 2019, in the released models); by
spans of one to three words (n-gram masking: Joshi et al., 2019; Lan et al., 2019, section 4.1); or by the largest unit
among entity, phrase and word (Sun et al., 2019). A unit is masked as a whole or not at all.
"""

import dataclasses
from typing import Literal, Self

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import Field, model_validator
from torch import Tensor, nn

from polyseme.arrays import Flags, Floats, Ids
from polyseme.batch import IGNORED, Batch, Encoded, LossOutput
from polyseme.layers.transformer_block import activate
from polyseme.models.base import Encoder
from polyseme.models.bert import initialize
from polyseme.objectives.base import Objective, ObjectiveConfig, required_ids, select_targets
from polyseme.objectives.sources import TokenSource, rng
from polyseme.step_schedule import StepSchedule
from polyseme.tokenization.config import SpecialTokens
from polyseme.tokenization.masking_units import WORD

VALIDATION_MASK_PROBABILITY = 0.15
"""Masking probability in validation: the paper's, whatever is used in training, so that losses can be compared."""

_TWO_WORDS, _THREE_WORDS = 6 / 11, 9 / 11  # quantiles of the span length, p(n) ∝ 1 / n

Masking = Literal["token", "word", "ngram", "unit"]


class MaskedLmConfig(ObjectiveConfig):
    """Masking, and the sentence-pair objective trained with it."""

    kind: Literal["masked_lm"] = "masked_lm"
    masking: Masking = "token"  # what is masked as a whole
    stages: tuple[tuple[Masking, int | float], ...] = ()  # or several in sequence, each with its first step or fraction
    mask_probability: float = Field(0.15, gt=0, lt=1)  # fraction of the tokens that are predicted in training
    pairs: Literal["none", "next", "order", "dialogue"] = "next"  # sentence-pair objective
    pairs_weight: float = Field(1.0, ge=0)  # of its loss, relative to that of the masked tokens

    @model_validator(mode="after")
    def _check_stages(self) -> Self:
        starts = [start for _, start in self.stages]
        if starts and (starts[0] != 0 or sorted(set(starts)) != starts):
            raise ValueError('stages must start at 0 and increase; write them as [["token", 0], ["unit", 0.5]]')
        if any(0 < start < 1 for start in starts) and starts[-1] >= 1:
            raise ValueError("stages start at steps or at fractions of the run; use one of the two")
        if starts and self.masking != "token":
            raise ValueError("stages replace masking; set one of the two")
        return self

    @property
    def uses_units(self) -> bool:
        return {self.masking, *(masking for masking, _ in self.stages)} != {"token"}

    @property
    def uses_dialogues(self) -> bool:
        return self.pairs == "dialogue"

    def masking_at(self, step: int, schedule: StepSchedule) -> Masking:
        """Masking at a step of a run."""
        if not self.stages:
            return self.masking

        def has_started(start: float) -> bool:
            return step >= start if start >= 1 else schedule.scaled_step(step) >= start * schedule.steps

        return [masking for masking, start in self.stages if has_started(start)][-1]


class MaskedLm(Objective):
    """Masked language model: a dense layer, a layer norm and the tied embedding with a bias."""

    def __init__(self, config: MaskedLmConfig, encoder: Encoder, specials: SpecialTokens) -> None:
        super().__init__()
        self.config = config
        self.start, self.separator, self.mask = required_ids(specials, "start", "separator", "mask")
        vocab_size, width = encoder.tokens.weight.shape
        self.dense = nn.Linear(encoder.widths[-1], width)
        self.norm = nn.LayerNorm(width, eps=encoder.config.epsilon)
        self.bias = nn.Parameter(torch.zeros(vocab_size))
        self.activation = encoder.config.activation
        self.maskable = np.ones(vocab_size, dtype=bool)
        self.maskable[[id for id in dataclasses.asdict(specials).values() if id is not None]] = False
        self.apply(initialize)

    def draw_batch(self, source: TokenSource, *, seed: int, step: int) -> Batch:
        inside = source.length - 2
        # Special tokens replace the neighbours of the text: a unit cut there contains one and is not masked.
        positions = source.sequence_starts(inside, seed=seed, step=step)[:, None] + np.arange(-1, inside + 1)
        ids = source.read(positions)
        ids[:, 0], ids[:, -1] = self.start, self.separator
        return Batch.of(torch.from_numpy(ids), units=source.read_units(positions))

    def add_targets(self, batch: Batch, source: TokenSource, *, seed: int, step: int) -> Batch:
        generator = rng(seed, "masks", step)
        ids = batch.ids.numpy()
        num_rows, length = ids.shape
        probability = VALIDATION_MASK_PROBABILITY if source.validation else self.config.mask_probability
        masking = "token" if source.validation else self.config.masking_at(step, source.schedule)
        keys = generator.random((num_rows, length), dtype=np.float32)  # the smallest are selected
        padded = not bool(batch.mask.all())
        if masking == "token" and not padded:
            num_masked = max(1, round(probability * length))
            keys[~self.maskable[ids]] = 2.0  # last of all
            columns = np.argpartition(keys, num_masked - 1, axis=1)[:, :num_masked]  # (B, masked)
            rows = np.arange(num_rows)[:, None]
            valid = keys[rows, columns] < 2.0
        else:
            begins = np.ones_like(ids, dtype=bool)
            if masking != "token":
                assert batch.units is not None, "the store was built without units"
                units = batch.units.numpy()
                begins[:, 1:] = (units if masking == "unit" else units & WORD)[:, 1:] == 0
            if masking == "ngram":
                begins = _join_words(begins, self.maskable[ids], generator)
            # Randomly rounded, so that the fraction is right on average.
            num_tokens = batch.mask.numpy().sum(axis=1, keepdims=True)
            budget = np.maximum(1, probability * num_tokens + generator.random((num_rows, 1))).astype(np.int64)
            rows, columns = np.nonzero(_select(begins, self.maskable[ids], keys, budget))
            valid = np.ones(len(columns), dtype=bool)
        originals = ids[rows, columns]

        action = generator.random(columns.shape, dtype=np.float32)
        random = generator.integers(len(self.maskable), size=columns.shape)
        random = np.where(self.maskable[random], random, originals)
        replaced = np.where(action < 0.8, self.mask, np.where(action < 0.9, random, originals))
        masked_ids, labels = ids.copy(), np.full_like(ids, IGNORED)
        masked_ids[rows, columns] = np.where(valid, replaced, originals)
        labels[rows, columns] = np.where(valid, originals, IGNORED)
        masked_batch = dataclasses.replace(batch, ids=torch.from_numpy(masked_ids))
        return masked_batch.with_labels("masked_lm", torch.from_numpy(labels))

    def loss(self, encoder: Encoder, encoded: Encoded, batch: Batch) -> LossOutput:
        # Logits are computed at masked positions only, about a seventh of all.
        hidden, targets = select_targets(encoded.layers[-1], batch, "masked_lm")
        return self.token_loss("masked_lm", self.transform(hidden), encoder.tokens.weight, self.bias, targets)

    def transform(self, hidden: Tensor) -> Tensor:
        """Inputs of the output layer."""
        return self.norm(activate(self.dense(hidden), self.activation))  # type: ignore[no-any-return]

    def logits(self, encoder: Encoder, hidden: Tensor) -> Tensor:
        """Logits of the token at each position, (…, V)."""
        return F.linear(self.transform(hidden), encoder.tokens.weight, self.bias)


def _units(begins: Flags, maskable: Flags) -> tuple[Ids, Ids, Flags]:
    """Units that begin at some tokens: the unit of each token, the size of each unit, and whether it can be masked."""
    unit = np.cumsum(begins) - 1  # (B * T,), counted through all rows
    size = np.bincount(unit)
    return unit, size, np.bincount(unit[maskable.ravel()], minlength=len(size)) == size


def _join_words(begins: Flags, maskable: Flags, generator: np.random.Generator) -> Flags:
    """Where n-grams begin, given where words do, with p(n) ∝ 1 / n."""
    num_rows, length = begins.shape
    unit, _, whole = _units(begins, maskable)
    uniform = generator.random(begins.shape, dtype=np.float32)
    lengths = 1 + (uniform > _TWO_WORDS) + (uniform > _THREE_WORDS)
    starts = np.zeros((num_rows, length + 1), dtype=bool)  # by the index of a word in its row
    starts[np.arange(num_rows)[:, None], np.minimum(np.cumsum(lengths, axis=1) - lengths, length)] = True
    word = np.cumsum(begins, axis=1) - 1
    maskable_word = whole[unit].reshape(begins.shape)
    maskable_before = np.roll(maskable_word, 1, axis=1)
    # Words that cannot be masked are units of their own; otherwise their neighbours would never be masked.
    return begins & (np.take_along_axis(starts, word, axis=1) | ~maskable_word | ~maskable_before)


def _select(begins: Flags, maskable: Flags, keys: Floats, budget: Ids) -> Flags:
    """Select units in the order of their keys, skipping those that exceed the remaining token `budget` of a row."""
    too_large = budget.max() + 1
    unit, size, whole = _units(begins, maskable)
    sizes = np.full(begins.size, too_large)
    firsts = np.flatnonzero(begins)
    sizes[firsts] = np.where(whole, size, too_large)
    order = np.argsort(keys, axis=1)
    sizes = np.take_along_axis(sizes.reshape(begins.shape), order, axis=1)
    taken = np.zeros(begins.shape, dtype=bool)
    while (fits := sizes <= budget).any():
        # Up to the first unit that no longer fits, which is too large from then on.
        take = fits & (np.cumsum(np.where(fits, sizes, 0), axis=1) <= budget)
        budget = budget - np.where(take, sizes, 0).sum(axis=1, keepdims=True)
        sizes[take] = too_large
        taken |= take
    selected = np.empty_like(taken)
    np.put_along_axis(selected, order, taken, axis=1)
    return selected.ravel()[firsts][unit].reshape(begins.shape)
