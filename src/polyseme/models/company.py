"""The company that words keep: which stand together more often than chance has it (Bullinaria and Levy, 2007)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array
from torch import Tensor

from polyseme.text.parallel import find_pairs
from polyseme.text.store import Store

_FOUND = 0.9
"""The share of company in a vector."""

_WINDOW = 3  # tokens to either side that count as company, the nearer the more
_SMOOTHING = 0.875  # by which the rare are kept from looking close, as word2vec's 0.75, but on either side
_ROUNDS = 3  # of multiplying by the matrix, after which its largest part stands out
_MOST_TOKENS = 4_000_000
_STRETCH = 10_000  # tokens, where only some of a large text are counted
_MOST_PAIRS = 50_000  # of sentences; with more, the matrix of all words that meet would take gigabytes


@torch.no_grad()
def join_company(weight: Tensor, company: csr_array) -> None:
    """Turn the vectors of words so that those of one company come close; none gets longer or shorter by much."""
    vocab_size, width = weight.shape
    if width > vocab_size:
        return
    basis = torch.randn(vocab_size, width)
    for _ in range(_ROUNDS):
        basis = torch.linalg.qr(torch.from_numpy(company @ basis.numpy())).Q
    values, vectors = torch.linalg.eigh(basis.T @ torch.from_numpy(company @ basis.numpy()))
    found = basis @ (vectors * values.abs().sqrt()) @ vectors.T  # the same whatever the signs of the vectors
    met = torch.from_numpy(np.diff(company.indptr) > 0)  # of others, as the mask, nothing is known
    found = found[met] - found[met].mean(0)
    lengths = found.norm(dim=1, keepdim=True)
    found /= lengths.clamp_min(lengths.median() / 5)  # words that are hardly ever met stay short
    found *= weight.std() / found.std()
    weight[met] = math.sqrt(1 - _FOUND) * weight[met] + math.sqrt(_FOUND) * found


def find_company(tokens: NDArray[np.integer[Any]], vocab_size: int) -> csr_array:
    """How much more often than by chance two words of a text stand side by side, in nats; nothing where it is less."""
    if len(tokens) > _MOST_TOKENS:
        begins = np.linspace(0, len(tokens) - _STRETCH, _MOST_TOKENS // _STRETCH).astype(np.int64)
        tokens = np.concatenate([tokens[begin : begin + _STRETCH] for begin in begins])
    counts = csr_array((vocab_size, vocab_size), dtype=np.float32)
    for distance in range(1, _WINDOW + 1):
        left, right = tokens[:-distance], tokens[distance:]
        weights = np.full(len(left), 1 / distance, dtype=np.float32)
        counts += coo_array((weights, (left, right)), shape=counts.shape).tocsr()
    return _above_chance(counts + counts.T)


def find_pair_company(store: Store, vocab_size: int) -> csr_array:
    """The same of words that stand in one pair of sentences, wherever in the two: translations most of all."""
    source, target = _sides(store, vocab_size)
    met = source.maximum(target)
    return _above_chance((met.T @ met).tocsr())


def find_translations(store: Store, vocab_size: int) -> csr_array:
    """How much each word of the source is a translation of one of the target, by the squares of such nats, in shares.

    (target, source); a row adds up to 1, or to 0 if its word is never met in a translation.
    """
    source, target = _sides(store, vocab_size)
    found = _above_chance((target.T @ source).tocsr())
    found.data **= 2  # so that many that hardly tell anything do not outweigh the one that does
    return csr_array(found.multiply(1 / np.maximum(found.sum(axis=1), 1e-9)[:, None]))


def _sides(store: Store, vocab_size: int) -> list[csr_array]:
    """Which word stands in which pair, on either side, (pairs, V)."""
    first = find_pairs(store)[:_MOST_PAIRS]
    sides = []
    for sentences in (first, first + 1):
        starts = store.sentences[sentences]
        lengths = store.sentences[sentences + 1] - starts
        rows = np.repeat(np.arange(len(sentences)), lengths)
        places = np.arange(len(rows)) + np.repeat(starts - np.cumsum(lengths) + lengths, lengths)
        ones = np.ones(len(rows), np.float32)
        met = coo_array((ones, (rows, store.tokens[places])), shape=(len(sentences), vocab_size)).tocsr()
        met.data[:] = 1  # however often
        sides.append(met)
    return sides


def _above_chance(counts: csr_array) -> csr_array:
    pairs = counts.tocoo()
    rows, columns = (np.maximum(pairs.sum(axis=axis), 1e-9) ** _SMOOTHING for axis in (1, 0))
    rows, columns = rows / rows.sum(), columns / columns.sum()
    nats = np.log(pairs.data / pairs.data.sum() / (rows[pairs.row] * columns[pairs.col]))
    return coo_array((np.maximum(nats, 0).astype(np.float32), (pairs.row, pairs.col)), shape=pairs.shape).tocsr()
