"""Multi-head self-attention (Vaswani et al., 2017, section 3.2)."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from polyseme.batch import split_packed
from polyseme.layers.dropout import Dropout
from polyseme.layers.kv_cache import AnyKVCache, KVCache, RaggedKVCache
from polyseme.layers.linear import Linear, kernels_for

MAX_EXPLICIT_LENGTH = 32
"""Sequence length up to which two plain matrix products beat torch's fused kernel (measured on a CPU)."""

AttentionMask: TypeAlias = Tensor | tuple[int, ...] | None
"""What a token may attend to: positions that are True, broadcast to (B, H, T, T); its own sequence, given the lengths
of packed sequences; or everything."""


@dataclass(frozen=True)
class AttentionContext:
    """What the tokens of a forward pass may attend to, the same in every layer."""

    mask: AttentionMask = None
    causal: bool = False
    cache: AnyKVCache | None = None


class SelfAttention(nn.Module):
    """Self-attention with one projection for queries, keys and values."""

    def __init__(self, width: int, num_heads: int, dropout: float) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.drop = Dropout(dropout)
        self.query_key_value = Linear(width, 3 * width)
        self.output = Linear(width, width)
        self.recorded: list[Tensor] | None = None  # attention weights, inside `record_attention`

    def forward(self, x: Tensor, context: AttentionContext, layer: int = 0) -> Tensor:
        """Map (B, T, D) to (B, T, D); `layer` is the index in the cache."""
        num_rows, length, width = x.shape
        projected = self.query_key_value(x).view(num_rows, length, 3, self.num_heads, -1)
        if isinstance(context.mask, tuple):
            runs = split_packed(projected[0], context.mask)
            attended = (self._attend(run, None, context.causal, None, layer) for run in runs)
            x = torch.cat([run.reshape(-1, width) for run in attended])
        elif isinstance(context.cache, RaggedKVCache):
            x = self._attend_ragged(projected, context.cache, layer)
        else:
            x = self._attend(projected, context.mask, context.causal, context.cache, layer)
        return self.output(x.reshape(num_rows, length, width))  # type: ignore[no-any-return]

    def _attend_ragged(self, projected: Tensor, cache: RaggedKVCache, layer: int) -> Tensor:
        """Attend from one new token of each sequence to its own past."""
        if self.recorded is None and (kernels := kernels_for(projected)):
            return kernels.attend_ragged(projected, [row.layers[layer] for row in cache.rows], cache.lengths)  # type: ignore[no-any-return]
        rows = zip(projected[:, None], cache.rows, strict=True)
        return torch.cat([self._attend(row, None, True, own, layer) for row, own in rows])

    def _attend(
        self, projected: Tensor, mask: Tensor | None, causal: bool, cache: KVCache | None, layer: int
    ) -> Tensor:
        """Attend with queries, keys and values (B, T, 3, H, D/H); return (B, T, H, D/H)."""
        length = projected.shape[1]
        decoding = length == 1 and not self.training and self.recorded is None
        if cache is not None and decoding and (kernels := kernels_for(projected)):
            return kernels.attend(projected, cache.layers[layer], cache.length)  # type: ignore[no-any-return]
        # Unbound in this order, their gradients are concatenated without a copy.
        query, key, value = (part.transpose(1, 2) for part in projected.unbind(2))  # each (B, H, T, D/H)
        if cache is not None:
            key, value = cache.append(layer, projected[:, :, 1:].permute(2, 0, 3, 1, 4)).unbind(0)
        # On a CPU torch applies attention dropout outside its fused kernel, with a slow random generator.
        dropping = self.training and self.drop.num_dropped > 0
        explicit = self.recorded is not None or (dropping and not projected.is_cuda)
        if not torch.compiler.is_compiling():  # an exported graph serves sequences of every length
            short = 1 < length <= MAX_EXPLICIT_LENGTH
            explicit |= short and cache is None and projected.is_cpu and not torch.is_grad_enabled()
        causal = causal and length > 1  # a single token attends to everything before it
        if causal and (cache is not None or mask is not None or explicit):
            # The fused kernel's own causal mask neither starts at a cached past nor combines with another mask.
            past = torch.ones(length, key.shape[2], dtype=torch.bool, device=projected.device)
            past = past.tril(key.shape[2] - length)
            mask, causal = (past if mask is None else past & mask), False
        if explicit:
            x, _ = explicit_attention(query, key, value, mask, self.drop, self.recorded)
        else:
            dropout = self.drop.num_dropped / 256 if dropping else 0.0
            x = F.scaled_dot_product_attention(query, key, value, mask, dropout, causal)
        return x.transpose(1, 2)


def explicit_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, drop: Dropout, recorded: list[Tensor] | None
) -> tuple[Tensor, Tensor]:
    """Attention by two plain matrix products; return the output (B, H, T, D/H) and the weights (B, H, T, S)."""
    scores = (query / math.sqrt(query.shape[-1])) @ key.transpose(-1, -2)
    if mask is not None:
        scores.masked_fill_(~mask, float("-inf"))
    weights = scores.softmax(-1)
    if recorded is not None:
        recorded.append(weights.detach())
    return drop(weights) @ value, weights


@contextmanager
def record_attention(model: nn.Module, kind: type[nn.Module] = SelfAttention) -> Iterator[list[Tensor]]:
    """Collect the attention weights (B, H, T, S) of every layer in the forward passes inside the block."""
    recorded: list[Tensor] = []
    modules: list[Any] = [module for module in model.modules() if isinstance(module, kind)]
    for module in modules:
        module.recorded = recorded
    try:
        yield recorded
    finally:
        for module in modules:
            module.recorded = None
