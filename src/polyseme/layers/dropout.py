"""Dropout (Srivastava et al., 2014) that draws one random byte per element instead of a 64-bit number."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

_thread = threading.local()


@contextmanager
def thread_rng(seed: int) -> Iterator[None]:
    """Give this thread a generator of its own: several threads would draw from a shared one in no fixed order."""
    _thread.generator = torch.Generator().manual_seed(seed)
    try:
        yield
    finally:
        _thread.generator = None


class Dropout(nn.Module):
    """Inverted dropout whose probability is rounded to a multiple of 1/256.

    Eight bytes are drawn at once; torch draws 64 bits per element, which on a CPU takes longer than the layer before.
    """

    def __init__(self, probability: float) -> None:
        super().__init__()
        self.num_dropped = round(256 * probability)  # of 256 values of a byte

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or not self.num_dropped:
            return x
        random = torch.empty(x.numel() // 8 + 1, dtype=torch.int64, device=x.device)
        random.random_(-(2**63), None, generator=getattr(_thread, "generator", None))
        keep = random.view(torch.uint8)[: x.numel()].view(x.shape) >= self.num_dropped
        return x * keep.to(x.dtype).mul_(256 / (256 - self.num_dropped))
