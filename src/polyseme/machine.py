"""What this computer has."""

import ctypes
import os
import platform
import signal
from contextlib import suppress
from pathlib import Path


def available_memory() -> int:
    """Bytes that a program can still have: of the machine, or of the container's limit where that is less."""
    free = []
    try:
        fields = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
        free.append(int(fields["MemAvailable"].split()[0]) * 1024)
        limit = Path("/sys/fs/cgroup/memory.max").read_text().strip()
        if limit.isdigit():
            free.append(int(limit) - int(Path("/sys/fs/cgroup/memory.current").read_text()))
    except (OSError, KeyError):
        pass
    if not free:
        free.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    return max(0, min(free))


def peak_memory(process: int) -> int:
    """Bytes that a process has held at most since it began to run its program; 0 where the system does not tell.

    What waiting for a process tells includes what its parent held when it was forked.
    """
    try:
        fields = dict(line.split(":", 1) for line in Path(f"/proc/{process}/status").read_text().splitlines())
        return int(fields["VmHWM"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return 0


def num_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def processor() -> str:
    """The name of the processor."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def keep_freed_memory() -> None:
    """Let this process keep the memory that it frees, so that a training step need not fetch it anew.

    Every step frees and takes the same large tensors, and the system hands out each page of them cleared: up to a
    third of the time of a step. The command line calls this; a program that trains may, the earlier the better. The
    process does not shrink again. Only the C library of GNU/Linux can do it; elsewhere nothing happens.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, TypeError, AttributeError):
        return
    no_maps, no_trimming = (-4, 0), (-1, -1)  # M_MMAP_MAX, M_TRIM_THRESHOLD
    for setting, value in (no_maps, no_trimming):
        mallopt(setting, value)


def give_back_freed_memory() -> None:
    """Let the system have what is free now, after work that took more than what comes next; it may be kept else."""
    with suppress(OSError, TypeError, AttributeError):  # as above
        ctypes.CDLL(None).malloc_trim(0)


def die_with(parent: int) -> None:
    """End this process when the thread of its parent that began it ends, even by a kill; only Linux can."""
    at_death_of_parent = 1  # PR_SET_PDEATHSIG
    with suppress(OSError, TypeError, AttributeError):
        ctypes.CDLL(None).prctl(at_death_of_parent, signal.SIGKILL)
        if os.getppid() != parent:  # it has gone already
            os.kill(os.getpid(), signal.SIGKILL)
