"""Ctrl-C and SIGTERM: the first asks for a good end, the second ends."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interruption:
    """Whether somebody asked to stop, and by which signal."""

    signal: int = 0


@contextmanager
def interruptible() -> Iterator[Interruption]:
    """Note the first SIGINT or SIGTERM inside the block instead of dying of it."""
    interruption = Interruption()
    if threading.current_thread() is not threading.main_thread():
        yield interruption  # Python delivers signals to the main thread only
        return

    def note(number: int, frame: FrameType | None) -> None:
        if interruption.signal:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        interruption.signal = number

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield interruption
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
