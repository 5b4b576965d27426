"""What compiled loops share: random numbers, and rows that are asked for before they are needed."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from polyseme.kernels import compiled

_MULTIPLIER, _INCREMENT = np.uint64(6364136223846793005), np.uint64(1442695040888963407)  # Knuth's
_HALF = np.uint64(32)


@compiled
def follow(chance: Any) -> Any:
    """The next state of a generator of random numbers, a linear congruential one of 64 bits."""
    return chance * _MULTIPLIER + _INCREMENT


@compiled
def draw(chance: Any, number: int) -> Any:
    """One of so many, by the upper half of a state, which is the random one."""
    return np.int64((chance >> _HALF) * np.uint64(number) >> _HALF)


@compiled
def fetch(table: NDArray[np.float32], row: int) -> None:
    """Have a row of a table brought near while other work goes on; large tables are not in the cache."""
    for column in range(0, table.shape[1], 16):  # numbers that come together
        _hint(table, row, column)  # type: ignore[call-arg]


@intrinsic
def _hint(_: Any, table: Any, row: Any, column: Any) -> Any:
    """The processor's instruction for that, which nothing else in numba gives."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind, byte, number = signature.args[0], ir.IntType(8).as_pointer(), ir.IntType(32)
        array = context.make_array(kind)(context, builder, arguments[0])
        place = cgutils.get_item_pointer(context, builder, kind, array, arguments[1:])  # type: ignore[no-untyped-call]
        form = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        prefetch = builder.module.declare_intrinsic("llvm.prefetch", [byte], form)
        # To be written, soon, as data.
        builder.call(prefetch, [builder.bitcast(place, byte), number(1), number(3), number(1)])
        return context.get_dummy_value()

    return types.void(table, types.intp, types.intp), generate
