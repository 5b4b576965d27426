"""Predict each word from those before it, and by another model from those behind it (Peters et al., 2018).

The two read different places of the text, one forwards and one backwards, so that each goes on where it ended. Words
that are drawn to stand for all others in the softmax are the same for a whole step, and the true ones of all places are
among them; what each counts is corrected by how likely it was to be (Jean et al., 2015).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor, nn

from polyseme.layers.softmax import linear_cross_entropy, token_nats
from polyseme.models.base import Encoder
from polyseme.objectives.base import Objective, ObjectiveConfig, Source, generator, required
from polyseme.objectives.next_token import NextToken, scored
from polyseme.tensors import IGNORED, Batch, Encoded, Outcome
from polyseme.text.store import Store
from polyseme.text.tokenizer import Specials

Ids = NDArray[np.int64]

_MOST_WHOLE = 10_000  # words up to which all of them are scored
_MOST_SAMPLED = 200_000  # words up to which some are; beyond, the table itself takes too long to move


class BothWaysConfig(ObjectiveConfig):
    """How a word is found among all words."""

    kind: Literal["both_ways"] = "both_ways"
    softmax: Literal["auto", "full", "sampled", "adaptive"] = "auto"  # auto: by the size of the vocabulary
    drawn: int = Field(8192, ge=1)  # words that are drawn in a step, if sampled


class Softmax(nn.Module):
    """A matrix and a bias; in training all of it is used, or the rows of some words that stand for the rest."""

    def __init__(self, vocab_size: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocab_size, width))
        self.bias = nn.Parameter(torch.zeros(vocab_size))
        nn.init.normal_(self.weight, std=width**-0.5)

    def loss(self, hidden: Tensor, targets: Tensor, drawn: tuple[Tensor, Tensor] | None) -> Tensor:
        """The summed nats of targets, among all words or those that were drawn."""
        if drawn is None:
            return linear_cross_entropy(hidden, self.weight, self.bias, targets)
        words, chances = drawn
        weight, bias = F.embedding(words, self.weight), self.bias[words] - chances.log()
        return linear_cross_entropy(hidden, weight, bias, torch.searchsorted(words, targets))

    def nats(self, hidden: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """The nats of each target among all words, and whether it was the likeliest."""
        return token_nats(hidden, self.weight, self.bias, targets)

    def logits(self, hidden: Tensor) -> Tensor:
        """Scores of all words."""
        return F.linear(hidden, self.weight, self.bias)


class AdaptiveSoftmax(nn.AdaptiveLogSoftmaxWithLoss):
    """Frequent words first, then groups of rarer ones in fewer dimensions (Grave et al., 2017)."""

    def __init__(self, vocab_size: int, width: int) -> None:
        cuts = sorted({max(1, vocab_size // 16), max(1, vocab_size // 4)})
        divisor = min(4, math.isqrt(width))  # so that the rarest have a dimension left
        super().__init__(width, vocab_size, cuts, div_value=divisor, head_bias=True)

    def loss(self, hidden: Tensor, targets: Tensor, drawn: tuple[Tensor, Tensor] | None) -> Tensor:
        """The summed nats of targets."""
        chances: Tensor = self(hidden, targets).output
        return -chances.sum()

    def nats(self, hidden: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """The nats of each target, and whether it was the likeliest."""
        return -self(hidden, targets).output, self.predict(hidden) == targets

    def logits(self, hidden: Tensor) -> Tensor:
        """The logarithms of the chances of all words."""
        return self.log_prob(hidden.reshape(-1, hidden.shape[-1])).view(*hidden.shape[:-1], -1)


class Forward(NextToken):
    """Draws the rows of both, holds the output layer of both, and predicts from the left half of the top layer."""

    name: ClassVar[str] = "forwards"

    def __init__(self, config: BothWaysConfig, encoder: Encoder, specials: Specials) -> None:
        super().__init__()
        self.start, self.end = required(specials, "start", "end")
        vocab_size, width = encoder.config.vocab_size, encoder.widths[-1] // 2
        kind: str = config.softmax
        if kind == "auto":
            kind = "full" if vocab_size <= _MOST_WHOLE else "sampled" if vocab_size <= _MOST_SAMPLED else "adaptive"
        self.softmax = AdaptiveSoftmax(vocab_size, width) if kind == "adaptive" else Softmax(vocab_size, width)
        self.vocab_size = vocab_size
        self.num_drawn = config.drawn if kind == "sampled" else 0
        self._text: Sentences | None = None

    def draw(self, source: Source, *, seed: int, step: int) -> Batch:
        text = self._sentences(source.store)
        read = step * source.length
        places = source.streams(read, source.length + 1, seed=seed, num_tokens=text.num_tokens)
        rows, mirrored = (torch.from_numpy(text.read(some)) for some in (places, -1 - places))  # (B, T + 1)
        batch = Batch.of(rows[:, :-1].contiguous(), mirrored=mirrored[:, :-1].contiguous(), continues=True)
        # Where a sentence ends the next begins: nothing to be learnt.
        batch = batch.labelled("forwards", rows[:, 1:].masked_fill(rows[:, 1:] == self.start, IGNORED))
        batch = batch.labelled("backwards", mirrored[:, 1:].masked_fill(mirrored[:, 1:] == self.end, IGNORED))
        return dataclasses.replace(batch, drawn=self._draw_words(batch, seed, step)) if self.num_drawn else batch

    def _draw_words(self, batch: Batch, seed: int, step: int) -> tuple[Tensor, Tensor]:
        """Words in order, and how likely each was to be among them, if word k is drawn at log(1 + 1/k)."""
        chance = generator(seed, "words", step)
        ranks = np.exp(chance.random(self.num_drawn) * np.log(self.vocab_size + 1)).astype(np.int64)
        targets = np.concatenate([labels[labels != IGNORED].numpy() for labels in batch.labels.values()])
        words = np.unique(np.concatenate([(ranks - 1).clip(max=self.vocab_size - 1), targets]))
        shares = np.log1p(1 / (words + 1)) / np.log(self.vocab_size + 1)
        # The true words of the other places are drawn as well, by the text itself, and about so.
        chances = -np.expm1((self.num_drawn + len(targets)) * np.log1p(-shares))
        return torch.from_numpy(words), torch.from_numpy(chances).float()

    def _sentences(self, store: Store) -> Sentences:
        text = self._text
        if text is None or text.store is not store:
            text = self._text = Sentences(store, self.start, self.end)
        return text

    def read(self, encoded: Encoded) -> Tensor:
        return encoded.layers[-1].chunk(2, -1)[0]

    def read_back(self, encoded: Encoded) -> Tensor:
        """The vectors that the words before are predicted from."""
        return encoded.layers[-1].chunk(2, -1)[1]

    def loss(self, encoder: Encoder, hidden: Tensor, targets: Tensor, batch: Batch) -> Tensor:
        return self.softmax.loss(hidden, targets, batch.drawn)

    def nats(self, encoder: Encoder, hidden: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        return self.softmax.nats(hidden, targets)

    def logits(self, encoder: Encoder, hidden: Tensor) -> Tensor:
        return self.softmax.logits(hidden)

    def num_asked(self, store: Store) -> int:
        return self._sentences(store).num_tokens - store.num_sentences

    def figures(self, means: Mapping[str, float], source: Any) -> dict[str, float]:
        both = {self.name: (means["forwards"] + means["backwards"]) / 2}  # as texts are scored
        return {"forwards_perplexity": perplexity(means["forwards"]), **super().figures(both, source)}


class Backward(Objective):
    """Predicts from the right half of the top layer, by the same output layer."""

    def __init__(self, forward: Forward) -> None:
        super().__init__()
        self._forward = (forward,)  # held so that its weights are not counted twice

    def cost(self, encoder: Encoder, encoded: Encoded, batch: Batch) -> Outcome:
        (forward,) = self._forward
        hidden, targets = scored(forward.read_back(encoded), batch, "backwards")
        if self.training:
            return Outcome(losses={"backwards": forward.loss(encoder, hidden, targets, batch)})
        nats, right = forward.nats(encoder, hidden, targets)
        return Outcome(losses={"backwards": nats.sum()}, correct={"backwards": right.sum()})

    def figures(self, means: Mapping[str, float], source: Any) -> dict[str, float]:
        return {"backwards_perplexity": perplexity(means["backwards"])}


class Sentences:
    """A text with a token before and one behind each of its sentences."""

    def __init__(self, store: Store, start: int, end: int) -> None:
        self.store, self.start, self.end = store, start, end
        bounds = np.asarray(store.sentences)
        # The last of a document has its end already.
        closed = (store.tokens[bounds[1:] - 1] == end) & (bounds[1:] > bounds[:-1])
        self.bounds = bounds + np.concatenate([[0], np.cumsum(2 - closed)])

    def __deepcopy__(self, memo: object) -> Sentences:
        return self  # copies of a model read the same text

    @property
    def num_tokens(self) -> int:
        """With those that were added."""
        return int(self.bounds[-1])

    def read(self, places: Ids) -> Ids:
        """The tokens at some places; the end of the text runs on into its beginning."""
        places = places % self.num_tokens
        numbers = np.searchsorted(self.bounds, places, side="right") - 1
        first, last = self.store.sentences[numbers], self.store.sentences[numbers + 1]
        inside = first + places - self.bounds[numbers] - 1
        tokens = self.store.tokens[inside.clip(0, self.store.num_tokens - 1)].astype(np.int64)
        return np.where(inside < first, self.start, np.where(inside >= last, self.end, tokens))


def perplexity(nats: float) -> float:
    """Among how many words, all as likely, a word costs so much."""
    return math.exp(min(nats, 700.0))  # what is more is no number any more
