"""KV caches: the keys and values of causal self-attention, stored for incremental decoding."""

from collections.abc import Sequence
from typing import TypeAlias

import torch
from torch import Tensor

from polyseme.batch import State


class KVCache(State):
    """Keys and values of all tokens read so far, in preallocated buffers; all rows have read as many tokens."""

    def __init__(self, shape: tuple[int, int, int, int, int], device: torch.device) -> None:
        num_layers, *rest = shape
        self.layers = [torch.empty(2, *rest, device=device) for _ in range(num_layers)]  # (2, B, H, capacity, D/H)
        self.capacity = shape[3]

    def append(self, layer: int, keys_values: Tensor) -> Tensor:
        """Store new keys and values (2, B, H, T, D/H) of a layer; return all of them. `length` is left to `advance`."""
        num_new = keys_values.shape[3]
        self.layers[layer].narrow(3, self.length, num_new).copy_(keys_values)
        return self.layers[layer].narrow(3, 0, self.length + num_new)

    def advance(self, num_tokens: int) -> None:
        """Count tokens as read, after every layer has stored them."""
        self.length += num_tokens

    def select(self, rows: Tensor) -> None:
        """Keep these rows, with repetition, as beam search reorders its hypotheses."""
        for number, layer in enumerate(self.layers):
            _, _, num_heads, capacity, width = layer.shape
            self.layers[number] = layer.new_empty(2, len(rows), num_heads, capacity, width)
            self.layers[number][:, :, :, : self.length] = layer[:, rows, :, : self.length]


class RaggedKVCache(State):
    """One cache per row, each of another length, decoded together one token at a time (continuous batching)."""

    def __init__(self, rows: Sequence[KVCache]) -> None:
        self.rows = rows
        self.lengths = [row.length for row in rows]

    def advance(self, num_tokens: int) -> None:
        """Count tokens as read in every row."""
        for row in self.rows:
            row.advance(num_tokens)


AnyKVCache: TypeAlias = KVCache | RaggedKVCache
