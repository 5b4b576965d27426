"""Base class of the trainers of static embeddings, which update arrays in compiled kernels instead of by autograd."""

import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from polyseme.arrays import Flags, Floats, Ids, Integers
from polyseme.errors import DataError, TrainingError
from polyseme.learner import LearnerState, Step, Values
from polyseme.objectives.sources import TokenSource
from polyseme.step_schedule import StepSchedule

_BLOCK = 1 << 22  # tokens counted at once


def token_counts(tokens: Integers, vocab_size: int) -> Ids:
    """The frequency of each id, (V,)."""
    counts = np.zeros(vocab_size, np.int64)
    for start in range(0, len(tokens), _BLOCK):
        counts += np.bincount(tokens[start : start + _BLOCK], minlength=vocab_size)
    return counts


class Subwords(NamedTuple):
    """The character n-grams of words, hashed into buckets, and the vectors of these."""

    vectors: Floats  # (buckets, D)
    buckets: Integers  # of all n-grams, word by word
    starts: Integers  # (V + 1,), of each word


@dataclass(frozen=True, kw_only=True)
class TrainingInputs:
    """The arguments of a static trainer."""

    vectors: Floats  # (V, D), written by the trainer
    subwords: Subwords | None = None  # fastText's; their vectors are written as well
    is_word: Flags  # (V,), false for special tokens
    source: TokenSource  # the corpus and the number of tokens per step
    schedule: StepSchedule
    learning_rate: float
    seed: int
    num_threads: int

    @property
    def tokens_per_step(self) -> int:
        return self.source.num_rows * self.source.length

    def word_counts(self) -> Ids:
        """Corpus frequency of each word, (V,); 0 for special tokens."""
        counts = token_counts(self.source.store.tokens, len(self.vectors))
        counts[~self.is_word] = 0
        if not counts.any():
            raise DataError("no word of the corpus is in the vocabulary; use more text or a lower tokenizer.min_count")
        return counts


class StaticTrainer:
    """A `Learner` that implements everything but the update: subclasses add `train_step` and their `arrays`."""

    def __init__(self, config: Any, inputs: TrainingInputs) -> None:
        self.config = config
        self.inputs = inputs
        self.schedule = inputs.schedule
        self.steps_done = 0
        self.seconds = self.processor_seconds = 0.0
        self.arrays: dict[str, NDArray[Any]] = {"vectors": inputs.vectors}  # everything a checkpoint must hold

    @property
    def total_steps(self) -> int:
        return self.schedule.total_steps

    def update_schedule(self, schedule: StepSchedule) -> None:
        """Continue with a schedule that has more milestones."""
        self.schedule = schedule

    def train_step(self) -> dict[str, float]:
        """Take the next step and return its losses."""
        raise NotImplementedError

    @property
    def learning_rate(self) -> float:
        """The learning rate of the next step."""
        return self.inputs.learning_rate

    def steps(self) -> Generator[Step, None, None]:
        """Train, one step per iteration."""
        while self.steps_done < self.total_steps:
            started, processor_started = time.perf_counter(), time.process_time()
            learning_rate = self.learning_rate
            losses = self.train_step()
            self.steps_done += 1
            self.seconds += time.perf_counter() - started
            self.processor_seconds += time.process_time() - processor_started
            if not all(map(np.isfinite, losses.values())):
                self._raise_diverged()
            yield Step(
                number=self.steps_done,
                tokens=self.steps_done * self.inputs.tokens_per_step,
                seconds=self.seconds,
                processor_seconds=self.processor_seconds,
                learning_rate=learning_rate,
                losses=losses,
            )

    def evaluate(self, source: TokenSource, *, num_batches: int) -> dict[str, float]:
        """Validation losses; none where the objective has no meaning on other text."""
        return {}

    def on_validation_loss(self, dev_loss: float) -> None:
        """Do nothing: no static trainer depends on the validation loss."""

    def finalize(self) -> None:
        """Do nothing: the vectors are final after the last step."""

    def extra_files(self, token: Callable[[int], str]) -> dict[str, str]:
        """Files to write beside the vectors, by name; `token` maps an id to its word."""
        return {}

    def state(self) -> LearnerState:
        """The state of a checkpoint: arrays and counters; random numbers depend on seed and step only."""
        if not all(np.isfinite(array).all() for array in self.arrays.values()):
            self._raise_diverged()
        values: Values = {
            "steps_done": self.steps_done,
            "tokens": self.steps_done * self.inputs.tokens_per_step,
            "seconds": self.seconds,
            "processor_seconds": self.processor_seconds,
        }
        tensors = {name: torch.from_numpy(array) for name, array in self.arrays.items()}
        return LearnerState(tensors={"weights": tensors}, values=values)

    def restore(self, state: LearnerState) -> None:
        """Load the state of a checkpoint."""
        for name, array in self.arrays.items():
            array[...] = state.tensors["weights"][name].numpy()
        self.steps_done = int(state.values["steps_done"])
        self.seconds = float(state.values["seconds"])
        self.processor_seconds = float(state.values.get("processor_seconds", 0.0))

    def _raise_diverged(self) -> None:
        raise TrainingError(
            f"training diverged: the embeddings are not finite after step {self.steps_done}; the last checkpoint is "
            f"unaffected: set training.learning_rate below {self.inputs.learning_rate:g}"
        )
