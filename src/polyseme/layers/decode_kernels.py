"""Compiled CPU kernels for token-by-token decoding, which is bound by memory bandwidth.

Kernels take addresses: wrapping tensors in NumPy arrays would take as long as a small matrix product.
"""

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

from polyseme.system.jit import jit


def matmul(x: Tensor, weight: Tensor, bias: Tensor | None = None, *, batch_invariant: bool = False) -> Tensor:
    """x W' + b for a few rows `x` (…, I), `weight` (O, I) and `bias` (O,).

    Four rows at a time and single rows may be summed in different orders; `batch_invariant` has one order for all.
    """
    x = x.contiguous()
    height, width = weight.shape
    out = x.new_empty((*x.shape[:-1], height))
    start = 0 if bias is None else bias.data_ptr()
    num_rows = x.numel() // width
    num_blocked = num_rows if batch_invariant else num_rows // 4 * 4
    _matmul(x.data_ptr(), weight.data_ptr(), start, out.data_ptr(), num_rows, num_blocked, height, width)
    return out


def attend(projected: Tensor, past: Tensor, length: int) -> Tensor:
    """Attend from one new token of each sequence to itself and `length` cached tokens, (B, 1, H, D/H).

    `projected` (B, 1, 3, H, D/H) holds its query, key and value; the last two are added to `past`
    (2, B, H, capacity, D/H).
    """
    projected = projected.contiguous()
    num_rows, _, _, num_heads, size = projected.shape
    out = projected.new_empty((num_rows, 1, num_heads, size))
    _attend(projected.data_ptr(), past.data_ptr(), out.data_ptr(), num_rows, num_heads, past.shape[3], length, size)
    return out


def attend_ragged(projected: Tensor, pasts: Sequence[Tensor], lengths: Sequence[int]) -> Tensor:
    """Attend as `attend` does for rows of different lengths, each with a cache (2, 1, H, capacity, D/H) of its own."""
    projected = projected.contiguous()
    num_rows, _, _, num_heads, size = projected.shape
    out = projected.new_empty((num_rows, 1, num_heads, size))
    caches = np.array([[past.data_ptr() for past in pasts], lengths, [past.shape[3] for past in pasts]], dtype=np.int64)
    _attend_ragged(projected.data_ptr(), caches, out.data_ptr(), num_rows, num_heads, max(lengths), size)
    return out


@functools.cache
def load_thread_pool() -> None:
    """Let numba share torch's OpenMP threads.

    Raises:
        ImportError: Without OpenMP.
    """
    import_module("numba.np.ufunc.omppool")
    numba.config.THREADING_LAYER_PRIORITY = ["omp", "tbb", "workqueue"]  # type: ignore[attr-defined]


def parallel_jit(function: Callable[..., None]) -> Callable[..., None]:
    """Compile a function whose `prange` loops run on as many threads as torch uses."""
    kernel = jit(function, parallel=True)

    @functools.wraps(function)
    def run(*arguments: Any) -> None:
        number = torch.get_num_threads()
        if getattr(_threads, "number", None) != number:
            load_thread_pool()
            numba.set_num_threads(min(number, numba.config.NUMBA_NUM_THREADS))  # type: ignore[attr-defined]
            torch.set_num_threads(number)  # the line above changes it when numba starts
            _threads.number = number
        kernel(*arguments)

    return run


_threads = local()  # numba's number of threads is that of a Python thread


def _pointer_of(_: Any, address: Any) -> tuple[Any, Callable[..., Any]]:
    def build(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())

    return types.voidptr(types.intp), build


pointer: Any = intrinsic(_pointer_of)


@parallel_jit
def _matmul(
    x_at: int, weight_at: int, bias_at: int, out_at: int, num_rows: int, num_blocked: int, height: int, width: int
) -> None:
    x = carray(pointer(x_at), (num_rows, width), np.float32)
    weight = carray(pointer(weight_at), (height, width), np.float32)
    bias = carray(pointer(bias_at), (height,), np.float32)
    out = carray(pointer(out_at), (num_rows, height), np.float32)
    zero, last = np.float32(0), num_rows - 1
    for output in prange(height):
        start = bias[output] if bias_at else zero
        # Each row of the matrix is read from memory once; four rows of x at a time keep the arithmetic units busy.
        for first in range(0, num_blocked, 4):
            # An incomplete block repeats the last row.
            second, third, fourth = min(first + 1, last), min(first + 2, last), min(first + 3, last)
            a, b, c, d = zero, zero, zero, zero
            for column in range(width):
                number = weight[output, column]
                a += number * x[first, column]
                b += number * x[second, column]
                c += number * x[third, column]
                d += number * x[fourth, column]
            out[first, output] = a + start
            out[second, output] = b + start
            out[third, output] = c + start
            out[fourth, output] = d + start
        for row in range(num_blocked, num_rows):
            a = zero
            for column in range(width):
                a += weight[output, column] * x[row, column]
            out[row, output] = a + start


@jit
def _attend_head(
    query: Any, key: Any, value: Any, keys: Any, values: Any, weights: Any, mean: Any, length: int, size: int
) -> None:
    """Attention of one head of one row; all arrays are contiguous, without which LLVM would not vectorize the loops."""
    keys[length] = key
    values[length] = value
    scale = np.float32(1 / np.sqrt(size))
    largest = np.float32(-np.inf)
    for position in range(length + 1):
        score = np.float32(0)
        for column in range(size):
            score += query[column] * keys[position, column]
        weights[position] = score * scale
        largest = max(largest, score * scale)
    total = np.float32(0)
    mean[:] = 0
    for position in range(length + 1):
        weight = np.exp(weights[position] - largest)
        total += weight
        for column in range(size):
            mean[column] += weight * values[position, column]
    mean /= total


@parallel_jit
def _attend(
    projected_at: int, past_at: int, out_at: int, num_rows: int, num_heads: int, capacity: int, length: int, size: int
) -> None:
    projected = carray(pointer(projected_at), (num_rows, 3, num_heads, size), np.float32)
    past = carray(pointer(past_at), (2, num_rows, num_heads, capacity, size), np.float32)
    out = carray(pointer(out_at), (num_rows, num_heads, size), np.float32)
    weights = np.empty((num_rows * num_heads, length + 1), dtype=np.float32)
    for item in prange(num_rows * num_heads):
        row, head = item // num_heads, item % num_heads
        query, key, value = projected[row, 0, head], projected[row, 1, head], projected[row, 2, head]
        keys, values = past[0, row, head], past[1, row, head]
        _attend_head(query, key, value, keys, values, weights[item], out[row, head], length, size)


@parallel_jit
def _attend_ragged(
    projected_at: int, caches: Any, out_at: int, num_rows: int, num_heads: int, longest: int, size: int
) -> None:
    projected = carray(pointer(projected_at), (num_rows, 3, num_heads, size), np.float32)
    out = carray(pointer(out_at), (num_rows, num_heads, size), np.float32)
    weights = np.empty((num_rows * num_heads, longest + 1), dtype=np.float32)
    for item in prange(num_rows * num_heads):
        row, head = item // num_heads, item % num_heads
        past = carray(pointer(caches[0, row]), (2, num_heads, caches[2, row], size), np.float32)
        query, key, value = projected[row, 0, head], projected[row, 1, head], projected[row, 2, head]
        keys, values, length = past[0, head], past[1, head], caches[1, row]
        _attend_head(query, key, value, keys, values, weights[item], out[row, head], length, size)
