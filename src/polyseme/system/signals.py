"""Graceful shutdown: the first SIGINT or SIGTERM requests it, the second ends the process."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class ShutdownRequest:
    """The signal that requested a shutdown, or 0."""

    signal: int = 0


@contextmanager
def graceful_shutdown() -> Iterator[ShutdownRequest]:
    """Record the first SIGINT or SIGTERM in the block instead of ending the process."""
    request = ShutdownRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request  # Python delivers signals to the main thread only
        return

    def handle(number: int, frame: FrameType | None) -> None:
        if request.signal:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        request.signal = number

    previous = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield request
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
