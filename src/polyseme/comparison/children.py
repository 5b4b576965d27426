"""Processes that work for a comparison, none of which goes on alone."""

from __future__ import annotations

import os
import sys

QUIET = {"OMP_WAIT_POLICY": "PASSIVE"}
"""For processes whose time is measured: threads that wait by spinning take as long as others keep the machine busy."""

_FIRST = "import sys; from polyseme.machine import die_with; die_with(int(sys.argv.pop(1)))"


def command(program: str, *arguments: str) -> list[str]:
    """What runs a line of Python in a process that ends when the thread that began it does, even by a kill.

    The process sees to that itself: whatever is done between a fork and the start of a program can wait forever for
    what a thread of ours held.
    """
    return [sys.executable, "-c", f"{_FIRST}; {program}", str(os.getpid()), *arguments]


def environment() -> dict[str, str]:
    """What such a process finds around it."""
    return {**os.environ, **QUIET}
