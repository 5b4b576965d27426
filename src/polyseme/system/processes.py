"""Child processes that end with their parent, and pools of workers that answer requests as JSON lines."""

from __future__ import annotations

import ctypes
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from polyseme import errors
from polyseme.errors import PolysemeError
from polyseme.system.hardware import keep_freed_memory

PASSIVE_THREADS = {"OMP_WAIT_POLICY": "PASSIVE"}
"""Environment of processes whose time is measured: OpenMP threads that spin while waiting consume processor time."""

_START = "from polyseme.system.processes import run_child; run_child()"
_POLL_SECONDS = 0.5

Request = Mapping[str, Any]  # keyword arguments of a worker's handler


class WorkerError(PolysemeError):
    """A worker that was killed, or failed through an error of the program."""

    exit_code = 1


def start_child(target: str, *arguments: str, log: Path | None, pipes: bool = False) -> subprocess.Popen[str]:
    """Start a process that calls the function `target`, given as "module:name", with `arguments` in `sys.argv`.

    The child ends with the thread that started it, even if that is killed. It arranges this itself: code that runs
    between a fork and the start of a program can deadlock on a lock that another thread held. Ctrl-C reaches only the
    parent. Output goes to `log`, except that standard input and output are pipes with `pipes`.
    """
    with (log or Path(os.devnull)).open("ab") as output:
        return subprocess.Popen(
            [sys.executable, "-c", _START, str(os.getpid()), target, *arguments],
            env={**os.environ, **PASSIVE_THREADS},
            stdin=subprocess.PIPE if pipes else subprocess.DEVNULL,
            stdout=subprocess.PIPE if pipes else output,
            stderr=output,
            text=True,
            encoding="utf-8",
            start_new_session=True,
        )


def run_child() -> None:
    """Entry point of a child process; it is killed when the thread that started it ends (only Linux supports this)."""
    parent, target = int(sys.argv.pop(1)), sys.argv.pop(1)
    with suppress(OSError, TypeError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        if os.getppid() != parent:  # it has ended already
            os.kill(os.getpid(), signal.SIGKILL)
    resolve_name(target)()


def serve_requests() -> None:
    """Entry point of a worker: build the handler, then answer each line of standard input with one line."""
    keep_freed_memory()
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever libraries print must not be taken for an answer
    factory, *arguments = sys.argv[1:]
    handle: Callable[..., Any] = resolve_name(factory)(*arguments)
    for line in sys.stdin:
        try:
            answer = {"result": handle(**json.loads(line))}
        except Exception as error:
            answer = {"error": str(error), "kind": type(error).__name__}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def last_log_line(log: Path) -> str:
    """The last line of a log, where a failed process reports its error; empty if there is none."""
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    except OSError:
        return ""
    return lines[-1].strip().removeprefix("polyseme: ") if lines else ""


class WorkerPool:
    """Child processes that answer requests, each of them one at a time.

    `factory`, given as "module:name", is called in each child with `arguments`, and returns the function that handles
    requests. Workers keep running between calls of `run`; one that was killed is replaced.
    """

    def __init__(self, factory: str, *arguments: str, size: int, log: Path | None = None) -> None:
        self.workers: list[_Worker] = []  # all that were started
        self._command, self._size, self._log = (factory, *arguments), size, log
        self._idle: list[_Worker] = []
        self._lines: queue.SimpleQueue[tuple[_Worker, str]] = queue.SimpleQueue()

    def run(self, requests: Sequence[Request]) -> Generator[tuple[int, Any], None, None]:
        """Yield (number of the request, result or exception) in order, and (number, None) while that takes time.

        If the generator is closed early, the workers are killed, whatever they are doing.
        """
        waiting, running, answers = deque(range(len(requests))), dict[_Worker, int](), dict[int, Any]()
        try:
            for number in range(len(requests)):
                while number not in answers:
                    while waiting and len(running) < self._size:
                        worker = self._find_idle()
                        running[worker] = waiting.popleft()
                        worker.send(requests[running[worker]])
                    yield number, None
                    with suppress(queue.Empty):
                        worker, line = self._lines.get(timeout=_POLL_SECONDS)
                        if worker in running:
                            answers[running.pop(worker)] = self._decode(line)
                            self._idle += [worker] if line.endswith("\n") else []
                yield number, answers.pop(number)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Kill the workers."""
        for worker in self.workers:
            worker.close()
        self.workers.clear()
        self._idle.clear()

    def _find_idle(self) -> _Worker:
        while self._idle:
            worker = self._idle.pop()
            if worker.process.poll() is None:
                return worker
        self.workers.append(_Worker(self._command, self._log, self._lines))
        return self.workers[-1]

    def _decode(self, line: str) -> Any:
        """The result, or an exception; errors of the project keep their class."""
        if not line.endswith("\n"):
            last = last_log_line(self._log) if self._log else ""
            return WorkerError(f"the worker process died, perhaps for lack of memory{last and f' ({last:.200})'}")
        answer = json.loads(line)
        if "error" not in answer:
            return answer["result"]
        kind = getattr(errors, answer["kind"], None)
        return kind(answer["error"]) if kind else WorkerError(f"{answer['kind']}: {answer['error']}")


class _Worker:
    """A child process; a thread collects its answers."""

    def __init__(self, command: Sequence[str], log: Path | None, lines: queue.SimpleQueue[tuple[_Worker, str]]) -> None:
        self.process = start_child(f"{__name__}:serve_requests", *command, log=log, pipes=True)
        self._lines = lines
        self._thread = threading.Thread(target=self._collect, daemon=True)
        self._thread.start()

    def send(self, request: Request) -> None:
        assert self.process.stdin is not None
        with suppress(OSError):  # a dead worker is noticed by its missing answer
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.kill()
        self.process.wait()
        self._thread.join()
        with suppress(OSError):  # a request that was not sent
            self.process.stdin.close()

    def _collect(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                self._lines.put((self, line))
        self._lines.put((self, ""))
