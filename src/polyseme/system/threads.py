"""Thread pools."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Result = TypeVar("Result")


def ordered_map(tasks: Iterable[Callable[[], Result]], num_threads: int) -> Iterator[Result]:
    """Run tasks in threads and yield their results in order; only a few results wait in memory."""
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
