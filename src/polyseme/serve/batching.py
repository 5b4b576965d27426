"""Requests gather into batches, and one thread works on them, so that the event loop is always free to listen.

Work that can be done together stands in one lane: the same model, the same call, the same options. What a batch takes
from a lane is the item that has waited longest and those of about its length, up to a number of tokens; what is left of
a large request then waits behind the others. A request alone is worked on at once; where the last batch had several,
the next waits a moment for as many. Between two batches, every text that is being written gets one token more.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import torch

from polyseme.errors import PolysemeError
from polyseme.reading import BATCH_TOKENS
from polyseme.serve.errors import CallError

logger = logging.getLogger(__name__)

_MOMENT = 0.002  # seconds that a request waits for others, at most
_MOST_ITEMS = 512  # of a batch, however short

Run = Callable[[Sequence[Any]], Sequence[Any]]


@dataclass(eq=False)
class Job:
    """A request's items, of which some may be done while others wait."""

    run: Run
    items: Sequence[Any]
    sizes: Sequence[int]
    future: asyncio.Future[list[Any]]
    arrived: float
    results: list[Any] = field(default_factory=list)
    taken: int = 0  # items that are in a batch or done
    num_left: int = 0  # items that are not done

    @property
    def left(self) -> bool:
        """Whether nobody waits for it any more."""
        return self.future.done()


class Writers(Protocol):
    """Texts that are being written."""

    def step(self) -> bool:
        """Write a token of each; whether there is more to do."""

    def stop(self, why: Literal["stopped", "failed"]) -> None:
        """Tell all who wait that nothing comes any more."""


class Observer(Protocol):
    """Who is told of what was done."""

    def batch(self, num_items: int, num_tokens: int, seconds: float) -> None: ...


