"""Vectors from counts: the largest part of the matrix that says which words stand near which (Schütze, 1992).

Counts are taken as they are, as logarithms, or as positive pointwise mutual information (Bullinaria and Levy, 2007):
how much more often than by chance two words meet. Rare contexts are kept from looking important by smoothing, and weak
ties are cut by a shift (Levy, Goldberg and Dagan, 2015). The singular vectors are found by multiplying a random basis
by the matrix and its transpose in turn, a round a step (Halko, Martinsson and Tropp, 2011).
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
from scipy.sparse import csr_array

from polyseme.errors import ConfigError, DataError
from polyseme.objectives.vectors import SvdConfig
from polyseme.static.counts import near_pairs
from polyseme.static.learner import Floats, Task, VectorLearner

_SPARE = 16  # directions beyond those asked for, which the last of these need to stand out


def weigh(counts: csr_array, weighting: str, *, smoothing: float = 1.0, shift: float = 1.0) -> csr_array:
    """Counts as they are, as log(1 + x), or as max(0, log p(i, j) / (p(i) p(j)) - log shift)."""
    if weighting == "raw":
        return counts
    if weighting == "log":
        values = np.log1p(counts.data)
        return csr_array((values, counts.indices, counts.indptr), shape=counts.shape)
    words = counts.sum(axis=1, dtype=np.float64)
    contexts = counts.sum(axis=0, dtype=np.float64) ** smoothing
    with np.errstate(divide="ignore"):  # of words that are near nothing
        words, contexts = np.log(words), np.log(contexts) - np.log(contexts.sum())
    values = np.log(counts.data)
    values -= np.repeat((words + np.log(shift)).astype(np.float32), np.diff(counts.indptr))
    values -= contexts.astype(np.float32)[counts.indices]
    weighed = csr_array((np.maximum(values, 0, out=values), counts.indices, counts.indptr), shape=counts.shape)
    weighed = weighed.copy()  # the counts stay as they are
    weighed.eliminate_zeros()
    return weighed


class Svd(VectorLearner):
    """Brings a random basis closer to the singular vectors; the vectors are as good as the round."""

    def __init__(self, config: SvdConfig, task: Task) -> None:
        super().__init__(task)
        self.config = config
        counts = near_pairs(task.store, config, task.words)
        if not counts.nnz:
            raise DataError("no two words of the text stand near each other; give more text")
        self.matrix = weigh(counts, config.weighting, smoothing=config.smoothing, shift=config.shift)
        self.squares = float(np.square(self.matrix.data, dtype=np.float64).sum())
        if not self.squares:
            raise ConfigError(f"objective.shift: no pair is met {config.shift:g} times as often as by chance; lower it")
        vocab_size, width = task.vectors.shape
        task.vectors[...] = 0
        chance = np.random.default_rng(task.seed)
        self.basis = chance.standard_normal((vocab_size, min(vocab_size, width + _SPARE)), np.float32)
        self.arrays["basis"] = self.basis

    def learn(self) -> dict[str, float]:
        """Turn the basis (V, D + spare) towards the right singular vectors, and take the left ones from it."""
        left = np.linalg.qr(self._times(self.matrix, self.basis)).Q
        self.basis[...] = self._times(self.matrix.T, left)
        # What is left of the matrix inside this basis is small enough for an exact decomposition.
        self.basis[...], values, turns = np.linalg.svd(self.basis, full_matrices=False)
        left = left @ turns.T
        left *= np.where(left.sum(axis=0) < 0, -1, 1)  # signs are free; these are the same each time
        values = values[: self.task.vectors.shape[1]]
        # Fewer words than numbers in a vector leave the rest of it zero.
        self.task.vectors[:, : len(values)] = left[:, : len(values)] * values**self.config.exponent
        return {"svd": 1 - float(np.square(values, dtype=np.float64).sum()) / self.squares}

    def _times(self, matrix: csr_array, basis: Floats) -> Floats:
        """The product; threads share the columns, so that none writes where another does."""
        parts = np.array_split(basis, min(self.task.threads, basis.shape[1]), axis=1)
        with ThreadPoolExecutor(len(parts)) as pool:
            found: list[Floats] = list(pool.map(lambda part: matrix @ np.ascontiguousarray(part), parts))
        return np.concatenate(found, axis=1)
