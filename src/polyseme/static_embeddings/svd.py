"""Word vectors by truncated SVD of a weighted co-occurrence matrix (Schütze, 1992).

Counts are used as they are, as logarithms, or as positive pointwise mutual information (Bullinaria and Levy, 2007),
with context distribution smoothing and a shift (Levy, Goldberg and Dagan, 2015). The singular vectors are computed by
randomized subspace iteration, one iteration per step (Halko, Martinsson and Tropp, 2011).
"""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
from scipy.sparse import csr_array

from polyseme.arrays import Floats
from polyseme.errors import ConfigError
from polyseme.static_embeddings.base import StaticTrainer, TrainingInputs
from polyseme.static_embeddings.config import SvdConfig
from polyseme.static_embeddings.cooccurrence import cooccurrence_counts, require_cooccurrences

_OVERSAMPLING = 16  # dimensions of the basis beyond the requested ones, without which the last of these are inaccurate


def weight_counts(counts: csr_array, weighting: str, *, smoothing: float = 1.0, shift: float = 1.0) -> csr_array:
    """Raw counts, log(1 + count), or PPMI: max(0, log p(i, j) / (p(i) p(j)) - log shift)."""
    if weighting == "raw":
        return counts
    if weighting == "log":
        values = np.log1p(counts.data)
        return csr_array((values, counts.indices, counts.indptr), shape=counts.shape)
    words = counts.sum(axis=1, dtype=np.float64)
    contexts = counts.sum(axis=0, dtype=np.float64) ** smoothing
    with np.errstate(divide="ignore"):  # words without co-occurrences
        words, contexts = np.log(words), np.log(contexts) - np.log(contexts.sum())
    values = np.log(counts.data)
    values -= np.repeat((words + np.log(shift)).astype(np.float32), np.diff(counts.indptr))
    values -= contexts.astype(np.float32)[counts.indices]
    ppmi = csr_array((np.maximum(values, 0, out=values), counts.indices, counts.indptr), shape=counts.shape)
    ppmi = ppmi.copy()  # eliminate_zeros would change the indices of the counts
    ppmi.eliminate_zeros()
    return ppmi


class SvdTrainer(StaticTrainer):
    """Subspace iteration from a random basis; the loss is the share of the squared norm that is not captured."""

    def __init__(self, config: SvdConfig, inputs: TrainingInputs) -> None:
        super().__init__(config, inputs)
        counts = require_cooccurrences(cooccurrence_counts(inputs.source.store, config, inputs.is_word))
        self.matrix = weight_counts(counts, config.weighting, smoothing=config.smoothing, shift=config.shift)
        self.squared_norm = float(np.square(self.matrix.data, dtype=np.float64).sum())
        if not self.squared_norm:
            raise ConfigError(
                f"objective.shift = {config.shift:g} leaves no positive entry in the PPMI matrix; set a lower shift"
            )
        vocab_size, width = inputs.vectors.shape
        inputs.vectors[...] = 0
        rng = np.random.default_rng(inputs.seed)
        self.basis = rng.standard_normal((vocab_size, min(vocab_size, width + _OVERSAMPLING)), np.float32)
        self.arrays["basis"] = self.basis

    def train_step(self) -> dict[str, float]:
        """Rotate the basis (V, D + oversampling) towards the right singular vectors and update the word vectors."""
        left = np.linalg.qr(self._multiply(self.matrix, self.basis)).Q
        self.basis[...] = self._multiply(self.matrix.T, left)
        # The matrix restricted to this basis is small enough for an exact SVD.
        self.basis[...], values, rotation = np.linalg.svd(self.basis, full_matrices=False)
        left = left @ rotation.T
        left *= np.where(left.sum(axis=0) < 0, -1, 1)  # fix the arbitrary signs
        values = values[: self.inputs.vectors.shape[1]]
        # A vocabulary smaller than the width leaves the remaining dimensions zero.
        self.inputs.vectors[:, : len(values)] = left[:, : len(values)] * values**self.config.exponent
        return {"svd": 1 - float(np.square(values, dtype=np.float64).sum()) / self.squared_norm}

    def _multiply(self, matrix: csr_array, basis: Floats) -> Floats:
        """matrix @ basis, with the columns of the basis split over threads."""
        parts = np.array_split(basis, min(self.inputs.num_threads, basis.shape[1]), axis=1)
        with ThreadPoolExecutor(len(parts)) as pool:
            products: list[Floats] = list(pool.map(lambda part: matrix @ np.ascontiguousarray(part), parts))
        return np.concatenate(products, axis=1)
