"""Just-in-time compilation of loops over arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])


def jit(function: Function, *, parallel: bool = False) -> Function:
    """Compile a function with numba; it releases the interpreter lock while it runs."""
    import numba

    settings: dict[str, Any] = {
        "nogil": True,
        "parallel": parallel,
        # Sums may be reordered, so that they are vectorized; infinities and NaNs are respected.
        "fastmath": {"reassoc", "contract", "nsz"},
        # A check for division by zero would prevent the vectorization of quotients.
        "error_model": "numpy",
    }
    kernel: Function
    try:
        kernel = numba.njit(cache=True, **settings)(function)
    except RuntimeError:  # no writable folder for the cache: each process compiles for about a second
        kernel = numba.njit(**settings)(function)
    return kernel
