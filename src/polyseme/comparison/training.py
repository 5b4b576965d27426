"""Each family is trained by a process of its own, by the command that a report prints for others to repeat."""

from __future__ import annotations

import shlex
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from polyseme.comparison import children
from polyseme.machine import peak_memory
from polyseme.train.run import read_history
from polyseme.train.signals import Interruption

_LOOK_SECONDS = 0.5
_CHILD = "from polyseme.__main__ import main; main()"


@dataclass(frozen=True, kw_only=True)
class Job:
    """A family to be trained."""

    name: str
    arguments: Sequence[str]  # of polyseme
    folder: Path
    log: Path

    @property
    def command(self) -> str:
        return shlex.join(["polyseme", *self.arguments])


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a training ended."""

    job: Job
    history: Sequence[dict[str, Any]]  # the rows of its run
    peak_bytes: int
    failure: str = ""  # one line, where it did not end well


@dataclass(frozen=True, kw_only=True)
class Going:
    """How far a training is."""

    job: Job
    history: Sequence[dict[str, Any]]  # the rows of its run so far


@dataclass(kw_only=True)
class _Child:
    job: Job
    process: subprocess.Popen[bytes]
    log: IO[bytes]
    peak_bytes: int = 0


def train(jobs: Sequence[Job], interruption: Interruption) -> Iterator[Going | Ended]:
    """Run jobs side by side to their ends; whoever interrupts stops all of them, each of which saves before."""
    children: list[_Child] = []
    stopped = False
    try:
        children.extend(map(_start, jobs))
        while children:
            if interruption.signal and not stopped:
                stopped = True
                for child in children:
                    child.process.send_signal(signal.SIGTERM)
            for child in list(children):
                ended = _look(child)
                if ended:
                    children.remove(child)
                    yield ended
                else:
                    yield Going(job=child.job, history=read_history(child.job.folder))
            if children:
                time.sleep(_LOOK_SECONDS)
    finally:
        for child in children:  # whatever happened here, none outlives us
            with suppress(ProcessLookupError):
                child.process.kill()
            child.process.wait()
            child.log.close()


def _start(job: Job) -> _Child:
    job.log.parent.mkdir(parents=True, exist_ok=True)
    log = job.log.open("ab")
    process = subprocess.Popen(
        children.command(_CHILD, *job.arguments, "--resume"),
        env=children.environment(),
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        start_new_session=True,  # Ctrl-C comes to us, and from us to them, once
    )
    return _Child(job=job, process=process, log=log)


def _look(child: _Child) -> Ended | None:
    child.peak_bytes = max(child.peak_bytes, peak_memory(child.process.pid))
    code = child.process.poll()
    if code is None:
        return None
    child.log.close()
    return Ended(
        job=child.job,
        history=read_history(child.job.folder),
        peak_bytes=child.peak_bytes,
        failure=_failure(child.job, code) if code else "",
    )


def _failure(job: Job, code: int) -> str:
    if code == -signal.SIGKILL:
        return "it was killed, perhaps because memory ran out"
    with suppress(OSError):
        lines = job.log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        if lines:
            return lines[-1].strip().removeprefix("polyseme: ")[:300]
    return f"it ended with code {code}"
