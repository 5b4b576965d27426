"""Output layers: vectors to scores."""

from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from polyseme.layers.dropout import Dropout

_BATCH_NORM_WIDTH = 50
_MOMENTUM = 0.1  # weight of a batch in the running statistics
_MAXOUT_CHANNELS = 4


class Head(nn.Module):
    """Linear layer, with an optional hidden layer before it."""

    def __init__(self, width: int, num_scores: int, *, dropout: float, inner_width: int = 0, bias: bool = True) -> None:
        super().__init__()
        self.drop = Dropout(dropout)
        self.dense = nn.Linear(width, inner_width) if inner_width else None
        self.output = nn.Linear(inner_width or width, num_scores, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        if self.dense is not None:
            x = torch.tanh(self.dense(self.drop(x)))
        return self.output(self.drop(x))  # type: ignore[no-any-return]


class BatchNormHead(nn.Module):
    """Classifier of ULMFiT: BatchNorm, Linear, ReLU, BatchNorm, Linear (Howard and Ruder, 2018, section 3.3)."""

    def __init__(self, width: int, num_scores: int, *, dropout: float) -> None:
        super().__init__()
        self.norm = BatchNorm(width)
        self.dense = nn.Linear(width, _BATCH_NORM_WIDTH)
        self.inner_norm = BatchNorm(_BATCH_NORM_WIDTH)
        self.output = nn.Linear(_BATCH_NORM_WIDTH, num_scores)
        self.drop = Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.dense(self.drop(self.norm(x))))
        return self.output(self.drop(self.inner_norm(x)))  # type: ignore[no-any-return]


class BatchNorm(nn.Module):
    """Batch normalization (Ioffe and Szegedy, 2015) that accepts a batch of one.

    Each micro-batch of a batch that is too large for memory has statistics of its own.
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
        training = self.training and len(rows) > 1  # a single row has no variance
        return F.batch_norm(rows, self.mean, self.variance, self.weight, self.bias, training, _MOMENTUM).view_as(x)


class MaxoutHead(nn.Module):
    """Three maxout layers, each the maximum of four linear maps (Goodfellow et al., 2013), as in CoVe.

    The paper also uses batch normalization. It is left out: with 64 examples, in batches of 16 of one length, what was
    trained with it did not generalize.
    """

    def __init__(self, width: int, num_scores: int, *, dropout: float) -> None:
        super().__init__()
        widths = [width, max(1, width // 8), max(1, width // 16), num_scores]  # the narrowest that the paper tried
        self.layers = nn.ModuleList(nn.Linear(a, _MAXOUT_CHANNELS * b) for a, b in pairwise(widths))
        self.drop = Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(self.drop(x)).unflatten(-1, (-1, _MAXOUT_CHANNELS)).amax(-1)
        return x

    @property
    def output(self) -> nn.Module:
        """The last layer."""
        return self.layers[-1]


AnyHead = Head | BatchNormHead | MaxoutHead
