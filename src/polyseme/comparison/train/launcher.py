"""Pretraining jobs: each family is trained by a child process that runs the command printed in the report."""

import shlex
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from polyseme.system.hardware import peak_memory
from polyseme.system.processes import last_log_line, start_child
from polyseme.system.signals import ShutdownRequest
from polyseme.training.storage.history import read_history

_POLL_SECONDS = 0.5


@dataclass(frozen=True, kw_only=True)
class Job:
    """The training of a family."""

    name: str
    arguments: Sequence[str]  # of the command line
    folder: Path
    log: Path

    @property
    def command(self) -> str:
        """The command that repeats the training."""
        return shlex.join(["polyseme", *self.arguments])


@dataclass(frozen=True, kw_only=True)
class JobProgress:
    """A running job."""

    job: Job
    history: Sequence[dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class JobFinished:
    """A job that has ended."""

    job: Job
    history: Sequence[dict[str, Any]]
    peak_memory_bytes: int
    error: str = ""  # one line, if it failed


@dataclass(kw_only=True)
class _Child:
    job: Job
    process: subprocess.Popen[str]
    peak_memory_bytes: int = 0


def run_jobs(jobs: Sequence[Job], shutdown: ShutdownRequest) -> Iterator[JobProgress | JobFinished]:
    """Run jobs in parallel; a shutdown request is passed on to all of them, so that they save checkpoints."""
    children: list[_Child] = []
    stopping = False
    try:
        children.extend(map(_start, jobs))
        while children:
            if shutdown.signal and not stopping:
                stopping = True
                for child in children:
                    child.process.send_signal(signal.SIGTERM)
            for child in list(children):
                finished = _poll(child)
                if finished:
                    children.remove(child)
                    yield finished
                else:
                    yield JobProgress(job=child.job, history=read_history(child.job.folder))
            if children:
                time.sleep(_POLL_SECONDS)
    finally:
        for child in children:  # no child may outlive an error here
            with suppress(ProcessLookupError):
                child.process.kill()
            child.process.wait()


def _start(job: Job) -> _Child:
    job.log.parent.mkdir(parents=True, exist_ok=True)
    return _Child(job=job, process=start_child("polyseme.__main__:main", *job.arguments, "--resume", log=job.log))


def _poll(child: _Child) -> JobFinished | None:
    child.peak_memory_bytes = max(child.peak_memory_bytes, peak_memory(child.process.pid))
    code = child.process.poll()
    if code is None:
        return None
    return JobFinished(
        job=child.job,
        history=read_history(child.job.folder),
        peak_memory_bytes=child.peak_memory_bytes,
        error=_describe_failure(child.job, code) if code else "",
    )


def _describe_failure(job: Job, code: int) -> str:
    if code == -signal.SIGKILL:
        return "the process was killed, perhaps for lack of memory"
    return last_log_line(job.log)[:300] or f"the process exited with status {code}"
