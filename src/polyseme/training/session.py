"""A training run from start to finish: the part that pretraining and fine-tuning have in common."""

import copy
import functools
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import torch

from polyseme.corpora.corpus import Corpus
from polyseme.errors import CheckpointError, PolysemeError
from polyseme.learner import Learner, Step
from polyseme.models.base import Encoder
from polyseme.objectives.joint import JointObjective
from polyseme.system.io_errors import writable
from polyseme.tokenization.tokenizer import Tokenizer
from polyseme.training.optimization.optimizer_config import TrainingConfig
from polyseme.training.recipe import SavedRecipe
from polyseme.training.resources import NUM_EVALUATIONS, StepTime, measure_step_time
from polyseme.training.storage.model_dir import write_manifest
from polyseme.training.storage.run_dir import RunDirectory

Watch = Callable[[Corpus], AbstractContextManager[Any]]


@dataclass(frozen=True, kw_only=True)
class Progress:
    """A training step and the validation after it, if there was one."""

    step: Step
    dev: dict[str, float] | None = None


class TrainingSession(ABC):
    """A training run: `start` or `resume` it, iterate over `steps()`, then `finish()`, or `pause()` it on the way.

    A stopped run resumes bit for bit where it was: batches and dropout depend on the seed and the step number only.
    """

    recipe_class: ClassVar[type[SavedRecipe]]
    encoder: Encoder
    objective: JointObjective

    def __init__(self, recipe: SavedRecipe, tokenizer: Tokenizer) -> None:
        if recipe.training.threads:
            torch.set_num_threads(recipe.training.threads)
        self.recipe: Any = recipe
        self.tokenizer = tokenizer
        self.run: RunDirectory | None = None
        self.resumed_at = 0  # step

    @classmethod
    @abstractmethod
    def rebuild(cls, folder: Path, recipe: Any, watch: Watch) -> Self:
        """Rebuild the session of a run directory as it was at step 0."""

    @classmethod
    def resume(cls, out: Path, *, watch: Watch = nullcontext) -> Self:
        """Resume the run in a directory from its last valid checkpoint."""
        recipe = cls.recipe_class.load(out)
        run = RunDirectory.open(out, recipe)
        try:
            session = cls.rebuild(out, recipe, watch)
            session._restore(run)
        except BaseException:
            run.close()
            raise
        return session

    def _restore(self, run: RunDirectory) -> None:
        self.run = run
        self.resumed_at = run.restore(self.learner)

    @functools.cached_property
    def learner(self) -> Learner:
        """The learner, built once the number of steps is known."""
        return self._build_learner(self.recipe.training, self.encoder, self.objective)

    @abstractmethod
    def _build_learner(self, config: TrainingConfig, encoder: Encoder, objective: Any) -> Learner: ...

    @property
    def _by_gradient(self) -> bool:
        return True

    @property
    def total_steps(self) -> int:
        """Number of steps of the whole run, as far as it is decided."""
        return int(self.recipe.training.step_schedule.total_steps)

    @property
    def folder(self) -> Path:
        """The run directory."""
        return self._run.folder

    def steps(self) -> Iterator[Progress]:
        """Train step by step, with validation, history and checkpoints on the way."""
        run, learner = self._run, self.learner
        try:
            with closing(learner.steps()) as steps:
                for step in () if self.stopped_early else steps:
                    self._extend_schedule(step)
                    last = step.number == self.total_steps
                    dev = self._validate(full=last) if last or self._validates_after(step.number) else None
                    run.record(step, dev=dev)
                    if dev or last or run.due(step):
                        run.save(learner, step.number, dev_loss=self._selection_loss(dev) if dev else None)
                    yield Progress(step=step, dev=dev)
                    if dev and self.stopped_early:
                        return
        except PolysemeError:
            run.close()
            raise

    def pause(self) -> bool:
        """Save a checkpoint and release the directory; return whether it could be saved."""
        with self._run as run:
            return run.save(self.learner, self.learner.steps_done)

    def finish(self, command: str = "") -> Path:
        """Write the model directory, and return it; `command` is quoted in the model card."""
        with self._run as run, writable(run.folder, "free some space and --resume", CheckpointError):
            write_manifest(run.folder, self._write_model(run.folder, command))
        return run.folder

    @property
    def stopped_early(self) -> bool:
        """Whether training ended before the last step because validation scores stopped improving."""
        return False

    def _extend_schedule(self, step: Step) -> None:
        """Decide on further steps, where their number is adapted to a time budget."""
        return

    @property
    def evaluate_every(self) -> int:
        """Steps from one validation to the next."""
        return int(self.recipe.training.evaluate_every or -(-self.total_steps // NUM_EVALUATIONS))

    def _validates_after(self, number: int) -> bool:
        return number % self.evaluate_every == 0

    @abstractmethod
    def _validate(self, *, full: bool) -> dict[str, float] | None:
        """Evaluate on dev data, and note the result; None without dev data."""

    @abstractmethod
    def _selection_loss(self, dev: dict[str, float]) -> float:
        """The number by which the best checkpoint is selected; lower is better."""

    @abstractmethod
    def _write_model(self, folder: Path, command: str) -> Iterable[str]:
        """Write the model and its card; return the names of the files that the manifest covers."""

    def measure_step_time(
        self, seconds: float, *, clock: Callable[[], float] = time.perf_counter, num_steps: int = 0
    ) -> StepTime:
        """Time training steps on a copy of the model (see `resources.measure_step_time`)."""
        copied = copy.deepcopy((self.encoder, self.objective))

        def build(number: int) -> Learner:
            return self._build_learner(self.recipe.training.replace(steps=number), *copied)

        if not self._by_gradient:  # kernels are compiled once per machine; no budget should pay for that
            next(iter(build(1).steps()))
        return measure_step_time(build, seconds=seconds, clock=clock, num_steps=num_steps)

    @property
    def _run(self) -> RunDirectory:
        assert self.run is not None, "a session without a run directory cannot train"
        return self.run
