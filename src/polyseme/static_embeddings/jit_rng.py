"""Random numbers and memory prefetching for use inside numba kernels."""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from polyseme.arrays import Floats
from polyseme.system.jit import jit

_MULTIPLIER, _INCREMENT = np.uint64(6364136223846793005), np.uint64(1442695040888963407)  # Knuth's
HALF = np.uint64(32)  # bits
_CACHE_LINE = 16  # float32 values


@jit
def lcg_next(state: Any) -> Any:
    """The next state of a 64-bit linear congruential generator."""
    return state * _MULTIPLIER + _INCREMENT


@jit
def randint(state: Any, high: int) -> Any:
    """An integer in [0, high) from the upper half of a state, which has the better random bits."""
    return np.int64((state >> HALF) * np.uint64(high) >> HALF)


@jit
def prefetch(table: Floats, row: int) -> None:
    """Prefetch a row of a table that is too large for the processor's caches."""
    for column in range(0, table.shape[1], _CACHE_LINE):
        _prefetch_cache_line(table, row, column)  # type: ignore[call-arg]


@intrinsic
def _prefetch_cache_line(_: Any, table: Any, row: Any, column: Any) -> Any:
    """LLVM's prefetch instruction, which numba has no function for."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array_type, byte_pointer, integer = signature.args[0], ir.IntType(8).as_pointer(), ir.IntType(32)
        array = context.make_array(array_type)(context, builder, arguments[0])
        pointer = cgutils.get_item_pointer(context, builder, array_type, array, arguments[1:])  # type: ignore[no-untyped-call]
        function_type = ir.FunctionType(ir.VoidType(), [byte_pointer, integer, integer, integer])
        instruction = builder.module.declare_intrinsic("llvm.prefetch", [byte_pointer], function_type)
        for_writing, keep_in_all_caches, is_data = integer(1), integer(3), integer(1)
        builder.call(instruction, [builder.bitcast(pointer, byte_pointer), for_writing, keep_in_all_caches, is_data])
        return context.get_dummy_value()

    return types.void(table, types.intp, types.intp), generate
