"""Multi-head attention of a sequence to itself (Vaswani et al., 2017)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from polyseme.layers.dropout import Dropout
from polyseme.tensors import State


class Cache(State):
    """Keys and values of what was read so far, in buffers that are allocated once."""

    def __init__(self, shape: tuple[int, int, int, int, int], device: torch.device) -> None:
        self.keys = torch.empty(shape, device=device)  # (layers, B, H, room, D/H)
        self.values = torch.empty(shape, device=device)
        self.room = shape[3]

    def extend(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Store the new keys and values of a layer and return all of them; `length` moves on once per batch."""
        end = self.length + key.shape[2]
        self.keys[layer, :, :, self.length : end] = key
        self.values[layer, :, :, self.length : end] = value
        return self.keys[layer, :, :, :end], self.values[layer, :, :, :end]


class SelfAttention(nn.Module):
    """Query, key and value come from one product; the softmax runs inside torch's fused kernel."""

    def __init__(self, width: int, num_heads: int, dropout: float) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.drop = Dropout(dropout)
        self.query_key_value = nn.Linear(width, 3 * width)
        self.output = nn.Linear(width, width)
        self.maps: list[Tensor] | None = None  # filled while `recording`

    def forward(
        self,
        x: Tensor,
        *,
        allowed: Tensor | None = None,
        causal: bool = False,
        cache: Cache | None = None,
        layer: int = 0,
    ) -> Tensor:
        """Mix each token with those it may see: `allowed` is True there, broadcast to (B, H, T, T)."""
        num_rows, length, width = x.shape
        mixed = self.query_key_value(x).view(num_rows, length, 3, self.num_heads, -1)
        query, key, value = mixed.permute(2, 0, 3, 1, 4).unbind(0)  # each (B, H, T, D/H)
        if cache is not None:
            key, value = cache.extend(layer, key, value)
        # On a CPU torch drops attention weights outside its fused kernel, and draws their masks slowly.
        dropping = self.training and self.drop.num_dropped > 0
        explicit = self.maps is not None or (dropping and not x.is_cuda)
        if causal and (cache is not None or allowed is not None or explicit):
            # The kernel's own triangle neither starts at a cached past nor combines with a mask.
            past = torch.ones(length, key.shape[2], dtype=torch.bool, device=x.device).tril(key.shape[2] - length)
            allowed, causal = (past if allowed is None else past & allowed), False
        if explicit:
            x = self._attend(query, key, value, allowed)
        else:
            dropout = self.drop.num_dropped / 256 if dropping else 0.0
            x = F.scaled_dot_product_attention(query, key, value, allowed, dropout, causal)
        return self.output(x.transpose(1, 2).reshape(num_rows, length, width))  # type: ignore[no-any-return]

    def _attend(self, query: Tensor, key: Tensor, value: Tensor, allowed: Tensor | None) -> Tensor:
        scores = (query / math.sqrt(query.shape[-1])) @ key.transpose(-1, -2)  # (B, H, T, T)
        if allowed is not None:
            scores = scores.masked_fill(~allowed, float("-inf"))
        weights = scores.softmax(-1)
        if self.maps is not None:
            self.maps.append(weights.detach())
        return self.drop(weights) @ value  # type: ignore[no-any-return]


@contextmanager
def recording(encoder: nn.Module) -> Iterator[list[Tensor]]:
    """Collect the attention weights of every layer, (B, H, T, T) each, from the forward passes inside the block."""
    maps: list[Tensor] = []
    modules = [module for module in encoder.modules() if isinstance(module, SelfAttention)]
    for module in modules:
        module.maps = maps
    try:
        yield maps
    finally:
        for module in modules:
            module.maps = None
