"""A training run from start to finish: the part that pretraining and fine-tuning have in common."""

import copy
import dataclasses
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
from polyseme.errors import CheckpointError, ConfigError, PolysemeError
from polyseme.learner import Learner, Step
from polyseme.models.base import Encoder
from polyseme.objectives.joint import JointObjective
from polyseme.system.io_errors import writable
from polyseme.tokenization.tokenizer import Tokenizer
from polyseme.training.optimization.budget import Budget
from polyseme.training.optimization.optimizer_config import TrainingConfig
from polyseme.training.recipes.recipe import RECIPE, SavedRecipe
from polyseme.training.resources import StepTime, measure_step_time
from polyseme.training.storage.checkpoint import checkpoint_shapes
from polyseme.training.storage.history import HISTORY
from polyseme.training.storage.manifest import verify_directory, write_manifest
from polyseme.training.storage.model_dir import outline_encoder
from polyseme.training.storage.run_dir import CHECKPOINTS, SAVED_TOKENIZER, RunDirectory

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
    run: RunDirectory  # unless the steps are only timed
    by_gradient = True  # whether the model is trained by gradient descent
    can_be_extended = True  # whether steps can be added to a run that has started

    def __init__(self, recipe: SavedRecipe, tokenizer: Tokenizer) -> None:
        if recipe.training.threads:
            torch.set_num_threads(recipe.training.threads)
        self.recipe: Any = recipe
        self.tokenizer = tokenizer
        self.resumed_at = 0  # step
        self.previous_budget = ""  # if it has another one since it was resumed
        self.command = ""  # that does the same, quoted in the model card

    @classmethod
    @abstractmethod
    def rebuild(cls, folder: Path, recipe: Any, watch: Watch) -> Self:
        """Rebuild the session of a run directory as it was at step 0."""

    @classmethod
    def resume(cls, out: Path, *, budget: str = "", watch: Watch = nullcontext) -> Self:
        """Resume the run in a directory from its last valid checkpoint.

        With another budget, all schedules (learning rate, sequence length, masking) are those of a run with this budget
        from the checkpoint on. A learning rate that had decayed rises again, and the result differs from a run that had
        this budget from the start. The recipe is changed before training continues, so an interrupted run resumes with
        the new budget; the model of a finished run remains until the new one is written.
        """
        recipe = cls.recipe_class.load(out)
        run = RunDirectory.open(out, recipe)
        try:
            verify_directory(out, names=(RECIPE, *SAVED_TOKENIZER), remedy="restore it, or start a new run elsewhere")
            _check_sizes(out, recipe)
            session = cls.rebuild(out, recipe, watch)
            if budget:
                session._change_budget(run, budget)
            session._restore(run)
        except BaseException:
            run.close()
            raise
        return session

    def _change_budget(self, run: RunDirectory, text: str) -> None:
        """Set the number of steps to that of another budget; the schedules change at the last checkpoint."""
        config, folder = self.recipe.training, run.folder
        before, after = Budget.parse(config.budget), Budget.parse(text)
        if not config.step_schedule.is_decided:
            raise ConfigError(
                f"{folder} adapts its number of steps to training.processor_seconds; omit --budget until it has "
                "finished"
            )
        steps = self._steps_of_budget(after)
        if steps is None and before.unit == "seconds":
            steps = max(1, round(self.total_steps * after.amount / before.amount))
        if steps is None:
            raise ConfigError(
                f"{folder} has a budget of {config.budget}, which is not a time; give the new --budget in steps, "
                "tokens or epochs"
            )
        done = run.saved_step()
        if steps < done:
            raise ConfigError(
                f"{folder} has already been trained for {done:,} steps, more than --budget {text} ({steps:,} steps); "
                "give a longer budget, or omit it"
            )
        if steps == self.total_steps:
            return
        if not self.can_be_extended:
            raise ConfigError(
                f"{folder} depends on its number of steps from the start; omit --budget to resume it, or choose "
                "another --out"
            )
        config = config.replace(budget=text, steps=steps, extended_at=done, processor_seconds=0.0, milestones=())
        self.previous_budget = self.recipe.training.budget
        self.recipe = dataclasses.replace(self.recipe, training=config)
        run.update_recipe(self.recipe)

    @abstractmethod
    def _steps_of_budget(self, budget: Budget) -> int | None:
        """Convert a budget to a number of steps; None for a time."""

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
    def total_steps(self) -> int:
        """Number of steps of the whole run, as far as it is decided."""
        return int(self.recipe.training.step_schedule.total_steps)

    @property
    def folder(self) -> Path:
        """The run directory."""
        return self.run.folder

    def steps(self) -> Iterator[Progress]:
        """Train step by step, with validation, history and checkpoints on the way."""
        run, learner = self.run, self.learner
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
        with closing(self.run) as run:
            return run.save(self.learner, self.learner.steps_done)

    def finish(self) -> Path:
        """Write the model directory, and return it."""
        with closing(self.run) as run, writable(run.folder, "free some space and --resume", CheckpointError):
            write_manifest(run.folder, [*self._write_model(run.folder), HISTORY])
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
        config = self.recipe.training
        return int(config.evaluate_every or -(-self.total_steps // config.num_evaluations))

    def _validates_after(self, number: int) -> bool:
        return number % self.evaluate_every == 0

    @abstractmethod
    def _validate(self, *, full: bool) -> dict[str, float] | None:
        """Evaluate on dev data, and note the result; None without dev data."""

    @abstractmethod
    def _selection_loss(self, dev: dict[str, float]) -> float:
        """The number by which the best checkpoint is selected; lower is better."""

    @abstractmethod
    def _write_model(self, folder: Path) -> Iterable[str]:
        """Write the model and its card; return the names of the files that the manifest covers."""

    def measure_step_time(
        self, seconds: float, *, clock: Callable[[], float] = time.perf_counter, num_steps: int = 0
    ) -> StepTime:
        """Time training steps on a copy of the model (see `resources.measure_step_time`)."""
        copied = copy.deepcopy((self.encoder, self.objective))

        def build(number: int) -> Learner:
            return self._build_learner(self.recipe.training.replace(steps=number), *copied)

        if not self.by_gradient:  # kernels are compiled once per machine; no budget should pay for that
            next(iter(build(1).steps()))
        return measure_step_time(build, seconds=seconds, clock=clock, num_steps=num_steps)


def _check_sizes(folder: Path, recipe: SavedRecipe) -> None:
    """Raise an error, before any weight is allocated, if the model of a recipe is larger than the saved one."""
    shapes = checkpoint_shapes(folder / CHECKPOINTS)
    try:
        if shapes is not None:
            outline_encoder(recipe.family, recipe.model, shapes)
    except ConfigError as error:
        raise CheckpointError(
            f"{folder / RECIPE} does not fit the checkpoints of the run ({error}); restore it, or start a new run in "
            "another directory"
        ) from None
