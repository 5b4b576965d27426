"""Translation: predict the target sentence token by token (Vaswani et al., 2017; McCann et al., 2017).

A batch holds sentence pairs of about the same length, up to a number of tokens.

Targets are smoothed: a fraction of the probability is uniform over all tokens but the padding (label smoothing; Szegedy
et al., 2016). The term this adds to the loss is linear in the logits and needs no second softmax.
"""

import functools
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from polyseme.arrays import Integers
from polyseme.batch import IGNORED, Batch, Encoded, LossOutput
from polyseme.datasets.token_store import TokenStore, find_parallel_pairs
from polyseme.errors import ConfigError, DataError
from polyseme.layers.linear import linear
from polyseme.models.base import Encoder
from polyseme.models.seq2seq import Seq2SeqEncoder
from polyseme.objectives.base import Objective, ObjectiveConfig, required_ids
from polyseme.objectives.bucketing import LengthBuckets
from polyseme.objectives.sources import TokenSource
from polyseme.tokenization.config import SpecialTokens


class TranslationConfig(ObjectiveConfig):
    """Settings of a translation objective."""

    uses_parallel_text = True
    kind: Literal["translation"] = "translation"
    smoothing: float = Field(0.1, ge=0, lt=1)  # label smoothing ε


class Translation(Objective):
    """Sequence-to-sequence objective, whose head is a decoder."""

    def __init__(self, config: TranslationConfig, encoder: Encoder, specials: SpecialTokens) -> None:
        super().__init__()
        if not isinstance(encoder, Seq2SeqEncoder):
            raise ConfigError("objective.kind=translation needs a sequence-to-sequence family; remove the setting")
        self.smoothing = config.smoothing
        self.pad, self.unknown, self.start, self.end = required_ids(specials, "pad", "unknown", "start", "end")
        self.decoder = encoder.new_decoder()

    def draw_batch(self, source: TokenSource, *, seed: int, step: int) -> Batch:
        store = source.store
        buckets, firsts = _bucket_pairs(store, source.length, source.num_rows * source.length)
        first = firsts[buckets.draw(seed=seed, step=step)]
        ids = _padded(store, first)
        real = ids != IGNORED
        labels = _padded(store, first + 1)
        # Words outside the target vocabulary become the unknown token.
        labels = labels.where(labels < self.decoder.vocab_size, self.unknown)
        batch = Batch(ids=ids.where(real, self.pad), mask=real)
        return batch.with_labels("translation", labels)

    def loss(self, encoder: Encoder, encoded: Encoded, batch: Batch) -> LossOutput:
        labels = batch.labels["translation"]
        predicted = labels != IGNORED
        inputs = F.pad(labels.where(predicted, self.pad)[:, :-1], (1, 0), value=self.start)
        hidden = self.decoder(encoder, inputs, self.decoder.new_state(encoded)).hidden[predicted]
        targets, (weight, bias) = labels[predicted], self.decoder.output(encoder)
        output = self.token_loss("translation", hidden, weight, bias, targets)
        if not self.training or not self.smoothing:
            return output
        margin = self._margin(hidden, weight, bias, targets)
        return LossOutput(losses={"translation": output.losses["translation"] + self.smoothing * margin})

    def _margin(self, hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor) -> Tensor:
        """Target logit minus the mean logit of all tokens but the padding, summed."""
        others = torch.arange(len(weight), device=weight.device) != self.pad
        uniform = others.to(weight.dtype) / others.sum()
        margin = (hidden * (F.embedding(targets, weight) - uniform @ weight)).sum()
        return margin if bias is None else margin + (bias[targets] - uniform @ bias).sum()

    def logits(self, encoder: Encoder, hidden: Tensor) -> Tensor:
        """Logits of the next token, (…, V)."""
        return linear(hidden, *self.decoder.output(encoder))


@functools.lru_cache(maxsize=4)
def _bucket_pairs(store: TokenStore, length: int, num_tokens: int) -> tuple[LengthBuckets, Integers]:
    """Bucket pairs of sentences of up to `length` tokens into batches of up to `num_tokens`, padding included.

    Also return the index of the first sentence of each pair.
    """
    first = find_parallel_pairs(store)
    longest = np.maximum(np.diff(store.sentences)[first], np.diff(store.sentences)[first + 1])
    fitting = longest <= length
    first, longest = first[fitting], longest[fitting]
    if not len(first):
        raise DataError(f"no sentence pair has at most {length} tokens per sentence; set a larger data.sequence_length")
    lengths, bounds = np.sort(longest), [0]
    while bounds[-1] < len(lengths):
        num_rows = num_tokens // (2 * lengths[bounds[-1]])
        last = lengths[min(bounds[-1] + max(1, num_rows), len(lengths)) - 1]
        bounds.append(min(bounds[-1] + max(1, num_tokens // (2 * last)), len(lengths)))
    return LengthBuckets(longest, np.array(bounds)), first


def _padded(store: TokenStore, sentences: Integers) -> Tensor:
    """Tokens of sentences, one per row, padded with IGNORED."""
    starts = store.sentences[sentences]
    lengths = store.sentences[sentences + 1] - starts
    column = np.arange(lengths.max())
    inside = column < lengths[:, None]
    ids = np.full(inside.shape, IGNORED, dtype=np.int64)
    ids[inside] = store.tokens[(starts[:, None] + column)[inside]]
    return torch.from_numpy(ids)
