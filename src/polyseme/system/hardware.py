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
        free.append(_read_kilobytes("/proc/meminfo", "MemAvailable"))
        limit = Path("/sys/fs/cgroup/memory.max").read_text().strip()
        if limit.isdigit():
            free.append(int(limit) - int(Path("/sys/fs/cgroup/memory.current").read_text()))
    except (OSError, KeyError):
        pass
    return max(0, min(free, default=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")))


def peak_memory(process: int) -> int:
    """The peak resident memory of a process in bytes since it started its program; 0 if the system does not record it.

    The peak that `os.wait4` returns includes the memory of the parent at the fork.
    """
    try:
        return _read_kilobytes(f"/proc/{process}/status", "VmHWM")
    except (OSError, KeyError, ValueError):
        return 0


def _read_kilobytes(path: str, field: str) -> int:
    """The value of a line `field: … kB`, in bytes."""
    fields = dict(line.split(":", 1) for line in Path(path).read_text().splitlines())
    return int(fields[field].split()[0]) * 1024


def num_cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def is_large_model(num_parameters: int) -> bool:
    """Whether the operations of a model are long enough to be worth splitting between cores (measured)."""
    return num_parameters > 20_000_000


def processor_name() -> str:
    """The name of the processor."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def keep_freed_memory() -> None:
    """Keep freed memory in this process, so that training steps reuse it.

    Every step frees and allocates the same large tensors, and the kernel zeroes each new page: up to a third of the
    step time. Call this as early as possible. The process does not shrink again.
    """
    with suppress(OSError, TypeError, AttributeError):  # without glibc
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(-4, 0)  # M_MMAP_MAX: allocate nothing by mmap
        mallopt(-1, -1)  # M_TRIM_THRESHOLD: never trim the heap


def release_freed_memory() -> None:
    """Return freed memory to the system, after work that needed more of it than what follows."""
    with suppress(OSError, TypeError, AttributeError):  # without glibc
        ctypes.CDLL(None).malloc_trim(0)
