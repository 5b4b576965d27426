"""A minimal GPT-2 in plain PyTorch with its training step, as a baseline for training speed.

It has a joint projection for query, key and value, PyTorch's fused attention and AdamW, and computes all logits at
once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Block(nn.Module):
    """Pre-norm transformer block with causal self-attention."""

    def __init__(self, width: int, num_heads: int, dropout: float) -> None:
        super().__init__()
        self.num_heads, self.dropout = num_heads, dropout
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        rows, length, width = x.shape
        q, k, v = (
            part.view(rows, length, self.num_heads, -1).transpose(1, 2) for part in self.qkv(self.norm1(x)).chunk(3, -1)
        )
        context = F.scaled_dot_product_attention(q, k, v, dropout_p=self.dropout, is_causal=True)
        x = x + F.dropout(self.out(context.transpose(1, 2).reshape(rows, length, width)), self.dropout)
        inner = F.gelu(self.up(self.norm2(x)), approximate="tanh")
        return x + F.dropout(self.down(inner), self.dropout)


class PlainGpt(nn.Module):
    """Maps token ids and the following tokens to the mean loss."""

    def __init__(
        self, *, vocab_size: int, max_length: int, width: int, num_layers: int, num_heads: int, dropout: float
    ) -> None:
        super().__init__()
        self.dropout = dropout
        self.tokens = nn.Embedding(vocab_size, width)
        self.positions = nn.Embedding(max_length, width)
        self.blocks = nn.Sequential(*(Block(width, num_heads, dropout) for _ in range(num_layers)))
        self.norm = nn.LayerNorm(width)
        for weight in self.parameters():
            if weight.dim() > 1:
                nn.init.normal_(weight, std=0.02)

    def forward(self, ids: Tensor, targets: Tensor) -> Tensor:
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1]))
        x = self.norm(self.blocks(F.dropout(x, self.dropout)))
        logits = F.linear(x, self.tokens.weight)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def plain_step(model: PlainGpt, batches: Iterator[tuple[Tensor, Tensor]]) -> Callable[[], float]:
    """A function that makes one training step on the next batch and returns the loss."""
    decayed = [weight for weight in model.parameters() if weight.dim() > 1]
    others = [weight for weight in model.parameters() if weight.dim() <= 1]
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=1e-4, betas=(0.9, 0.95), fused=True)

    def step() -> float:
        loss = model(*next(batches))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return float(loss.item())

    return step
