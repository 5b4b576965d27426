"""Learning vectors of words without gradients of a graph: what all its ways share."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from polyseme.course import Course
from polyseme.errors import TrainingError
from polyseme.learning import LearnerState, Step, Values
from polyseme.objectives import Source
from polyseme.text.store import Store
from polyseme.text.utf16 import Flags

Floats = NDArray[np.float32]


@dataclass(frozen=True, kw_only=True)
class Task:
    """What a learner of vectors is given."""

    vectors: Floats  # (V, D), which it fills
    words: Flags  # (V,), the ids that are words: special tokens are not
    source: Source  # the text, and how much of it a step reads
    course: Course  # of the run
    rate: float
    seed: int
    threads: int

    @property
    def store(self) -> Store:
        return self.source.store

    @property
    def step_tokens(self) -> int:
        """Tokens that a step reads."""
        return self.source.num_rows * self.source.length

    def counts(self) -> NDArray[np.int64]:
        """How often each word stands in the text."""
        counts = np.zeros(len(self.vectors), np.int64)
        for start in range(0, self.store.num_tokens, 1 << 22):
            counts += np.bincount(self.store.tokens[start : start + (1 << 22)], minlength=len(counts))
        counts[~self.words] = 0
        return counts


class VectorLearner:
    """Counts steps, tokens and seconds; how vectors are learnt is in `learn` and in what `arrays` it moves."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.course = task.course
        self.done = 0
        self.seconds = self.processor_seconds = 0.0
        self.arrays: dict[str, NDArray[Any]] = {"vectors": task.vectors}

    @property
    def total(self) -> int:
        return self.course.total

    def follow(self, course: Course) -> None:
        """Go on by a course that has been decided further."""
        self.course = course

    def learn(self) -> dict[str, float]:
        """Do the step after those that are done, and say what it cost."""
        raise NotImplementedError

    @property
    def rate(self) -> float:
        """The learning rate of the next step."""
        return self.task.rate

    def steps(self) -> Iterator[Step]:
        """Learn, one step at a time."""
        while self.done < self.total:
            started, before, rate = time.perf_counter(), time.process_time(), self.rate
            losses = self.learn()
            self.done += 1
            self.seconds += time.perf_counter() - started
            self.processor_seconds += time.process_time() - before
            if not all(map(np.isfinite, losses.values())):
                self._diverged()
            tokens = self.done * self.task.step_tokens
            yield Step(
                number=self.done,
                tokens=tokens,
                seconds=self.seconds,
                processor_seconds=self.processor_seconds,
                rate=rate,
                losses=losses,
            )

    def evaluate(self, source: Source, *, num_batches: int) -> dict[str, float]:
        """Nothing, where there is nothing to measure on other text."""
        return {}

    def look(self, dev_loss: float) -> None:
        """Nothing depends on it."""

    def settle(self) -> None:
        """The vectors are as they are used."""

    def files(self, token: Callable[[int], str]) -> dict[str, str]:
        """Nothing, where the vectors are all there is."""
        return {}

    def state(self) -> LearnerState:
        """All that it moves, and where it stands; what is random depends on the seed and the step alone."""
        if not all(np.isfinite(array).all() for array in self.arrays.values()):
            self._diverged()
        values: Values = {
            "done": self.done,
            "tokens": self.done * self.task.step_tokens,
            "seconds": self.seconds,
            "processor_seconds": self.processor_seconds,
        }
        tensors = {name: torch.from_numpy(array) for name, array in self.arrays.items()}
        return LearnerState(tensors={"weights": tensors}, values=values)

    def restore(self, state: LearnerState) -> None:
        """Stand where that state was taken."""
        for name, array in self.arrays.items():
            array[...] = state.tensors["weights"][name].numpy()
        self.done = int(state.values["done"])
        self.seconds = float(state.values["seconds"])
        self.processor_seconds = float(state.values.get("processor_seconds", 0.0))

    def _diverged(self) -> None:
        raise TrainingError(
            f"the vectors grew beyond all numbers by step {self.done}; the last good checkpoint is kept: try a lower "
            f"plan.rate than {self.task.rate:g}"
        )
