"""The head of ULMFiT, which is held against the other texts of the batch (Howard and Ruder, 2018, section 3.3)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from polyseme.layers.dropout import Dropout

_INNER_WIDTH = 50
_MOMENTUM = 0.1  # how much a batch counts beside those before it


class NormedHead(nn.Module):
    """Scores from vectors through one layer, both of which are normed."""

    def __init__(self, width: int, num_scores: int, *, dropout: float) -> None:
        super().__init__()
        self.norm = BatchNorm(width)
        self.dense = nn.Linear(width, _INNER_WIDTH)
        self.inner_norm = BatchNorm(_INNER_WIDTH)
        self.output = nn.Linear(_INNER_WIDTH, num_scores)
        self.drop = Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.dense(self.drop(self.norm(x))))
        return self.output(self.drop(self.inner_norm(x)))  # type: ignore[no-any-return]


class BatchNorm(nn.Module):
    """Numbers against how they are spread in the batch (Ioffe and Szegedy, 2015); after learning, in those before.

    The pieces of a batch that is too large for memory have a mean and a variance of their own.
    """

    mean: Tensor
    variance: Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("variance", torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        rows = x.flatten(0, -2)  # (N, D)
        learning = self.training and len(rows) > 1  # a single one is not spread at all
        return F.batch_norm(rows, self.mean, self.variance, self.weight, self.bias, learning, _MOMENTUM).view_as(x)