class Worker:
    """The thread in which all models work."""

    def __init__(self, *, num_threads: int = 0, observer: Observer | None = None) -> None:
        self.lanes: dict[Hashable, list[Job]] = {}
        self.writers: list[Writers] = []
        self.observer = observer
        self.num_threads = num_threads
        self._changed = threading.Condition()
        self._writing = False
        self._over = False
        self._last: dict[Hashable, int] = {}  # requests of the last batch of each lane, if there were several
        self._thread = threading.Thread(target=self._work, name="models", daemon=True)

    def start(self) -> None:
        """Begin to work."""
        self._thread.start()

    def stop(self) -> None:
        """Stop after the batch at hand; what still waits is given up."""
        with self._changed:
            self._over = True
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join()

    def wake(self) -> None:
        """There is something to write."""
        with self._changed:
            self._writing = True
            self._changed.notify()

    @property
    def num_waiting(self) -> int:
        """Requests that wait for a batch."""
        return sum(map(len, list(self.lanes.values())))

    async def do(self, lane: Hashable, run: Run, items: Sequence[Any], sizes: Sequence[int]) -> list[Any]:
        """What `run` makes of items, in batches with those of others; each has about so many tokens."""
        future: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
        job = Job(run, items, sizes, future, time.monotonic(), [None] * len(items), num_left=len(items))
        with self._changed:
            self.lanes.setdefault(lane, []).append(job)
            self._changed.notify()
        return await future  # who leaves cancels it

    def _work(self) -> None:
        if self.num_threads:
            torch.set_num_threads(self.num_threads)
        while True:
            with self._changed:
                while not (self._over or self._writing or self.lanes):
                    self._changed.wait()
                if self._over:
                    break
                lane = self._next_lane()
                if lane is not None and not self._writing:
                    self._await_others(lane)
                taken = self._take(lane) if lane is not None else []
                writing, self._writing = self._writing, False
            if taken:
                self._run(taken)
            if writing:
                goes_on = [_step(writer) for writer in self.writers]
                with self._changed:
                    self._writing |= any(goes_on)
        for writer in self.writers:
            writer.stop("stopped")

    def _next_lane(self) -> Hashable | None:
        """The lane in which somebody has waited longest; those whose clients have all left are closed."""
        for lane, jobs in list(self.lanes.items()):
            jobs[:] = [job for job in jobs if not job.left]
            if not jobs:
                del self.lanes[lane]
        return min(self.lanes, key=lambda lane: self.lanes[lane][0].arrived, default=None)

    def _await_others(self, lane: Hashable) -> None:
        jobs, number = self.lanes[lane], self._last.get(lane, 1)
        until = jobs[0].arrived + _MOMENT
        while len(jobs) < number and not self._over and not self._writing:
            rest = until - time.monotonic()
            if rest <= 0 or sum(sum(job.sizes) for job in jobs) >= BATCH_TOKENS:
                break
            self._changed.wait(rest)

    def _take(self, lane: Hashable) -> list[tuple[Job, list[int]]]:
        """Items of a lane that make a batch, by request."""
        jobs = self.lanes[lane]
        waiting = [(job, place) for job in jobs for place in range(job.taken, len(job.items))]
        if len(waiting) > 1:
            job, place = waiting[0]
            if sum(job.sizes[place] for job, place in waiting) > BATCH_TOKENS:
                first = job.sizes[place]
                # Of a request, items are taken in their order; so what is near in length is a matter of requests.
                order = sorted(
                    jobs, key=lambda other: abs(other.sizes[other.taken] - first) if other is not job else -1
                )
                waiting = [(job, place) for job in order for place in range(job.taken, len(job.items))]
        taken: dict[int, tuple[Job, list[int]]] = {}
        room = BATCH_TOKENS
        for number, (job, place) in enumerate(waiting):
            if number and (job.sizes[place] > room or number >= _MOST_ITEMS):
                break
            taken.setdefault(id(job), (job, []))[1].append(place)
            job.taken += 1
            room -= job.sizes[place]
        if len(taken) > 1:
            self._last[lane] = len(taken)
        else:
            self._last.pop(lane, None)  # lanes come and go
        rest = [job for job in jobs if job.taken < len(job.items)]
        for job in rest:
            if id(job) in taken:  # what is left of a large request waits anew, so that others pass it
                job.arrived = time.monotonic()
        jobs[:] = sorted(rest, key=lambda job: job.arrived)
        if not jobs:
            del self.lanes[lane]
        return list(taken.values())

    def _run(self, taken: list[tuple[Job, list[int]]]) -> None:
        started = time.monotonic()
        items = [job.items[place] for job, places in taken for place in places]
        try:
            results = iter(taken[0][0].run(items))
            for job, places in taken:
                for place in places:
                    job.results[place] = next(results)
                job.num_left -= len(places)
        except BaseException as error:
            if len(taken) > 1 and isinstance(error, Exception):  # whose fault it is, each alone will tell
                for one in taken:
                    self._run([one])
                return
            if not isinstance(error, PolysemeError | CallError):
                logger.error("a request failed", exc_info=error)
            _finish([(taken[0][0].future, None, error)])
            return
        if self.observer:
            tokens = sum(job.sizes[place] for job, places in taken for place in places)
            self.observer.batch(len(items), tokens, time.monotonic() - started)
        _finish([(job.future, job.results, None) for job, _ in taken if not job.num_left])


def _step(writer: Writers) -> bool:
    """A step, which takes down nothing but what was written in it."""
    try:
        return writer.step()
    except Exception as error:
        logger.error("a text could not be written", exc_info=error)
        writer.stop("failed")
        return False


def _finish(done: Sequence[tuple[asyncio.Future[list[Any]], list[Any] | None, BaseException | None]]) -> None:
    """Hand results to the event loop, all at once."""

    def tell() -> None:
        for future, results, error in done:
            if future.done():
                continue
            if error is not None:
                future.set_exception(error if isinstance(error, Exception) else RuntimeError(str(error)))
            elif results is not None:
                future.set_result(results)

    if done:
        try:
            done[0][0].get_loop().call_soon_threadsafe(tell)
        except RuntimeError:  # the loop is closed, and nobody waits
            logger.debug("results came too late")
