"""What a model that writes a token at a time spends its time on, at the speed of memory.

Kernels are given addresses, because making arrays of tensors would take as long as a small product.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from importlib import import_module
from threading import local
from typing import Any

import numba
import numpy as np
import torch
from llvmlite import ir
from numba import carray, prange, types  # type: ignore[attr-defined]
from numba.extending import intrinsic
from torch import Tensor

from polyseme import kernels

# After torch, whose threads are then shared: two pools that wait for work on the same cores halve each other.
import_module("numba.np.ufunc.omppool")
numba.config.THREADING_LAYER_PRIORITY = ["omp", "tbb", "workqueue"]  # type: ignore[attr-defined]
_MOST_THREADS: int = numba.config.NUMBA_NUM_THREADS  # type: ignore[attr-defined]


def product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """The few rows `x` (…, I) times `weight` (O, I), plus `bias` (O,)."""
    x = x.contiguous()
    height, width = weight.shape
    out = x.new_empty((*x.shape[:-1], height))
    start = 0 if bias is None else bias.data_ptr()
    _product(x.data_ptr(), weight.data_ptr(), start, out.data_ptr(), x.numel() // width, height, width)
    return out


def attend(mixed: Tensor, past: Tensor, length: int) -> Tensor:
    """What a new token takes from itself and `length` tokens of the past, (B, 1, H, D/H).

    Its query, key and value are `mixed` (B, 1, 3, H, D/H); the last two become part of `past` (2, B, H, room, D/H).
    """
    mixed = mixed.contiguous()
    num_rows, _, _, num_heads, size = mixed.shape
    out = mixed.new_empty((num_rows, 1, num_heads, size))
    _attend(mixed.data_ptr(), past.data_ptr(), out.data_ptr(), num_rows, num_heads, past.shape[3], length, size)
    return out


def attend_rows(mixed: Tensor, pasts: Sequence[Tensor], lengths: Sequence[int]) -> Tensor:
    """The same of rows that have read `lengths` tokens, each with a past of its own, (2, 1, H, room, D/H)."""
    mixed = mixed.contiguous()
    num_rows, _, _, num_heads, size = mixed.shape
    out = mixed.new_empty((num_rows, 1, num_heads, size))
    places = np.array([[past.data_ptr() for past in pasts], lengths, [past.shape[3] for past in pasts]], dtype=np.int64)
    _attend_rows(mixed.data_ptr(), places, out.data_ptr(), num_rows, num_heads, max(lengths), size)
    return out


def compiled(function: Callable[..., None]) -> Callable[..., None]:
    """Make a kernel of a function; what it spreads by `prange` goes to as many threads as torch has."""
    kernel = kernels.compiled(function, parallel=True)

    @functools.wraps(function)
    def run(*arguments: Any) -> None:
        number = torch.get_num_threads()
        if _threads.number != number:
            numba.set_num_threads(min(number, _MOST_THREADS))
            torch.set_num_threads(number)  # which the line above changes when numba starts
            _threads.number = number
        kernel(*arguments)

    return run


class _Threads(local):
    number = 0  # numba keeps it for every thread of Python


_threads = _Threads()


def _pointer_of(_: Any, address: Any) -> tuple[Any, Callable[..., Any]]:
    def build(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())

    return types.voidptr(types.intp), build


pointer: Any = intrinsic(_pointer_of)


@compiled
def _product(x_at: int, weight_at: int, bias_at: int, out_at: int, num_rows: int, height: int, width: int) -> None:
    x = carray(pointer(x_at), (num_rows, width), np.float32)
    weight = carray(pointer(weight_at), (height, width), np.float32)
    bias = carray(pointer(bias_at), (height,), np.float32)
    out = carray(pointer(out_at), (num_rows, height), np.float32)
    zero = np.float32(0)
    for place in prange(height):
        start = bias[place] if bias_at else zero
        # Each row of the matrix comes from memory once; four rows of x at a time keep the processor busy.
        for row in range(0, num_rows - 3, 4):
            a, b, c, d = zero, zero, zero, zero
            for column in range(width):
                number = weight[place, column]
                a += number * x[row, column]
                b += number * x[row + 1, column]
                c += number * x[row + 2, column]
                d += number * x[row + 3, column]
            out[row, place] = a + start
            out[row + 1, place] = b + start
            out[row + 2, place] = c + start
            out[row + 3, place] = d + start
        for row in range(num_rows // 4 * 4, num_rows):
            a = zero
            for column in range(width):
                a += weight[place, column] * x[row, column]
            out[row, place] = a + start


@kernels.compiled
def _attend_head(
    query: Any, key: Any, value: Any, keys: Any, values: Any, weights: Any, mean: Any, length: int, size: int
) -> None:
    """One head of one row; all of these lie in one piece, or they would not be multiplied eight at a time."""
    keys[length] = key
    values[length] = value
    unit = np.float32(1 / np.sqrt(size))
    largest = np.float32(-np.inf)
    for place in range(length + 1):
        score = np.float32(0)
        for column in range(size):
            score += query[column] * keys[place, column]
        weights[place] = score * unit
        largest = max(largest, score * unit)
    total = np.float32(0)
    mean[:] = 0
    for place in range(length + 1):
        weight = np.exp(weights[place] - largest)
        total += weight
        for column in range(size):
            mean[column] += weight * values[place, column]
    mean /= total


@compiled
def _attend(
    mixed_at: int, past_at: int, out_at: int, num_rows: int, num_heads: int, room: int, length: int, size: int
) -> None:
    mixed = carray(pointer(mixed_at), (num_rows, 3, num_heads, size), np.float32)
    past = carray(pointer(past_at), (2, num_rows, num_heads, room, size), np.float32)
    out = carray(pointer(out_at), (num_rows, num_heads, size), np.float32)
    weights = np.empty((num_rows * num_heads, length + 1), dtype=np.float32)
    for item in prange(num_rows * num_heads):
        row, head = item // num_heads, item % num_heads
        query, key, value = mixed[row, 0, head], mixed[row, 1, head], mixed[row, 2, head]
        keys, values = past[0, row, head], past[1, row, head]
        _attend_head(query, key, value, keys, values, weights[item], out[row, head], length, size)


@compiled
def _attend_rows(
    mixed_at: int, places: Any, out_at: int, num_rows: int, num_heads: int, longest: int, size: int
) -> None:
    mixed = carray(pointer(mixed_at), (num_rows, 3, num_heads, size), np.float32)
    out = carray(pointer(out_at), (num_rows, num_heads, size), np.float32)
    weights = np.empty((num_rows * num_heads, longest + 1), dtype=np.float32)
    for item in prange(num_rows * num_heads):
        row, head = item // num_heads, item % num_heads
        past = carray(pointer(places[0, row]), (2, num_heads, places[2, row], size), np.float32)
        query, key, value = mixed[row, 0, head], mixed[row, 1, head], mixed[row, 2, head]
        keys, values, length = past[0, head], past[1, head], places[1, row]
        _attend_head(query, key, value, keys, values, weights[item], out[row, head], length, size)
