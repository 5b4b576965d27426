"""The product of many rows and a matrix in bytes, half as quick again as in floats on a CPU.

Each row of floats becomes whole numbers of up to 16 bits with a scale of its own, so that only the rounding of the
matrix is felt and no row depends on the others. Torch's own products round all rows to 7 bits by one scale: they are a
tenth quicker, and the cosines of embeddings to those in floats go down to 0.91 instead of 0.998 (measured).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from llvmlite import ir  # type: ignore[import-untyped]
from numba import prange, types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array
from numpy.typing import NDArray
from torch import Tensor

from polyseme.layers.kernels import compiled

_ROWS, _COLUMNS = 6, 16  # multiplied at once: twelve sums of eight numbers, as many as a processor keeps at hand
_CHUNK = 8 * _ROWS  # rows that meet a part of the matrix while it is near
_LEAST = np.float32(1e-30).view(np.int32)  # of a row's largest number, so that a row of zeros can be scaled too


@dataclass(frozen=True, eq=False)
class Packed:
    """A matrix of (O, I) bytes in the order in which they are needed."""

    values: NDArray[np.int8]  # (O / 16, I / 2, 16, 2), filled up with zeros
    scales: NDArray[np.float32]  # (O,)
    width: int  # I


def pack(values: Tensor, scales: Tensor) -> Packed:
    """Prepare a matrix of bytes (O, I), whose rows have `scales` (O,)."""
    height, width = values.shape
    filled = np.zeros((-(-height // _COLUMNS), _COLUMNS, -(-width // 2), 2), dtype=np.int8)
    filled.reshape(-1, 2 * filled.shape[2])[:height, :width] = values.numpy()
    return Packed(np.ascontiguousarray(filled.transpose(0, 2, 1, 3)), scales.numpy(), width)


def int8_linear(x: Tensor, matrix: Packed, bias: Tensor | None = None) -> Tensor:
    """x W' + b, for floats on the CPU and without gradients."""
    rows = x.detach().reshape(-1, matrix.width).contiguous().numpy()
    out = torch.empty(*x.shape[:-1], len(matrix.scales))
    start = np.zeros(len(matrix.scales), dtype=np.float32) if bias is None else bias.detach().numpy()
    top = min(2**15 - 1, (2**31 - 1) // (127 * matrix.width))  # sums stay within 32 bits
    written = out.view(-1, len(matrix.scales)).numpy()
    _multiply(rows, rows.view(np.int32), matrix.values, matrix.scales, start, written, top, torch.get_num_threads())
    return out


def _sums_of(_: Any, x: Any, values: Any, out: Any) -> tuple[Any, Callable[..., Any]]:
    """out[r, c] = the sum of x[r, i] * values[i // 2, c, i % 2] over i.

    Written in the language of the compiler, which makes of a product and of adding neighbours a single instruction.
    """

    def build(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        x, values, out = (
            make_array(kind)(context, builder, array)  # type: ignore[no-untyped-call]
            for kind, array in zip(signature.args, arguments, strict=True)
        )
        num_pairs = cgutils.unpack_tuple(builder, values.shape)[0]  # type: ignore[no-untyped-call]

        def place(array: Any, kind: ir.Type, index: Any) -> Any:
            return builder.gep(builder.bitcast(array.data, kind.as_pointer()), [index])

        zeros = ir.Constant(_SUM, None)
        sums = [cgutils.alloca_once_value(builder, zeros) for _ in range(2 * _ROWS)]  # type: ignore[no-untyped-call]
        with cgutils.for_range(builder, num_pairs) as loop:
            halves = []
            for half in range(2):
                index = builder.add(builder.mul(loop.index, _number(2)), _number(half))
                numbers = builder.load(place(values, _vector(8, 16), index), align=1)
                halves.append(builder.sext(numbers, _PAIRS))
            for row in range(_ROWS):
                index = builder.add(builder.mul(num_pairs, _number(row)), loop.index)
                pair = builder.insert_element(
                    ir.Constant(_SUM, ir.Undefined), builder.load(place(x, _INT, index), align=2), _INT(0)
                )
                spread = builder.bitcast(builder.shuffle_vector(pair, pair, ir.Constant(_SUM, [0] * 8)), _PAIRS)
                for half, numbers in enumerate(halves):
                    products = builder.mul(builder.sext(spread, _PRODUCTS), builder.sext(numbers, _PRODUCTS))
                    even, odd = (
                        builder.shuffle_vector(products, products, ir.Constant(_SUM, list(range(first, 16, 2))))
                        for first in (0, 1)
                    )
                    total = sums[2 * row + half]
                    builder.store(builder.add(builder.load(total), builder.add(even, odd)), total)
        for number, total in enumerate(sums):
            builder.store(builder.load(total), place(out, _SUM, _number(number)), align=4)
        return context.get_dummy_value()

    return types.void(x, values, out), build


def _vector(num_bits: int, length: int) -> ir.VectorType:
    return ir.VectorType(ir.IntType(num_bits), length)


def _number(value: int) -> ir.Constant:
    return ir.IntType(64)(value)


_sums: Any = intrinsic(_sums_of)
_INT, _PAIRS, _PRODUCTS, _SUM = ir.IntType(32), _vector(16, 16), _vector(32, 16), _vector(32, 8)


@compiled
def _multiply(x: Any, bits: Any, values: Any, scales: Any, bias: Any, out: Any, top: int, num_parts: int) -> None:
    num_rows, width = x.shape
    num_blocks, num_pairs = values.shape[:2]
    num_chunks = (num_rows + _CHUNK - 1) // _CHUNK
    for part in prange(num_parts):
        rounded = np.zeros((_CHUNK, 2 * num_pairs), dtype=np.int16)
        largest = np.empty(_CHUNK, dtype=np.int32)
        units = largest.view(np.float32)
        sums = np.empty((_ROWS, _COLUMNS), dtype=np.int32)
        for chunk in range(part * num_chunks // num_parts, (part + 1) * num_chunks // num_parts):
            first = chunk * _CHUNK
            num_here = min(_CHUNK, num_rows - first)
            for row in range(num_here):
                # Sizes of floats are ordered as their bits are; the largest are those that are not finite.
                most = _LEAST
                for column in range(width):
                    most = max(most, bits[first + row, column] & np.int32(0x7FFFFFFF))
                largest[row] = most
                unit = units[row] / np.float32(top)
                units[row] = unit
                for column in range(width):
                    rounded[row, column] = np.int16(np.rint(x[first + row, column] / unit))
            for block in range(num_blocks):
                column = block * _COLUMNS
                num_columns = min(_COLUMNS, len(scales) - column)
                for start in range(0, num_here, _ROWS):
                    _sums(rounded[start : start + _ROWS], values[block], sums)
                    for row in range(min(_ROWS, num_here - start)):
                        for place in range(num_columns):
                            number = sums[row, place] * (units[start + row] * scales[column + place])
                            out[first + start + row, column + place] = number + bias[column + place]
