"""Linear maps that are quick for a few rows too, with weights in floats or in bytes.

A model that writes a token at a time multiplies one row by each of its matrices, and the time goes into reading them.
On a CPU torch reads them at half the speed of memory, and at a fifth for two to sixteen rows; here each is read once,
at most of that speed. In bytes there is a quarter to read.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

if TYPE_CHECKING:
    from polyseme.layers.int8 import Packed

MOST_ROWS = 16  # torch is quicker for more (measured)
LEAST_SIZE = 1 << 15  # numbers in a matrix; for fewer, starting takes longer than multiplying (measured)


class Linear(nn.Linear):
    """A linear map of the last dimension."""

    def forward(self, x: Tensor) -> Tensor:
        return linear(x, self.weight, self.bias)


class _Alike(threading.local):
    on = False


_alike = _Alike()


@contextmanager
def alike() -> Iterator[None]:
    """Inside, up to `MOST_ROWS` rows are each multiplied as they would be alone, to the last bit."""
    _alike.on = True
    try:
        yield
    finally:
        _alike.on = False


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x W' + b, by the quickest way for so many rows."""
    if isinstance(weight, Int8Matrix):
        return weight.linear(x, bias)
    width, num_numbers = weight.shape[1], weight.numel()
    if torch.compiler.is_compiling():  # a graph is for any number of rows
        return F.linear(x, weight, bias)
    large = num_numbers >= LEAST_SIZE or _alike.on
    few = x.numel() <= MOST_ROWS * width and large and x.shape[-1] == width
    if few and weight.dtype == torch.float32 and weight.is_contiguous() and (own := kernels_for(x)):
        return own.product(x, weight, bias)  # type: ignore[no-any-return]
    return F.linear(x, weight, bias)


@dataclass(frozen=True, eq=False)
class Int8Matrix:
    """A matrix in bytes with one scale a row; stands for a tensor where torch multiplies by it or looks rows up."""

    values: Tensor  # (O, I), int8
    scales: Tensor  # (O,)

    @classmethod
    def of(cls, weight: Tensor) -> Int8Matrix:
        """The nearest to `weight`: the largest number of each row becomes 127."""
        weight = weight.detach()
        scales = weight.abs().amax(1).clamp_min(torch.finfo(weight.dtype).tiny) / 127
        return cls((weight / scales[:, None]).round().to(torch.int8).contiguous(), scales)

    @property
    def shape(self) -> torch.Size:
        return self.values.shape

    @property
    def device(self) -> torch.device:
        return self.values.device

    def floats(self) -> Tensor:
        """All of it as floats."""
        return self.values * self.scales[:, None]

    def linear(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        """x W' + b."""
        if x.shape[-1] != self.values.shape[1] or not kernels_for(x):
            return F.linear(x, self.floats(), bias)
        from polyseme.layers.int8 import int8_linear

        return int8_linear(x, self._packed, bias)

    def embedding(self, ids: Tensor) -> Tensor:
        """The rows of `ids`."""
        return F.embedding(ids, self.values) * F.embedding(ids, self.scales[:, None])

    @functools.cached_property
    def _packed(self) -> Packed:
        from polyseme.layers.int8 import pack

        return pack(self.values, self.scales)

    @classmethod
    def __torch_function__(
        cls, function: Any, types: Sequence[type], given: Sequence[Any] = (), named: Mapping[str, Any] | None = None
    ) -> Any:
        # torch calls this where one of these is given to a function that wants a tensor.
        if function is F.linear:
            return given[1].linear(given[0], *given[2:], **(named or {}))
        if function is F.embedding:
            return given[1].embedding(given[0])
        return NotImplemented


def quantize(encoder: nn.Module) -> None:
    """Keep every `Linear` and the embedding of tokens, which output layers share, in bytes from now on."""
    for name, module in encoder.named_modules():
        if isinstance(module, Linear) or name == "tokens":
            matrix = Int8Matrix.of(module.weight)
            del module.weight  # a parameter cannot be given anything but a parameter
            module.weight = matrix


def kernels_for(x: Tensor) -> ModuleType | None:
    """Our own kernels, where they can be used: for numbers only, float32, on a CPU."""
    plain = not torch.is_grad_enabled() and x.is_cpu and x.dtype == torch.float32 and not torch.compiler.is_compiling()
    return _kernels() if plain else None


@functools.cache
def _kernels() -> ModuleType | None:
    try:
        return import_module("polyseme.layers.kernels")  # not before they are needed: they bring a compiler with them
    except ImportError:  # they share torch's threads by OpenMP, which not every machine has
        return None
