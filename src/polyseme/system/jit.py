"""Just-in-time compilation of loops over arrays."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

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
    try:
        return cast(Function, numba.njit(cache=True, **settings)(function))
    except RuntimeError:  # no writable folder for the cache: each process compiles for about a second
        return cast(Function, numba.njit(**settings)(function))
