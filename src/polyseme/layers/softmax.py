"""Cross entropy over a large vocabulary without ever holding all the logits."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

CHUNK = 512
"""Rows of logits held at a time; smaller chunks make slower products (measured)."""


class _LinearCrossEntropy(torch.autograd.Function):
    """Sum of -log softmax(h W' + b)[target]; the gradients are made in the forward pass, chunk by chunk."""

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor) -> Tensor:
        total = hidden.new_zeros(())
        hidden_gradient = torch.empty_like(hidden)
        weight_gradient = torch.zeros_like(weight)
        bias_gradient = None if bias is None else torch.zeros_like(bias)
        for start in range(0, len(hidden), CHUNK):
            rows = slice(start, start + CHUNK)
            logits = F.linear(hidden[rows], weight, bias)  # (chunk, V)
            target = targets[rows, None]
            normalizer = logits.logsumexp(-1, keepdim=True)
            total += (normalizer - logits.gather(-1, target)).sum()
            gradient = logits.sub_(normalizer).exp_()
            gradient.scatter_add_(-1, target, gradient.new_full(target.shape, -1.0))
            torch.mm(gradient, weight, out=hidden_gradient[rows])
            weight_gradient.addmm_(gradient.T, hidden[rows])
            if bias_gradient is not None:
                bias_gradient += gradient.sum(0)
        ctx.gradients = (hidden_gradient, weight_gradient, bias_gradient)
        return total

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        return *(None if gradient is None else gradient.mul_(upstream[0]) for gradient in ctx.gradients), None


def linear_cross_entropy(hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor) -> Tensor:
    """The summed nats of `targets` (N,) under the softmax of a linear map of `hidden` (N, D)."""
    if torch.is_grad_enabled():
        return _LinearCrossEntropy.apply(hidden, weight, bias, targets)  # type: ignore[no-any-return, no-untyped-call]
    return token_nats(hidden, weight, bias, targets)[0].sum()


def token_nats(hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Nats of each target and whether it was the likeliest, for evaluation."""
    nats, right = [], []
    for start in range(0, len(hidden), CHUNK):
        rows = slice(start, start + CHUNK)
        logits = F.linear(hidden[rows], weight, bias)
        nats.append(F.cross_entropy(logits, targets[rows], reduction="none"))
        right.append(logits.argmax(-1) == targets[rows])
    if not nats:
        return hidden.new_zeros(0), targets.new_zeros(0, dtype=torch.bool)
    return torch.cat(nats), torch.cat(right)
