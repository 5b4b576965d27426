"""Phrases: words that stand together more often than chance has it become one, as `new_york` (Mikolov et al., 2013).

The score of a and b is (count(a b) - min_count) / (count(a) count(b)), times the number of words, so that the same
threshold serves for every text. Each pass joins the pairs above its threshold from left to right, and a pass over what
is joined finds longer phrases.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array

from polyseme.files import cache_folder
from polyseme.static.counts import count_pairs
from polyseme.static.kernels import compiled

Integers = NDArray[np.integer[Any]]


@dataclass(frozen=True, eq=False, kw_only=True)
class Joined:
    """A text whose phrases have ids of their own, from the size of the vocabulary on."""

    tokens: NDArray[np.uint32]
    bounds: NDArray[np.int64]
    pairs: NDArray[np.int64]  # (P, 2), the two ids that each phrase was made of

    def names(self, words: Sequence[str]) -> list[str]:
        """What each id is called, given what the words are."""
        names = list(words)
        for first, second in self.pairs.tolist():
            names.append(f"{names[first]}_{names[second]}")
        return names


def join_phrases(
    tokens: Integers,
    bounds: Integers,
    *,
    words: NDArray[np.bool_],
    min_count: int = 5,
    thresholds: Sequence[float] = (100.0,),
) -> Joined:
    """Join pairs of `words` (V,) that stand between the same two bounds, one pass for each threshold."""
    joined = Joined(tokens=tokens.astype(np.uint32), bounds=bounds.astype(np.int64), pairs=np.zeros((0, 2), np.int64))
    for threshold in thresholds:
        size = len(words) + len(joined.pairs)
        kept = np.concatenate([words, np.ones(size - len(words), np.bool_)])
        found = score_pairs(joined.tokens, joined.bounds, kept, min_count)
        good = found.data > threshold
        pairs = np.stack([found.row[good], found.col[good]], axis=1).astype(np.int64)
        table = csr_array((size + np.arange(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(size, size))
        after, starts = np.empty_like(joined.tokens), np.empty_like(joined.bounds)
        length = _join(joined.tokens, joined.bounds, table.indptr, table.indices, table.data, after, starts)
        joined = Joined(tokens=after[:length], bounds=starts, pairs=np.concatenate([joined.pairs, pairs]))
    return joined


def score_pairs(tokens: Integers, bounds: Integers, words: NDArray[np.bool_], min_count: int) -> coo_array:
    """How much more often than by chance the word of a row stands before that of a column, (V, V)."""
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder) as beside:
        pairs = count_pairs(
            tokens, bounds, Path(beside) / "pairs", kept=np.ones_like(words), weights=np.ones(1), symmetric=False
        ).tocoo()
        seconds, firsts, both = pairs.row, pairs.col, pairs.data.astype(np.float64)
    counts = np.bincount(tokens, minlength=len(words)).astype(np.float64)
    counts[~words] = 0
    common = (np.minimum(counts[firsts], counts[seconds]) >= max(1, min_count)) & (both > min_count)
    firsts, seconds, both = firsts[common], seconds[common], both[common]
    scores = (both - min_count) / counts[firsts] / counts[seconds] * counts.sum()
    order = np.lexsort((seconds, firsts))
    return coo_array((scores[order], (firsts[order], seconds[order])), shape=(len(words),) * 2)


@compiled
def _join(
    tokens: Integers,
    bounds: Integers,
    starts: Integers,
    seconds: Integers,
    phrases: Integers,
    joined: Integers,
    joined_bounds: Integers,
) -> int:
    """Write the text with its phrases; the second word of a phrase does not begin another."""
    length = 0
    for number in range(len(bounds) - 1):
        joined_bounds[number] = length
        place = bounds[number]
        while place < bounds[number + 1]:
            word = tokens[place]
            place += 1
            if place < bounds[number + 1]:
                for entry in range(starts[word], starts[word + 1]):
                    if seconds[entry] == tokens[place]:
                        word = phrases[entry]
                        place += 1
                        break
            joined[length] = word
            length += 1
    joined_bounds[-1] = length
    return length
