"""Interpolated modified Kneser–Ney smoothing (Chen and Goodman, 1999).

p(w | h) = (c(h w) - D(c(h w))) / c(h) + backoff(h) p(w | h'), with one discount for n-grams that count 1, one for those
that count 2 and one for all others, separately for each order; backoff(h) is the probability mass that the discounts
free. Counts of lower orders are continuation counts (Kneser and Ney, 1995; `ngram_counts`).
"""

import numpy as np

from polyseme.arrays import Doubles, Floats, Ids
from polyseme.baselines.ngram_counts import NgramCounts
from polyseme.baselines.ngram_trie import Indices, InterpolatedNgrams
from polyseme.system.jit import jit

_FALLBACK = (0.5, 1.0, 1.5)
"""Discounts of an order with too few n-grams to estimate them (Heafield et al., 2013)."""


def smooth(counted: NgramCounts) -> InterpolatedNgrams:
    """Estimate a language model from counts."""
    trie, counts = counted.trie, counted.counts
    frequencies = np.zeros(len(trie.words), np.float32)
    backoffs = np.ones(len(trie.first) - 1, np.float32)
    for length in range(trie.order):
        begin, end, children_end = trie.level_starts[length : length + 3]
        discounts = estimate_discounts(np.bincount(np.minimum(counts[end:children_end], 5), minlength=6)[1:5])
        _smooth_contexts(trie.first, counts, begin, end, discounts, frequencies, backoffs)
    return InterpolatedNgrams(trie=trie, frequencies=frequencies, backoffs=backoffs)


def estimate_discounts(num_ngrams: Ids) -> Doubles:
    """The discounts of counts 0, 1, 2, and 3 or more, given how many n-grams count 1, 2, 3 and 4."""
    once, twice, *_ = num_ngrams.tolist()
    with np.errstate(divide="ignore", invalid="ignore"):
        shared = once / np.float64(once + 2 * twice)
        discounts = np.arange(1, 4) - np.arange(2, 5) * shared * num_ngrams[1:] / num_ngrams[:-1]
    if not ((discounts > 0) & (discounts <= np.arange(1, 4))).all():  # not a number either
        discounts = np.array(_FALLBACK)
    return np.concatenate([[0.0], discounts])


@jit
def _smooth_contexts(
    first: Indices, counts: Indices, begin: int, end: int, discounts: Doubles, frequencies: Floats, backoffs: Floats
) -> None:
    """Set the backoff weights of the contexts from `begin` to `end`, and the relative frequencies after them."""
    for context in range(begin, end):
        total, discounted = 0, 0.0
        for child in range(first[context], first[context + 1]):
            total += counts[child]
            discounted += discounts[min(counts[child], 3)]
        if total == 0:
            continue
        for child in range(first[context], first[context + 1]):
            frequencies[child] = (counts[child] - discounts[min(counts[child], 3)]) / total
        backoffs[context] = discounted / total
