"""First weights with which a Transformer of a few minutes learns sooner than with small random ones.

Nothing but values is different: the architecture and its files stay what they are, and every weight is trained on.

Words begin with vectors of the company they keep: the largest part of the matrix that says which words stand beside
which more often than chance has it (Bullinaria and Levy, 2007). Counting takes seconds, and a model finds out the same
in minutes. A tenth of each vector stays random, so that words of the same company can be told apart.

Heads with random weights look everywhere alike, and a model that fills gaps spends most of its first minutes on finding
out that the words beside a gap say most about it. Here each head begins with its eyes on one place, the token before,
the one after, the one before that, and is free to look elsewhere from the first step on. Mimetic initialisation
(Trockman and Kolter, 2023) does the like for images. Models that read left to right begin with their last token at
hand, and were not helped.

A position p is written as the angles p·w of several frequencies w, in a few directions as wide as a head. Keys are
these angles and queries the same ones turned by a head's offset, so that their product is largest where they meet.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import count, islice
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array
from torch import Tensor, nn

from polyseme.errors import ConfigError
from polyseme.layers.attention import SelfAttention
from polyseme.models.base import Encoder

_PEAK = 16.0
"""The score of the place looked at, above those of all others: nearly all of the softmax (measured to matter)."""


_LARGER = 2.5
"""Words begin larger than published: at a small width a few moves of Adam would overturn them."""


_FOUND = 0.9
"""The share of company in a vector."""

_WINDOW = 3  # tokens to either side that count as company, the nearer the more
_SMOOTHING = 0.875  # by which the rare are kept from looking close, as word2vec's 0.75, but on either side
_ROUNDS = 3  # of multiplying by the matrix, after which its largest part stands out
_MOST_TOKENS = 4_000_000
_STRETCH = 10_000  # tokens, where only some of a large text are counted


@torch.no_grad()
def start_fast(encoder: Encoder, tokens: NDArray[np.integer[Any]]) -> None:
    """Change the first weights of a model that is going to read `tokens`."""
    encoder.tokens.weight.mul_(_LARGER)
    join_company(encoder.tokens.weight, tokens)
    if encoder.context == "both":
        look_at_neighbours(encoder)


@torch.no_grad()
def join_company(weight: Tensor, tokens: NDArray[np.integer[Any]]) -> None:
    """Turn the vectors of words so that those of one company come close; none gets longer or shorter by much."""
    vocab_size, width = weight.shape
    if width > vocab_size:
        return
    company = _company(tokens, vocab_size)
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


def _company(tokens: NDArray[np.integer[Any]], vocab_size: int) -> csr_array:
    """How much more often than by chance two words stand together, in nats; nothing where it is less."""
    if len(tokens) > _MOST_TOKENS:
        begins = np.linspace(0, len(tokens) - _STRETCH, _MOST_TOKENS // _STRETCH).astype(np.int64)
        tokens = np.concatenate([tokens[begin : begin + _STRETCH] for begin in begins])
    counts = csr_array((vocab_size, vocab_size), dtype=np.float32)
    for distance in range(1, _WINDOW + 1):
        left, right = tokens[:-distance], tokens[distance:]
        weights = np.full(len(left), 1 / distance, dtype=np.float32)
        counts += coo_array((weights, (left, right)), shape=counts.shape).tocsr()
    pairs = (counts + counts.T).tocoo()
    often = np.maximum(pairs.sum(axis=1), 1e-9) ** _SMOOTHING
    often /= often.sum()
    nats = np.log(pairs.data / pairs.data.sum() / (often[pairs.row] * often[pairs.col]))
    return coo_array((np.maximum(nats, 0).astype(np.float32), (pairs.row, pairs.col)), shape=pairs.shape).tocsr()


@torch.no_grad()
def look_at_neighbours(encoder: Encoder) -> None:
    """Set the positions, and the queries and keys of every head."""
    positions = getattr(encoder, "positions", None)
    heads = [module for module in encoder.modules() if isinstance(module, SelfAttention)]
    if not isinstance(positions, nn.Embedding) or not heads:
        raise ConfigError("plan.start: fast is for families with positions and self-attention; say paper")
    width, embedding_width = encoder.widths[0], positions.weight.shape[1]
    head_width = width // heads[0].num_heads
    num_frequencies = min(head_width, embedding_width) // 2
    frequencies = math.pi * (torch.arange(num_frequencies) + torch.rand(num_frequencies)) / num_frequencies
    directions = torch.linalg.qr(torch.randn(embedding_width, 2 * num_frequencies)).Q.T  # (directions, D)
    # Positions are as large as words, so that after the norm each makes up half of the sum.
    size = encoder.tokens.weight.std() * math.sqrt(embedding_width / num_frequencies)
    positions.weight.copy_(size * _angles(torch.arange(len(positions.weight)), frequencies) @ directions)
    if isinstance(widen := getattr(encoder, "widen", None), nn.Linear):
        # Short vectors are turned into the width of the layers without being bent, and as large as a norm would.
        stretch = math.sqrt(width / embedding_width)
        nn.init.orthogonal_(widen.weight, gain=stretch)
        directions = directions @ widen.weight.T / stretch
    gain = math.sqrt(_PEAK * math.sqrt(head_width) / (width / 2))
    for attention in heads:
        query, key, _ = attention.query_key_value.weight.view(3, attention.num_heads, head_width, width)
        for head, offset in enumerate(islice(_offsets(), attention.num_heads)):
            query[head, : len(directions)] = gain * _turn(frequencies * offset) @ directions
            key[head, : len(directions)] = gain * directions


def _offsets() -> Iterator[int]:
    """Where the heads look, the nearest first."""
    return (sign * step for step in count(1) for sign in (-1, 1))


def _angles(positions: Tensor, frequencies: Tensor) -> Tensor:
    angles = positions[:, None] * frequencies
    return torch.cat([angles.cos(), angles.sin()], 1)


def _turn(angles: Tensor) -> Tensor:
    """The map that adds angles to those of `_angles`."""
    cosines, sines = angles.cos().diag(), angles.sin().diag()
    return torch.cat([torch.cat([cosines, -sines], 1), torch.cat([sines, cosines], 1)])
