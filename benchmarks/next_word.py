"""An NNLM beside an interpolated trigram: perplexity on the dev text, over the same words of the same vocabulary.

The trigram is that of Jelinek and Mercer (1980), against which the NNLM was first measured: a mixture of the shares of
a word among all words, behind one word, and behind two, with weights by how often what stands before was met, fitted
on a twentieth of the text that is kept from counting. Unknown words are one word on both sides.

    python benchmarks/next_word.py --corpus train.txt --dev dev.txt [--budget 10m] [--size small] [--json out.json]
"""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench import Row, arguments, report
from polyseme.text.samples import sample_text
from polyseme.train.pretraining import Pretraining
from polyseme.train.recipe import Recipe

Numbers = NDArray[np.int64]
ROUNDS = 20  # of fitting the weights


class Trigram:
    """Shares of words behind nothing, one word and two, and how to mix them."""

    def __init__(self, tokens: Numbers, vocab_size: int) -> None:
        self.vocab_size = vocab_size
        kept = len(tokens) - len(tokens) // 20
        self.keys, self.counts = zip(*(self._count(tokens[:kept], order) for order in range(4)), strict=True)
        num_buckets = int(self._buckets(tokens[kept:]).max()) + 2
        self.weights = np.full((num_buckets, 4), 0.25)
        shares, buckets = self._shares(tokens[kept:]), self._clipped(tokens[kept:])
        for _ in range(ROUNDS):
            mixed = self.weights[buckets] * shares
            mixed /= mixed.sum(1, keepdims=True)
            sums = np.stack([np.bincount(buckets, part, minlength=num_buckets) for part in mixed.T], 1) + 1e-3
            self.weights = sums / sums.sum(1, keepdims=True)

    def nats(self, tokens: Numbers) -> float:
        """The mean cost of a word that has two before it."""
        chances = (self.weights[self._clipped(tokens)] * self._shares(tokens)).sum(1)
        return float(-np.log(chances).mean())

    def _keys(self, tokens: Numbers, order: int) -> Numbers:
        """A number for each run of `order` words."""
        length = len(tokens) - order + 1
        keys = np.zeros(length, np.int64)
        for place in range(order):
            keys = keys * self.vocab_size + tokens[place : place + length]
        return keys

    def _count(self, tokens: Numbers, order: int) -> tuple[Numbers, Numbers]:
        return np.unique(self._keys(tokens, order), return_counts=True)

    def _look(self, keys: Numbers, order: int) -> Numbers:
        known, counts = self.keys[order], self.counts[order]
        places = np.searchsorted(known, keys).clip(max=len(known) - 1)
        return np.where(known[places] == keys, counts[places], 0)

    def _shares(self, tokens: Numbers) -> NDArray[np.float64]:
        """Of each word from the third on: one of all words, and its share behind none, one and two words."""
        shares = [np.full(len(tokens) - 2, 1 / self.vocab_size)]
        for order in (1, 2, 3):
            runs = tokens[3 - order :]
            met = self._look(self._keys(runs, order), order)
            before = self._look(self._keys(runs[:-1], order - 1), order - 1)[: len(met)]
            shares.append(met / np.maximum(1, before))
        return np.stack(shares, 1)

    def _buckets(self, tokens: Numbers) -> Numbers:
        """How often the two words before were met, in powers of two; where never, how often the one before was."""
        two = self._look(self._keys(tokens[:-1], 2), 2)
        one = self._look(self._keys(tokens[1:-1], 1), 1)
        return np.where(two > 0, 40 + np.log2(np.maximum(1, two)), np.log2(1 + one)).astype(np.int64)

    def _clipped(self, tokens: Numbers) -> Numbers:
        return np.minimum(self._buckets(tokens), len(self.weights) - 1)


def main() -> None:
    parser, read = arguments(__doc__, rounds=1, long_rounds=1)
    parser.add_argument("--corpus", type=Path, help="text to learn from (the docstrings of this machine)")
    parser.add_argument("--dev", type=Path, help="text to measure on")
    parser.add_argument("--budget", help="of the NNLM (1m; 10m with --long)")
    parser.add_argument("--size", default="small")
    given = read()
    if (given.corpus is None) != (given.dev is None):
        parser.error("--corpus and --dev go together")
    docstrings = sample_text("docstrings")
    corpus, dev = given.corpus or docstrings.train[0], given.dev or docstrings.dev[0]
    data: dict[str, Any] = {"corpus": [str(corpus)], "dev": [str(dev)]}
    plan = {"budget": given.budget or ("10m" if given.long else "1m")}
    with tempfile.TemporaryDirectory() as folder:
        training = Pretraining.start(Recipe.preset("nnlm", given.size, data=data, plan=plan), Path(folder) / "run")
        for progress in training.steps():
            figures = progress.dev or {}
        training.finish()
    assert training.dev is not None
    tokens = training.source.store.tokens.astype(np.int64)
    trigram = Trigram(tokens, training.tokenizer.vocab_size).nats(training.dev.store.tokens.astype(np.int64))
    rows: list[Row] = [
        {
            "words": training.source.store.num_words,
            "vocabulary": training.tokenizer.vocab_size,
            "steps": training.total,
            "trigram perplexity": math.exp(trigram),
            "NNLM perplexity": math.exp(figures["next_token"]),
            "ratio": math.exp(trigram - figures["next_token"]),
        }
    ]
    report(rows, given.json)


if __name__ == "__main__":
    main()
