"""Multi-head attention of a sequence to itself (Vaswani et al., 2017)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from polyseme.layers.dropout import Dropout
from polyseme.layers.linear import Linear, kernels_for
from polyseme.tensors import State, runs

SHORT = 32
"""Tokens of rows for which torch's fused kernel is slower than one product after another (measured on a CPU)."""

Allowed: TypeAlias = Tensor | tuple[int, ...] | None
"""What a token may see: where it is True, broadcast to (B, H, T, T); or its own row alone, of rows of these lengths
that lie one after another in a single one; or everything."""


class Cache(State):
    """Keys and values of what was read so far, in buffers that are allocated once."""

    def __init__(self, shape: tuple[int, int, int, int, int], device: torch.device) -> None:
        num_layers, *rest = shape
        self.layers = [torch.empty(2, *rest, device=device) for _ in range(num_layers)]  # each (2, B, H, room, D/H)
        self.room = shape[3]

    def extend(self, layer: int, new: Tensor) -> Tensor:
        """Store the new keys and values of a layer and return all of them; `length` moves on once per batch."""
        num_new = new.shape[3]
        self.layers[layer].narrow(3, self.length, num_new).copy_(new)
        return self.layers[layer].narrow(3, 0, self.length + num_new)

    def advance(self, num_new: int) -> None:
        """So many tokens more were read."""
        self.length += num_new

    def select(self, rows: Tensor) -> None:
        """Go on with these rows only, some of which may be taken more than once."""
        for number, layer in enumerate(self.layers):
            _, _, num_heads, room, width = layer.shape
            self.layers[number] = layer.new_empty(2, len(rows), num_heads, room, width)
            self.layers[number][:, :, :, : self.length] = layer[:, rows, :, : self.length]


class Caches(State):
    """Rows that have read different numbers of tokens, each with a cache of its own; they go on by a token each."""

    def __init__(self, rows: Sequence[Cache]) -> None:
        self.rows = rows
        self.lengths = [row.length for row in rows]

    def advance(self, num_new: int) -> None:
        """So many tokens more were read of each."""
        for row in self.rows:
            row.advance(num_new)


class SelfAttention(nn.Module):
    """Query, key and value come from one product; the softmax runs inside torch's fused kernel."""

    def __init__(self, width: int, num_heads: int, dropout: float) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.drop = Dropout(dropout)
        self.query_key_value = Linear(width, 3 * width)
        self.output = Linear(width, width)
        self.maps: list[Tensor] | None = None  # filled while `recording`

    def forward(
        self,
        x: Tensor,
        *,
        allowed: Allowed = None,
        causal: bool = False,
        cache: Cache | Caches | None = None,
        layer: int = 0,
    ) -> Tensor:
        """Mix each token with those it may see."""
        num_rows, length, width = x.shape
        mixed = self.query_key_value(x).view(num_rows, length, 3, self.num_heads, -1)
        if isinstance(allowed, tuple):
            mixed_runs = [self._mix(run, None, causal, None, layer) for run in runs(mixed[0], allowed)]
            x = torch.cat([run.reshape(-1, width) for run in mixed_runs])
        elif isinstance(cache, Caches):
            x = self._mix_rows(mixed, cache, layer)
        else:
            x = self._mix(mixed, allowed, causal, cache, layer)
        return self.output(x.reshape(num_rows, length, width))  # type: ignore[no-any-return]

    def _mix_rows(self, mixed: Tensor, caches: Caches, layer: int) -> Tensor:
        """The same of rows that are at different places, a new token of each."""
        if self.maps is None and (own := kernels_for(mixed)):
            return own.attend_rows(mixed, [row.layers[layer] for row in caches.rows], caches.lengths)  # type: ignore[no-any-return]
        rows = zip(mixed[:, None], caches.rows, strict=True)
        return torch.cat([self._mix(row, None, True, cache, layer) for row, cache in rows])

    def _mix(self, mixed: Tensor, allowed: Tensor | None, causal: bool, cache: Cache | None, layer: int) -> Tensor:
        """From queries, keys and values (B, T, 3, H, D/H) to (B, T, H, D/H)."""
        length = mixed.shape[1]
        if (
            cache is not None
            and length == 1
            and not self.training
            and self.maps is None
            and (own := kernels_for(mixed))
        ):
            return own.attend(mixed, cache.layers[layer], cache.length)  # type: ignore[no-any-return]
        # Taken apart in this order, their gradients come back together without being moved.
        query, key, value = (part.transpose(1, 2) for part in mixed.unbind(2))  # each (B, H, T, D/H)
        if cache is not None:
            key, value = cache.extend(layer, mixed[:, :, 1:].permute(2, 0, 3, 1, 4)).unbind(0)
        # On a CPU torch drops attention weights outside its fused kernel, and draws their masks slowly.
        dropping = self.training and self.drop.num_dropped > 0
        explicit = self.maps is not None or (dropping and not mixed.is_cuda)
        if not torch.compiler.is_compiling():  # a graph is for rows of every length
            explicit |= 1 < length <= SHORT and cache is None and mixed.is_cpu and not torch.is_grad_enabled()
        causal = causal and length > 1  # a single token sees all that there is
        if causal and (cache is not None or allowed is not None or explicit):
            # The kernel's own triangle neither starts at a cached past nor combines with a mask.
            past = torch.ones(length, key.shape[2], dtype=torch.bool, device=mixed.device).tril(key.shape[2] - length)
            allowed, causal = (past if allowed is None else past & allowed), False
        if explicit:
            x = self._attend(query, key, value, allowed)
        else:
            dropout = self.drop.num_dropped / 256 if dropping else 0.0
            x = F.scaled_dot_product_attention(query, key, value, allowed, dropout, causal)
        return x.transpose(1, 2)

    def _attend(self, query: Tensor, key: Tensor, value: Tensor, allowed: Tensor | None) -> Tensor:
        scores = (query / math.sqrt(query.shape[-1])) @ key.transpose(-1, -2)  # (B, H, T, T)
        if allowed is not None:
            scores.masked_fill_(~allowed, float("-inf"))
        weights = scores.softmax(-1)
        if self.maps is not None:
            self.maps.append(weights.detach())
        return self.drop(weights) @ value  # type: ignore[no-any-return]


@contextmanager
def recording(encoder: nn.Module, kind: type[nn.Module] = SelfAttention) -> Iterator[list[Tensor]]:
    """Collect the attention weights of every layer, (B, H, T, T) each, from the forward passes inside the block."""
    maps: list[Tensor] = []
    modules: list[Any] = [module for module in encoder.modules() if isinstance(module, kind)]
    for module in modules:
        module.maps = maps
    try:
        yield maps
    finally:
        for module in modules:
            module.maps = None
