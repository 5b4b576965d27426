"""Linear layers that are also fast for a few rows, with float32 or int8 weights.

Decoding multiplies one row at a time by each matrix, so its time is spent reading weights. On a CPU torch reads them at
half the memory bandwidth, and at a fifth for two to sixteen rows; these kernels read each matrix once at nearly full
bandwidth. In int8 there is a quarter to read.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

if TYPE_CHECKING:
    from polyseme.layers.quantization import PackedInt8

MAX_ROWS = 16  # torch is faster for more (measured)
MIN_WEIGHTS = 1 << 15  # of a matrix; for fewer, the call takes longer than the product (measured)


class Linear(nn.Linear):
    """`nn.Linear` by `linear`."""

    def forward(self, x: Tensor) -> Tensor:
        return linear(x, self.weight, self.bias)


_batch_invariance = ContextVar("batch invariance", default=False)


@contextmanager
def batch_invariant() -> Iterator[None]:
    """Inside, the result for a row does not depend, bit for bit, on the others, up to `MAX_ROWS` rows."""
    token = _batch_invariance.set(True)
    try:
        yield
    finally:
        _batch_invariance.reset(token)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x W' + b, by the fastest kernel for the number of rows."""
    if isinstance(weight, Int8Matrix):
        return weight.linear(x, bias)
    width, num_weights = weight.shape[1], weight.numel()
    if torch.compiler.is_compiling():  # an exported graph serves any number of rows
        return F.linear(x, weight, bias)
    invariant = _batch_invariance.get()
    large = num_weights >= MIN_WEIGHTS or invariant
    few = x.numel() <= MAX_ROWS * width and large and x.shape[-1] == width
    if few and weight.dtype == torch.float32 and weight.is_contiguous() and (kernels := kernels_for(x)):
        return kernels.matmul(x, weight, bias, batch_invariant=invariant)  # type: ignore[no-any-return]
    return F.linear(x, weight, bias)


@dataclass(frozen=True, eq=False)
class Int8Matrix:
    """Int8 matrix with one scale per row; replaces a weight in `F.linear` and `F.embedding`."""

    values: Tensor  # (O, I), int8
    scales: Tensor  # (O,)

    @classmethod
    def of(cls, weight: Tensor) -> Int8Matrix:
        """Quantize `weight`: the largest absolute value of each row becomes 127."""
        weight = weight.detach()
        scales = weight.abs().amax(1).clamp_min(torch.finfo(weight.dtype).tiny) / 127
        return cls((weight / scales[:, None]).round().to(torch.int8).contiguous(), scales)

    @property
    def shape(self) -> torch.Size:
        return self.values.shape

    @property
    def device(self) -> torch.device:
        return self.values.device

    def dequantize(self) -> Tensor:
        """The matrix in float32."""
        return self.values * self.scales[:, None]

    def linear(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        """x W' + b."""
        if x.shape[-1] != self.values.shape[1] or not kernels_for(x):
            return F.linear(x, self.dequantize(), bias)
        from polyseme.layers.quantization import int8_linear

        return int8_linear(x, self._packed, bias)

    def embedding(self, ids: Tensor) -> Tensor:
        """Look up the rows of `ids`."""
        return F.embedding(ids, self.values) * F.embedding(ids, self.scales[:, None])

    @functools.cached_property
    def _packed(self) -> PackedInt8:
        from polyseme.layers.quantization import pack

        return pack(self.values, self.scales)

    @classmethod
    def __torch_function__(
        cls, function: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        # Called by torch where one of these is passed instead of a tensor.
        if function is F.linear:
            return args[1].linear(args[0], *args[2:], **(kwargs or {}))
        if function is F.embedding:
            return args[1].embedding(args[0])
        return NotImplemented


def quantize(encoder: nn.Module) -> None:
    """Quantize every `Linear` and the token embedding, which output layers share, to int8 in place."""
    for name, module in encoder.named_modules():
        if isinstance(module, Linear) or name == "tokens":
            matrix = Int8Matrix.of(module.weight)
            del module.weight  # torch refuses to assign anything but a parameter to one
            module.weight = matrix


def kernels_for(x: Tensor) -> ModuleType | None:
    """The module of compiled kernels if it supports `x`: float32 on a CPU, without gradients."""
    unsupported = torch.is_grad_enabled() or not x.is_cpu or x.dtype != torch.float32 or torch.compiler.is_compiling()
    return None if unsupported else _kernels()


@functools.cache
def _kernels() -> ModuleType | None:
    try:
        kernels = import_module("polyseme.layers.decode_kernels")  # on first use, because it imports a compiler
        kernels.load_thread_pool()
    except ImportError:  # without OpenMP, or without numba
        return None
    return kernels
