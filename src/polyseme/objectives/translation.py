"""Write the translation of a row, token by token (Vaswani et al., 2017; McCann et al., 2017).

A batch has pairs of about the same length, as many as fill it.

The answer is smoothed: a share of it lies evenly on all tokens but the padding (Szegedy et al., 2016). What that adds
to the cost is linear in the scores, and needs no second softmax.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from polyseme.errors import ConfigError, DataError
from polyseme.layers.linear import linear
from polyseme.layers.softmax import linear_cross_entropy, token_nats
from polyseme.models.base import Encoder
from polyseme.models.decoder import Translator
from polyseme.objectives.base import Objective, ObjectiveConfig, Source, required
from polyseme.objectives.by_length import Batches
from polyseme.tensors import IGNORED, Batch, Encoded, Outcome
from polyseme.text.parallel import find_pairs
from polyseme.text.store import Store
from polyseme.text.tokenizer import Specials
from polyseme.text.utf16 import Numbers


class TranslationConfig(ObjectiveConfig):
    """How sure an answer should be."""

    kind: Literal["translation"] = "translation"
    smoothing: float = Field(0.1, ge=0, lt=1)  # the share of an answer that lies evenly on all tokens

    @property
    def uses_pairs(self) -> bool:
        return True


class Translation(Objective):
    """The head is a whole decoder, which reads all of the source and what was written before."""

    def __init__(self, config: TranslationConfig, encoder: Encoder, specials: Specials) -> None:
        super().__init__()
        if not isinstance(encoder, Translator):
            raise ConfigError("objective.kind: this family does not translate; leave it as it is")
        self.smoothing = config.smoothing
        self.pad, self.unknown, self.start, self.end = required(specials, "pad", "unknown", "start", "end")
        self.decoder = encoder.decoder()
        self._cuts: tuple[object, Batches, Numbers] | None = None

    def draw(self, source: Source, *, seed: int, step: int) -> Batch:
        store = source.store
        first = self._pairs(source, seed, step)
        ids = _padded(store, first, IGNORED)
        real = ids != IGNORED
        labels = _padded(store, first + 1, IGNORED)
        # What the decoder has no word for stands for all of these.
        labels = labels.where(labels < self.decoder.vocab_size, self.unknown)
        batch = Batch(ids=ids.where(real, self.pad), mask=real)
        return batch.labelled("translation", labels)

    def _pairs(self, source: Source, seed: int, step: int) -> Numbers:
        """The first sentence of each pair of a step."""
        num_tokens = source.num_rows * source.length
        key = (source.store.fingerprint, source.length, num_tokens)
        kept = self._cuts  # another thread may draw from another text
        if kept is None or kept[0] != key:
            kept = self._cuts = key, *_cut(source.store, source.length, num_tokens)
        _, batches, first = kept
        return first[batches.draw(seed=seed, step=step)]

    def cost(self, encoder: Encoder, encoded: Encoded, batch: Batch) -> Outcome:
        labels = batch.labels["translation"]
        scored = labels != IGNORED
        before = F.pad(labels.where(scored, self.pad)[:, :-1], (1, 0), value=self.start)
        hidden = self.decoder(encoder, before, self.decoder.begin(encoded)).hidden[scored]
        targets, (weight, bias) = labels[scored], self.decoder.output(encoder)
        if self.training:
            loss = linear_cross_entropy(hidden, weight, bias, targets)
            if self.smoothing:
                loss = loss + self.smoothing * self._margin(hidden, weight, bias, targets)
            return Outcome(losses={"translation": loss})
        nats, right = token_nats(hidden, weight, bias, targets)
        return Outcome(losses={"translation": nats.sum()}, correct={"translation": right.sum()})

    def _margin(self, hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor) -> Tensor:
        """By how much the scores of the targets are above the mean of all but the padding, summed."""
        others = torch.arange(len(weight), device=weight.device) != self.pad
        share = others.to(weight.dtype) / others.sum()
        margin = (hidden * (F.embedding(targets, weight) - share @ weight)).sum()
        return margin if bias is None else margin + (bias[targets] - share @ bias).sum()

    def logits(self, encoder: Encoder, hidden: Tensor) -> Tensor:
        """Scores of every token as the next one, (…, V)."""
        return linear(hidden, *self.decoder.output(encoder))


def _cut(store: Store, length: int, num_tokens: int) -> tuple[Batches, Numbers]:
    """Batches of at most `num_tokens`, padding counted, of pairs with sides of at most `length`; and their firsts."""
    first = find_pairs(store)
    longest = np.maximum(np.diff(store.sentences)[first], np.diff(store.sentences)[first + 1])
    fitting = longest <= length
    first, longest = first[fitting], longest[fitting]
    if not len(first):
        raise DataError(f"there is no pair of sentences of at most {length} tokens; set a larger data.length")
    lengths, bounds = np.sort(longest), [0]
    while bounds[-1] < len(lengths):
        most = num_tokens // (2 * lengths[bounds[-1]])
        last = lengths[min(bounds[-1] + max(1, most), len(lengths)) - 1]
        bounds.append(min(bounds[-1] + max(1, num_tokens // (2 * last)), len(lengths)))
    return Batches(longest, np.array(bounds)), first


def _padded(store: Store, sentences: Numbers, padding: int) -> Tensor:
    """The tokens of some sentences, one a row."""
    starts = store.sentences[sentences]
    lengths = store.sentences[sentences + 1] - starts
    column = np.arange(lengths.max())
    inside = column < lengths[:, None]
    ids = np.full(inside.shape, padding, dtype=np.int64)
    ids[inside] = store.tokens[(starts[:, None] + column)[inside]]
    return torch.from_numpy(ids)
