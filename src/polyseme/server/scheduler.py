"""Dynamic batching: one thread runs all models, so that the event loop is always free.

Requests that can share a batch (same model, endpoint and options) wait in one queue. A batch takes the item that has
waited longest and items of similar length, up to a number of tokens; the rest of a large request then waits behind the
others. A single request runs at once; if the last batch of its queue held several requests, the next one waits up to
two milliseconds for as many. Between two batches, every text that is being generated is extended by one token.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from polyseme.errors import PolysemeError
from polyseme.inference.batching import BATCH_TOKENS
from polyseme.server.continuous_batching import GenerationScheduler, call_in_loop
from polyseme.server.errors import ApiError
from polyseme.server.metrics import Metrics

logger = logging.getLogger(__name__)

_MAX_WAIT = 0.002  # seconds that a request waits for others
_MAX_ITEMS = 512  # of a batch, however short

RunBatch = Callable[[Sequence[Any]], Iterable[Any]]


@dataclass(eq=False)
class BatchJob:
    """The items of a request; they may be spread over several batches."""

    run: RunBatch
    items: Sequence[Any]
    sizes: Sequence[int]
    future: asyncio.Future[list[Any]]
    arrived: float
    results: list[Any] = field(default_factory=list)
    num_taken: int = 0  # items that are in a batch or done
    num_left: int = 0  # items that are not done


class BatchScheduler:
    """The thread that runs all models, and the queues of items that wait for it."""

    def __init__(self, *, num_threads: int, metrics: Metrics) -> None:
        self.queues: dict[Hashable, list[BatchJob]] = {}
        self.generators: list[GenerationScheduler] = []
        self.num_threads = num_threads
        self.metrics = metrics
        self._changed = threading.Condition()
        self._generating = False
        self._stopped = False
        self._last_num_jobs: dict[Hashable, int] = {}  # in the last batch of each queue, where there were several
        self._thread = threading.Thread(target=self._work, name="models", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop after the current batch; waiting items are dropped."""
        with self._changed:
            self._stopped = True
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join()

    def wake(self) -> None:
        """Report that a generator has new texts."""
        with self._changed:
            self._generating = True
            self._changed.notify()

    @property
    def num_waiting(self) -> int:
        """Requests that wait for a batch."""
        return sum(map(len, list(self.queues.values())))

    async def submit(self, queue: Hashable, run: RunBatch, items: Sequence[Any], sizes: Sequence[int]) -> list[Any]:
        """Run a function on items, in batches with others of the same queue; `sizes` are their numbers of tokens."""
        future: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
        job = BatchJob(run, items, sizes, future, time.monotonic(), [None] * len(items), num_left=len(items))
        with self._changed:
            self.queues.setdefault(queue, []).append(job)
            self._changed.notify()
        return await future  # a disconnect cancels it

    def _work(self) -> None:
        torch.set_num_threads(self.num_threads)
        while True:
            with self._changed:
                while not (self._stopped or self._generating or self.queues):
                    self._changed.wait()
                if self._stopped:
                    break
                queue = self._next_queue()
                if queue is not None and not self._generating:
                    self._wait_for_others(queue)
                batch = self._take_batch(queue) if queue is not None else []
                generating, self._generating = self._generating, False
            if batch:
                self._run_batch(batch)
            if generating:
                unfinished = [_step(generator) for generator in self.generators]
                with self._changed:
                    self._generating |= any(unfinished)
        for generator in self.generators:
            generator.stop("shutdown")

    def _next_queue(self) -> Hashable | None:
        """The queue whose first job has waited longest; drops cancelled jobs and empty queues."""
        for queue, jobs in list(self.queues.items()):
            jobs[:] = [job for job in jobs if not job.future.done()]
            if not jobs:
                del self.queues[queue]
        return min(self.queues, key=lambda queue: self.queues[queue][0].arrived, default=None)

    def _wait_for_others(self, queue: Hashable) -> None:
        jobs, num_expected = self.queues[queue], self._last_num_jobs.get(queue, 1)
        until = jobs[0].arrived + _MAX_WAIT
        while len(jobs) < num_expected and not self._stopped and not self._generating:
            rest = until - time.monotonic()
            if rest <= 0 or sum(sum(job.sizes) for job in jobs) >= BATCH_TOKENS:
                break
            self._changed.wait(rest)

    def _take_batch(self, queue: Hashable) -> list[tuple[BatchJob, list[int]]]:
        """Take the items of a batch out of a queue: jobs with the indices of their items."""
        jobs = self.queues[queue]
        waiting = _untaken_items(jobs)
        if sum(job.sizes[index] for job, index in waiting) > BATCH_TOKENS:
            first, index = waiting[0]
            size = first.sizes[index]
            # The items of a job are taken in order, so jobs are sorted by the length of their next item.
            order = sorted(jobs, key=lambda job: (job is not first, abs(job.sizes[job.num_taken] - size)))
            waiting = _untaken_items(order)
        taken: dict[BatchJob, list[int]] = {}
        num_tokens_left = BATCH_TOKENS
        for num_items, (job, index) in enumerate(waiting):
            if num_items and (job.sizes[index] > num_tokens_left or num_items >= _MAX_ITEMS):
                break
            taken.setdefault(job, []).append(index)
            job.num_taken += 1
            num_tokens_left -= job.sizes[index]
        if len(taken) > 1:
            self._last_num_jobs[queue] = len(taken)
        else:
            self._last_num_jobs.pop(queue, None)  # queues come and go
        rest = [job for job in jobs if job.num_taken < len(job.items)]
        for job in rest:
            if job in taken:  # the rest of a large request waits anew, so that others overtake it
                job.arrived = time.monotonic()
        jobs[:] = sorted(rest, key=lambda job: job.arrived)
        if not jobs:
            del self.queues[queue]
        return list(taken.items())

    def _run_batch(self, batch: list[tuple[BatchJob, list[int]]]) -> None:
        started = time.monotonic()
        items = [job.items[index] for job, indices in batch for index in indices]
        try:
            results = iter(batch[0][0].run(items))
            for job, indices in batch:
                for index in indices:
                    job.results[index] = next(results)
                job.num_left -= len(indices)
        except BaseException as error:
            if len(batch) > 1 and isinstance(error, Exception):  # run each job alone to find the one that fails
                for one in batch:
                    self._run_batch([one])
                return
            if not isinstance(error, PolysemeError | ApiError):
                logger.error("a request failed", exc_info=error)
            _deliver([batch[0][0]], error if isinstance(error, Exception) else RuntimeError(str(error)))
            return
        num_tokens = sum(job.sizes[index] for job, indices in batch for index in indices)
        self.metrics.observe_batch(len(items), num_tokens, time.monotonic() - started)
        _deliver([job for job, _ in batch if not job.num_left])


def _untaken_items(jobs: Sequence[BatchJob]) -> list[tuple[BatchJob, int]]:
    return [(job, index) for job in jobs for index in range(job.num_taken, len(job.items))]


def _step(generator: GenerationScheduler) -> bool:
    """One step of a generator; an error ends only its own texts."""
    try:
        return generator.step()
    except Exception as error:
        logger.error("text generation failed", exc_info=error)
        generator.stop("error")
        return False


def _deliver(jobs: Sequence[BatchJob], error: Exception | None = None) -> None:
    """Set the results of jobs, or their error, in the event loop, all at once."""

    def set_results() -> None:
        for future, results in [(job.future, job.results) for job in jobs if not job.future.done()]:
            if error:
                future.set_exception(error)
            else:
                future.set_result(results)

    if jobs:
        call_in_loop(jobs[0].future.get_loop(), set_results)
