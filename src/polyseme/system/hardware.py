"""Memory, processor and allocator of this computer."""

import ctypes
import os
import platform
from contextlib import suppress
from pathlib import Path


def available_memory() -> int:
    """Free memory in bytes: of the machine, or of the container if that is less."""
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
    """The peak resident memory of a process in bytes since it started its program; 0 if the system does not record it.

    The peak that `os.wait4` returns includes the memory of the parent at the fork.
    """
    try:
        fields = dict(line.split(":", 1) for line in Path(f"/proc/{process}/status").read_text().splitlines())
        return int(fields["VmHWM"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return 0


def num_cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def is_large_model(num_parameters: int) -> bool:
    """Whether the operations of a model are long enough to be worth splitting between cores (measured)."""
    return num_parameters > 20_000_000


def processor_name() -> str:
    """The name of the processor."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def keep_freed_memory() -> None:
    """Keep freed memory in this process, so that training steps reuse it.

    Every step frees and allocates the same large tensors, and the kernel zeroes each new page: up to a third of the
    step time. Call this as early as possible. The process does not shrink again. Without glibc this does nothing.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, TypeError, AttributeError):
        return
    no_maps, no_trimming = (-4, 0), (-1, -1)  # M_MMAP_MAX, M_TRIM_THRESHOLD
    for setting, value in (no_maps, no_trimming):
        mallopt(setting, value)


def release_freed_memory() -> None:
    """Return freed memory to the system, after work that needed more of it than what follows."""
    with suppress(OSError, TypeError, AttributeError):  # as above
        ctypes.CDLL(None).malloc_trim(0)
