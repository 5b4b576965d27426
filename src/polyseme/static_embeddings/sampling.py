"""Subsampling of frequent words, and alias tables for negative sampling."""

import numpy as np
from numpy.typing import NDArray

from polyseme.arrays import Doubles, Integers
from polyseme.static_embeddings.jit_rng import HALF
from polyseme.system.jit import jit


def keep_probabilities(counts: Integers, subsample: float) -> Doubles:
    """The probability of each word to survive subsampling: sqrt(t / f) + t / f, as in the original word2vec code."""
    if not subsample:
        return (counts > 0).astype(np.float64)
    ratios = np.maximum(counts, 1) / max(1, counts.sum()) / subsample
    return np.where(counts > 0, np.minimum(1.0, np.sqrt(1 / ratios) + 1 / ratios), 0.0)


def alias_table(weights: Doubles) -> NDArray[np.uint64]:
    """An alias table (Walker, 1977), from which ids are sampled by weight with two random numbers.

    Sample an id uniformly; keep it if the second number is below the upper half of its entry, else take the id in the
    lower half.
    """
    scaled = weights * (len(weights) / weights.sum())
    aliases = _pair_up(scaled, np.flatnonzero(scaled < 1), np.flatnonzero(scaled >= 1))
    keep: NDArray[np.uint64] = np.minimum(scaled * 2.0**32, 2.0**32 - 1).astype(np.uint64)
    return np.asarray(keep << HALF | aliases.astype(np.uint64))


@jit
def _pair_up(scaled: Doubles, small: Integers, large: Integers) -> Integers:
    """Fill entries below the mean from entries above it; `scaled` becomes the probability to keep each id."""
    aliases = np.arange(len(scaled))
    small, num_small, num_large = np.append(small, large), len(small), len(large)
    while num_small and num_large:
        low, high = small[num_small - 1], large[num_large - 1]
        aliases[low] = high
        scaled[high] -= 1 - scaled[low]
        num_small -= 1
        if scaled[high] < 1:
            num_large -= 1
            small[num_small] = high
            num_small += 1
    return aliases
