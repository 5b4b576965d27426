"""Which words of a text are read, and which are drawn against them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyseme.kernels import compiled

Integers = NDArray[np.integer[Any]]

_HALF = np.uint64(32)


def keep_chances(counts: Integers, sample: float) -> NDArray[np.float64]:
    """The chance with which each word is read at all: sqrt(t / f) + t / f, as in the paper's program."""
    if not sample:
        return (counts > 0).astype(np.float64)
    share = np.maximum(counts, 1) / max(1, counts.sum()) / sample
    return np.where(counts > 0, np.minimum(1.0, np.sqrt(1 / share) + 1 / share), 0.0)


def draw_table(weights: NDArray[np.float64]) -> NDArray[np.uint64]:
    """A table from which ids are drawn by their weights with two random numbers (Walker, 1977).

    An id is drawn evenly, and then kept if the second number is below the upper half of its entry; else the lower half
    is the id to take instead.
    """
    scaled = weights * (len(weights) / weights.sum())
    others = _pair_up(scaled, np.flatnonzero(scaled < 1), np.flatnonzero(scaled >= 1))
    chances: NDArray[np.uint64] = np.minimum(scaled * 2.0**32, 2.0**32 - 1).astype(np.uint64)
    return np.asarray(chances << _HALF | others.astype(np.uint64))


@compiled
def _pair_up(scaled: NDArray[np.float64], small: Integers, large: Integers) -> Integers:
    """Fill up what is below the mean from what is above; `scaled` becomes the share that each keeps of its place."""
    others = np.arange(len(scaled))
    small, num_small, num_large = np.append(small, large), len(small), len(large)
    while num_small and num_large:
        low, high = small[num_small - 1], large[num_large - 1]
        others[low] = high
        scaled[high] -= 1 - scaled[low]
        num_small -= 1
        if scaled[high] < 1:
            num_large -= 1
            small[num_small] = high
            num_small += 1
    return others
