"""Loops over arrays, compiled, and spread over the cores."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

import numba
import numpy as np

Function = TypeVar("Function", bound=Callable[..., Any])
Result = TypeVar("Result")


def compiled(function: Function) -> Function:
    """Make a kernel of a function; other threads run while it does."""
    # Sums in any order, so that they are made eight at a time; what is not finite stays so.
    # A look for division by zero would keep quotients from being made so.
    settings: dict[str, Any] = {"nogil": True, "fastmath": {"reassoc", "contract", "nsz"}, "error_model": "numpy"}
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
