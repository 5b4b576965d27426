"""Bidirectional language modelling: a forward and a backward model with a shared softmax (Peters et al., 2018).

The two directions read different positions of the text, one forwards and one backwards, so that each step continues the
one before. With a sampled softmax, all targets of a step share its candidates.
"""

import dataclasses
import functools
import math
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from polyseme.arrays import Ids
from polyseme.batch import IGNORED, Batch, Encoded, LossOutput
from polyseme.datasets.token_store import TokenStore
from polyseme.layers.sampled_softmax import AdaptiveSoftmax, Softmax, sample_candidates
from polyseme.models.base import Encoder
from polyseme.objectives.base import ObjectiveConfig, required_ids, select_targets
from polyseme.objectives.causal_lm import CausalLm
from polyseme.objectives.sources import TokenSource, rng
from polyseme.tokenization.config import SpecialTokens

# Up to this vocabulary size; for the largest, the optimizer takes too long for the whole table.
_AUTO_SOFTMAX = ((10_000, "full"), (200_000, "sampled"), (math.inf, "adaptive"))


class BidirectionalLmConfig(ObjectiveConfig):
    """Output layer of a bidirectional language model."""

    kind: Literal["bidirectional_lm"] = "bidirectional_lm"
    softmax: Literal["auto", "full", "sampled", "adaptive"] = "auto"  # auto: by the size of the vocabulary
    num_sampled: int = Field(8192, ge=1)  # candidates per step of the sampled softmax


class BidirectionalLm(CausalLm):
    """Forward and backward language models with a shared softmax."""

    name: ClassVar[str] = "bidirectional_lm"

    def __init__(self, config: BidirectionalLmConfig, encoder: Encoder, specials: SpecialTokens) -> None:
        super().__init__()
        self.start, self.end = required_ids(specials, "start", "end")
        vocab_size, width = encoder.config.vocab_size, encoder.widths[-1] // 2
        kind: str = config.softmax
        if kind == "auto":
            kind = next(kind for most, kind in _AUTO_SOFTMAX if vocab_size <= most)
        self.softmax = AdaptiveSoftmax(vocab_size, width) if kind == "adaptive" else Softmax(vocab_size, width)
        self.vocab_size = vocab_size
        self.num_sampled = config.num_sampled if kind == "sampled" else 0

    def draw_batch(self, source: TokenSource, *, seed: int, step: int) -> Batch:
        text = _delimited(source.store, self.start, self.end)
        num_read = step * source.length
        positions = source.stream_positions(num_read, source.length + 1, seed=seed, num_tokens=text.num_tokens)
        forward, backward = (torch.from_numpy(text.read(some)) for some in (positions, -1 - positions))  # (B, T + 1)
        batch = Batch.of(forward[:, :-1].contiguous(), backward_ids=backward[:, :-1].contiguous(), continues=True)
        # A sentence does not predict the start of the next one.
        batch = batch.with_labels("forward", forward[:, 1:].masked_fill(forward[:, 1:] == self.start, IGNORED))
        batch = batch.with_labels("backward", backward[:, 1:].masked_fill(backward[:, 1:] == self.end, IGNORED))
        if not self.num_sampled:
            return batch
        targets = np.concatenate([labels[labels != IGNORED].numpy() for labels in batch.labels.values()])
        candidates = sample_candidates(targets, self.vocab_size, self.num_sampled, rng(seed, "words", step))
        return dataclasses.replace(batch, sampled_candidates=candidates)

    def hidden_states(self, encoded: Encoded) -> Tensor:
        return encoded.layers[-1].chunk(2, -1)[0]

    def backward_hidden_states(self, encoded: Encoded) -> Tensor:
        """Inputs of the output layer in the backward direction, (B, T, D)."""
        return encoded.layers[-1].chunk(2, -1)[1]

    def loss(self, encoder: Encoder, encoded: Encoded, batch: Batch) -> LossOutput:
        losses, num_correct = {}, {}
        for direction, all_hidden in zip(("forward", "backward"), encoded.layers[-1].chunk(2, -1), strict=True):
            hidden, targets = select_targets(all_hidden, batch, direction)
            if self.training:
                losses[direction] = self.softmax.loss(hidden, targets, batch.sampled_candidates)
            else:
                nll, correct = self.softmax.token_nll(hidden, targets)
                losses[direction], num_correct[direction] = nll.sum(), correct.sum()
        return LossOutput(losses=losses, correct=num_correct)

    def token_nll(self, encoder: Encoder, hidden: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        return self.softmax.token_nll(hidden, targets)

    def logits(self, encoder: Encoder, hidden: Tensor) -> Tensor:
        return self.softmax.logits(hidden)

    def num_predictions(self, store: TokenStore) -> int:
        return _delimited(store, self.start, self.end).num_tokens - store.num_sentences

    def metrics(self, means: Mapping[str, float], source: Any) -> dict[str, float]:
        mean = {self.name: (means["forward"] + means["backward"]) / 2}  # as in likelihood scores
        perplexities = {f"{name}_perplexity": perplexity(means[name]) for name in ("forward", "backward")}
        return {**perplexities, **super().metrics(mean, source)}


class DelimitedSentences:
    """A text with a start and an end token around each sentence."""

    def __init__(self, store: TokenStore, start: int, end: int) -> None:
        self.store, self.start, self.end = store, start, end
        bounds = np.asarray(store.sentences)
        # The last sentence of a document already has an end token.
        closed = (store.tokens[bounds[1:] - 1] == end) & (bounds[1:] > bounds[:-1])
        self.bounds = bounds + np.concatenate([[0], np.cumsum(2 - closed)])
        self.num_tokens = int(self.bounds[-1])  # with the added ones

    def read(self, positions: Ids) -> Ids:
        """Tokens at these positions; the text is circular."""
        positions = positions % self.num_tokens
        numbers = np.searchsorted(self.bounds, positions, side="right") - 1
        first, last = self.store.sentences[numbers], self.store.sentences[numbers + 1]
        inside = first + positions - self.bounds[numbers] - 1
        tokens = self.store.tokens[inside.clip(0, self.store.num_tokens - 1)].astype(np.int64)
        return np.where(inside < first, self.start, np.where(inside >= last, self.end, tokens))


_delimited = functools.lru_cache(maxsize=4)(DelimitedSentences)


def perplexity(nll: float) -> float:
    """Perplexity of a mean negative log-likelihood in nats, kept finite."""
    return math.exp(min(nll, 700.0))
