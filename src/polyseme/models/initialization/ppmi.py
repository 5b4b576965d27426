"""PPMI co-occurrence statistics used to initialize token embeddings (Bullinaria and Levy, 2007)."""

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array
from torch import Tensor

from polyseme.datasets.token_store import TokenStore, find_parallel_pairs

_INFORMED_VARIANCE = 0.9  # of an embedding; the rest stays random
_WINDOW = 3  # context tokens on each side, weighted by 1 / distance
_SMOOTHING = 0.875  # exponent of the marginals against overrating rare words; word2vec's 0.75, but on both sides
_POWER_ITERATIONS = 3
_MAX_TOKENS = 4_000_000
_SAMPLE_TOKENS = 10_000  # length of each contiguous sample of a larger text
_MAX_PAIRS = 50_000  # sentence pairs; with more, the co-occurrence matrix would take gigabytes


@torch.no_grad()
def initialize_from_ppmi(weight: Tensor, ppmi: csr_array) -> None:
    """Mix embeddings (V, D) with the rank-D approximation of a PPMI matrix, keeping their overall scale."""
    vocab_size, width = weight.shape
    if width > vocab_size:
        return
    basis = torch.randn(vocab_size, width)  # randomized subspace iteration
    for _ in range(_POWER_ITERATIONS):
        basis = torch.linalg.qr(torch.from_numpy(ppmi @ basis.numpy())).Q
    values, vectors = torch.linalg.eigh(basis.T @ torch.from_numpy(ppmi @ basis.numpy()))
    embeddings = basis @ (vectors * values.abs().sqrt()) @ vectors.T  # whatever the signs of the eigenvectors
    seen = torch.from_numpy(np.diff(ppmi.indptr) > 0)  # others, such as [MASK], stay random
    embeddings = embeddings[seen] - embeddings[seen].mean(0)
    norms = embeddings.norm(dim=1, keepdim=True)
    embeddings /= norms.clamp_min(norms.median() / 5)  # rare words stay short
    embeddings *= weight.std() / embeddings.std()
    weight[seen] = math.sqrt(1 - _INFORMED_VARIANCE) * weight[seen] + math.sqrt(_INFORMED_VARIANCE) * embeddings


def window_ppmi(tokens: NDArray[np.integer[Any]], vocab_size: int) -> csr_array:
    """PPMI matrix (V, V), in nats, of tokens that co-occur within a window."""
    if len(tokens) > _MAX_TOKENS:
        starts = np.linspace(0, len(tokens) - _SAMPLE_TOKENS, _MAX_TOKENS // _SAMPLE_TOKENS).astype(np.int64)
        tokens = np.concatenate([tokens[start : start + _SAMPLE_TOKENS] for start in starts])
    counts = csr_array((vocab_size, vocab_size), dtype=np.float32)
    for distance in range(1, _WINDOW + 1):
        left, right = tokens[:-distance], tokens[distance:]
        weights = np.full(len(left), 1 / distance, dtype=np.float32)
        counts += coo_array((weights, (left, right)), shape=counts.shape).tocsr()
    return _ppmi(counts + counts.T)


def pair_ppmi(store: TokenStore, vocab_size: int) -> csr_array:
    """PPMI matrix (V, V) of tokens that co-occur in a sentence pair, in either language."""
    source, target = _pair_incidence(store, vocab_size)
    present = source.maximum(target)
    return _ppmi((present.T @ present).tocsr())


def lexical_translation(store: TokenStore, vocab_size: int) -> csr_array:
    """Lexical translation weights (target V, source V): squared PPMI, each row normalized to 1, or 0 if unseen."""
    source, target = _pair_incidence(store, vocab_size)
    weights = _ppmi((target.T @ source).tocsr())
    weights.data **= 2  # so that many weak associations do not outweigh one strong
    return csr_array(weights.multiply(1 / np.maximum(weights.sum(axis=1), 1e-9)[:, None]))


def _pair_incidence(store: TokenStore, vocab_size: int) -> list[csr_array]:
    """Binary matrices (pairs, V) of the tokens of each source and each target sentence."""
    first = find_parallel_pairs(store)[:_MAX_PAIRS]
    matrices = []
    for sentences in (first, first + 1):
        starts = store.sentences[sentences]
        lengths = store.sentences[sentences + 1] - starts
        rows = np.repeat(np.arange(len(sentences)), lengths)
        positions = np.arange(len(rows)) + np.repeat(starts - np.cumsum(lengths) + lengths, lengths)
        ones = np.ones(len(rows), np.float32)
        present = coo_array((ones, (rows, store.tokens[positions])), shape=(len(sentences), vocab_size)).tocsr()
        present.data[:] = 1
        matrices.append(present)
    return matrices


def _ppmi(counts: csr_array) -> csr_array:
    """Positive pointwise mutual information with smoothed marginals."""
    pairs = counts.tocoo()
    rows, columns = (np.maximum(pairs.sum(axis=axis), 1e-9) ** _SMOOTHING for axis in (1, 0))
    rows, columns = rows / rows.sum(), columns / columns.sum()
    pmi = np.log(pairs.data / pairs.data.sum() / (rows[pairs.row] * columns[pairs.col]))
    return coo_array((np.maximum(pmi, 0).astype(np.float32), (pairs.row, pairs.col)), shape=pairs.shape).tocsr()
