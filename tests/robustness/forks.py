"""Runs commands in forks of a process that has imported everything, and measures the time and memory of each."""

import ctypes
import importlib
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from pkgutil import resolve_name

from polyseme.system.processes import WorkerPool

_MOST_CPU_SECONDS, _MOST_SECONDS, _MOST_BYTES = 60, 180, 6 * 2**30  # a command that exceeds these is killed
_IMPORTED = (
    "tests.robustness.commands",
    "polyseme.comparison.runner",
    "polyseme.server.lifecycle",
    "scipy.linalg",
    "torch._dynamo",
)


@dataclass(frozen=True, kw_only=True)
class Ended:
    """A command that has ended; `code` is negative for a signal."""

    code: int
    out: str
    err: str
    cpu: float  # seconds, with child processes
    memory: int  # bytes at the peak, of the largest process


class ForkingProcess:
    """Calls functions of string arguments that return an exit code, given as "module:name", each in a fork."""

    def __init__(self, log):
        self._pool = WorkerPool(f"{__name__}:_build_handler", size=1, log=log)

    def run(self, target, *arguments):
        request = {"target": target, "arguments": list(map(str, arguments))}
        (answer,) = [answer for _, answer in self._pool.run([request]) if answer is not None]
        if isinstance(answer, Exception):
            raise answer
        return Ended(**answer)

    def close(self):
        self._pool.close()


def _build_handler():
    """The function that handles requests; what commands import, or torch within them, is imported first."""
    for module in _IMPORTED:
        importlib.import_module(module)
    importlib.import_module("torch").set_num_threads(1)
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # part of the fingerprint of a run
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    return _run_forked


def _run_forked(target, arguments):
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = os.fork()
        if not process:
            _run(target, arguments, out.fileno(), err.fileno())
        started = time.monotonic()
        while not (ended := os.wait4(process, os.WNOHANG))[0]:
            if time.monotonic() - started > _MOST_SECONDS:
                os.killpg(process, signal.SIGKILL)
            time.sleep(0.002)
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode("utf-8", "backslashreplace"))
    _, status, usage = ended
    return {
        "code": os.waitstatus_to_exitcode(status),
        "out": texts[0],
        "err": texts[1],
        "cpu": usage.ru_utime + usage.ru_stime,
        "memory": usage.ru_maxrss * 1024,
    }


def _run(target, arguments, out, err):
    """Run a function in the fork, and exit."""
    code = 70  # an error of the program
    try:
        os.setpgid(0, 0)
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        os.dup2(out, 1)
        os.dup2(err, 2)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w", buffering=1)  # noqa: SIM115
        resource.setrlimit(resource.RLIMIT_CPU, (_MOST_CPU_SECONDS, _MOST_CPU_SECONDS + 5))
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + _MOST_BYTES, used + _MOST_BYTES))
        code = resolve_name(target)(arguments)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
