"""Pretraining jobs: each family is trained by a child process that runs the command printed in the report."""

import shlex
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from polyseme.comparison.config import TrainingRun
from polyseme.system.hardware import peak_memory
from polyseme.system.processes import last_log_line, start_child
from polyseme.system.signals import ShutdownRequest
from polyseme.training.recipes.recipe import RECIPE

_POLL_SECONDS = 0.5


@dataclass(frozen=True, kw_only=True)
class Job:
    """A training in a process of its own."""

    run: TrainingRun
    arguments: Sequence[str]  # of the command line
    folder: Path
    log: Path

    @property
    def command(self) -> str:
        """The command that repeats the training."""
        return shlex.join(["polyseme", *self.arguments])

    @property
    def resume_arguments(self) -> Sequence[str]:
        """The arguments that start the training or resume it, with the recipe and number of steps that it has."""
        started = ["pretrain", self.run.family, "--out", str(self.folder)]
        return [*(started if (self.folder / RECIPE).exists() else self.arguments), "--resume"]


@dataclass(kw_only=True, eq=False)
class JobProcess:
    """The child process of a job."""

    job: Job
    process: subprocess.Popen[str]
    peak_memory_bytes: int = 0
    finished: bool = False
    error: str = ""  # one line, if it failed

    def poll(self) -> None:
        """Check whether the process has finished."""
        self.peak_memory_bytes = max(self.peak_memory_bytes, peak_memory(self.process.pid))
        code = self.process.poll()
        self.finished = code is not None
        if code == -signal.SIGKILL:
            self.error = "the process was killed, perhaps for lack of memory"
        elif code:
            self.error = last_log_line(self.job.log)[:300] or f"the process exited with status {code}"


def run_jobs(jobs: Sequence[Job], shutdown: ShutdownRequest) -> Iterator[JobProcess]:
    """Run jobs in parallel, and yield them again and again until they have finished.

    A shutdown request is passed on to all of them, so that they save checkpoints.
    """
    running: list[JobProcess] = []
    stopping = False
    try:
        for job in jobs:
            job.log.parent.mkdir(parents=True, exist_ok=True)
            process = start_child("polyseme.__main__:main", *job.resume_arguments, log=job.log)
            running.append(JobProcess(job=job, process=process))
        while running:
            if shutdown.signal and not stopping:
                stopping = True
                for child in running:
                    child.process.send_signal(signal.SIGTERM)
            for child in list(running):
                child.poll()
                if child.finished:
                    running.remove(child)
                yield child
            if running:
                time.sleep(_POLL_SECONDS)
    finally:
        for child in running:  # no child may outlive an error here
            with suppress(ProcessLookupError):
                child.process.kill()
            child.process.wait()
