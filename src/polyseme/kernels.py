"""Loops over arrays, compiled, and work spread over the cores."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])
Result = TypeVar("Result")


def compiled(function: Function, *, parallel: bool = False) -> Function:
    """Make a kernel of a function; other threads run while it does."""
    import numba

    settings: dict[str, Any] = {
        "nogil": True,
        "parallel": parallel,
        # Sums in any order, so that they are made eight at a time; what is not finite stays so.
        "fastmath": {"reassoc", "contract", "nsz"},
        # A look for division by zero would keep quotients from being made so.
        "error_model": "numpy",
    }
    kernel: Function
    try:
        kernel = numba.njit(cache=True, **settings)(function)
    except RuntimeError:  # no folder to keep it in: each process compiles it anew, for a second
        kernel = numba.njit(**settings)(function)
    return kernel


def in_order(tasks: Iterable[Callable[[], Result]], num_threads: int) -> Iterator[Result]:
    """What some tasks give, in their order, while the next ones are at work; never more than a few are held."""
    waiting: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(num_threads) as pool:
        try:
            for task in tasks:
                if len(waiting) > num_threads:
                    yield waiting.popleft().result()
                waiting.append(pool.submit(task))
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
