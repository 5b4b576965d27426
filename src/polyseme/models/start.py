"""First weights with which a Transformer of a few minutes learns sooner than with small random ones.

Nothing but values is different: the architecture and its files stay what they are, and every weight is trained on.

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

import torch
from torch import Tensor, nn

from polyseme.errors import ConfigError
from polyseme.layers.attention import SelfAttention
from polyseme.models.base import Encoder

_PEAK = 16.0
"""The score of the place looked at, above those of all others: nearly all of the softmax (measured to matter)."""


_LARGER = 2.5
"""Words begin larger than published: at a small width a few moves of Adam would overturn them."""


@torch.no_grad()
def start_fast(encoder: Encoder) -> None:
    """Change the first weights of a model."""
    encoder.tokens.weight.mul_(_LARGER)
    if encoder.context == "both":
        look_at_neighbours(encoder)


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
