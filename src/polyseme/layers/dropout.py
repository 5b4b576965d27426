"""Dropout whose masks cost an eighth of the chance (Srivastava et al., 2014)."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

_thread = threading.local()


@contextmanager
def own_chance(seed: int) -> Iterator[None]:
    """Let this thread draw from a stream of its own, where several would share out one in no fixed order."""
    _thread.stream = torch.Generator().manual_seed(seed)
    try:
        yield
    finally:
        _thread.stream = None


class Dropout(nn.Module):
    """Sets a share of the numbers to zero while training, and scales the rest up.

    One byte decides about each number, and eight bytes are drawn at once; torch draws a number of 64 bits for each,
    which on a CPU takes longer than the layer it follows. The share is rounded to a 256th.
    """

    def __init__(self, share: float) -> None:
        super().__init__()
        self.num_dropped = round(256 * share)  # of 256 values of a byte

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or not self.num_dropped:
            return x
        drawn = torch.empty(x.numel() // 8 + 1, dtype=torch.int64, device=x.device)
        drawn.random_(-(2**63), None, generator=getattr(_thread, "stream", None))
        kept = drawn.view(torch.uint8)[: x.numel()].view(x.shape) >= self.num_dropped
        return x * kept.to(x.dtype).mul_(256 / (256 - self.num_dropped))

    def extra_repr(self) -> str:
        return f"{self.num_dropped}/256"
