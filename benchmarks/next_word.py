"""Dev perplexity of the NNLM against an interpolated trigram model with the same vocabulary.

The baseline is the one of the NNLM paper (Jelinek and Mercer, 1980): a mixture of uniform, unigram, bigram and trigram
probabilities, whose weights depend on the frequency of the history and are estimated on a held-out twentieth of the
training text. Unknown words count as one word in both models.

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
from polyseme.datasets.builtin import sample_text
from polyseme.training.pretraining import PretrainingSession
from polyseme.training.recipes.recipe import Recipe

Ids = NDArray[np.int64]
EM_ITERATIONS = 20


class Trigram:
    """Interpolated trigram model with interpolation weights fitted by EM."""

    def __init__(self, tokens: Ids, vocab_size: int) -> None:
        self.vocab_size = vocab_size
        split = len(tokens) - len(tokens) // 20
        self.keys, self.counts = zip(*(self._count(tokens[:split], order) for order in range(4)), strict=True)
        num_buckets = int(self._buckets(tokens[split:]).max()) + 2
        self.weights = np.full((num_buckets, 4), 0.25)
        probabilities, buckets = self._probabilities(tokens[split:]), self._clipped(tokens[split:])
        for _ in range(EM_ITERATIONS):
            posterior = self.weights[buckets] * probabilities
            posterior /= posterior.sum(1, keepdims=True)
            sums = np.stack([np.bincount(buckets, part, minlength=num_buckets) for part in posterior.T], 1) + 1e-3
            self.weights = sums / sums.sum(1, keepdims=True)

    def token_nll(self, tokens: Ids) -> float:
        """The mean negative log-likelihood of the third and all later words."""
        probabilities = (self.weights[self._clipped(tokens)] * self._probabilities(tokens)).sum(1)
        return float(-np.log(probabilities).mean())

    def _keys(self, tokens: Ids, order: int) -> Ids:
        """A key for each n-gram of length `order`."""
        length = len(tokens) - order + 1
        keys = np.zeros(length, np.int64)
        for offset in range(order):
            keys = keys * self.vocab_size + tokens[offset : offset + length]
        return keys

    def _count(self, tokens: Ids, order: int) -> tuple[Ids, Ids]:
        return np.unique(self._keys(tokens, order), return_counts=True)

    def _lookup(self, keys: Ids, order: int) -> Ids:
        known, counts = self.keys[order], self.counts[order]
        indices = np.searchsorted(known, keys).clip(max=len(known) - 1)
        return np.where(known[indices] == keys, counts[indices], 0)

    def _probabilities(self, tokens: Ids) -> NDArray[np.float64]:
        """Uniform, unigram, bigram and trigram probability of each word from the third on."""
        probabilities = [np.full(len(tokens) - 2, 1 / self.vocab_size)]
        for order in (1, 2, 3):
            words = tokens[3 - order :]
            counts = self._lookup(self._keys(words, order), order)
            history = self._lookup(self._keys(words[:-1], order - 1), order - 1)[: len(counts)]
            probabilities.append(counts / np.maximum(1, history))
        return np.stack(probabilities, 1)

    def _buckets(self, tokens: Ids) -> Ids:
        """The frequency of the two preceding words in powers of two, or of the last one if that is zero."""
        two = self._lookup(self._keys(tokens[:-1], 2), 2)
        one = self._lookup(self._keys(tokens[1:-1], 1), 1)
        return np.where(two > 0, 40 + np.log2(np.maximum(1, two)), np.log2(1 + one)).astype(np.int64)

    def _clipped(self, tokens: Ids) -> Ids:
        return np.minimum(self._buckets(tokens), len(self.weights) - 1)


def main() -> None:
    parser, parse_args = arguments(__doc__, rounds=1, long_rounds=1)
    parser.add_argument("--corpus", type=Path, help="training text (default: the docstrings sample)")
    parser.add_argument("--dev", type=Path, help="dev text")
    parser.add_argument("--budget", help="training budget of the NNLM (1m; 10m with --long)")
    parser.add_argument("--size", default="small")
    args = parse_args()
    if (args.corpus is None) != (args.dev is None):
        parser.error("--corpus requires --dev and vice versa; pass both")
    docstrings = sample_text("docstrings")
    corpus, dev = args.corpus or docstrings.train[0], args.dev or docstrings.dev[0]
    data: dict[str, Any] = {"corpus": [str(corpus)], "dev": [str(dev)]}
    changes = {"budget": args.budget or ("10m" if args.long else "1m")}
    with tempfile.TemporaryDirectory() as folder:
        session = PretrainingSession.start(
            Recipe.preset("nnlm", args.size, data=data, training=changes), Path(folder) / "run"
        )
        for progress in session.steps():
            dev_losses = progress.dev or {}
        session.finish()
    assert session.dev is not None
    tokens = session.source.store.tokens.astype(np.int64)
    trigram = Trigram(tokens, session.tokenizer.vocab_size).token_nll(session.dev.store.tokens.astype(np.int64))
    rows: list[Row] = [
        {
            "words": session.source.store.num_words,
            "vocabulary": session.tokenizer.vocab_size,
            "steps": session.total_steps,
            "trigram perplexity": math.exp(trigram),
            "NNLM perplexity": math.exp(dev_losses["causal_lm"]),
            "ratio": math.exp(trigram - dev_losses["causal_lm"]),
        }
    ]
    report(rows, args.json)


if __name__ == "__main__":
    main()
