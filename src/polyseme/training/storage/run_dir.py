"""A run directory: recipe, history and checkpoints of a training run."""

import json
import logging
import os
import shutil
import time
from pathlib import Path
from typing import Any, Self

from filelock import BaseFileLock, FileLock, Timeout

from polyseme.errors import CheckpointError
from polyseme.learner import Learner, LearnerState, Step
from polyseme.system.atomic_io import check_new_folder, remove_partial_files, write_file
from polyseme.system.io_errors import writable
from polyseme.tokenization.tokenizer import Tokenizer
from polyseme.training.recipes.recipe import RECIPE, SavedRecipe
from polyseme.training.storage.checkpoint import (
    Validation,
    find_best_checkpoint,
    fingerprint,
    load_checkpoint,
    save_checkpoint,
)
from polyseme.training.storage.history import HISTORY, read_history, tokens_per_second
from polyseme.training.storage.manifest import MANIFEST, FileRecord, remove_record, rewrite_file, write_manifest

logger = logging.getLogger(__name__)

CHECKPOINTS, LOCK = "checkpoints", "run.lock"
SAVED_TOKENIZER = ("tokenizer.json", "tokenizer_config.json")
_SAVE_SECONDS = 60
_NUM_RECORDS = 200  # rows of a history, about


class RunDirectory:
    """An open run directory; it is locked until it is closed or the process ends, however that happens."""

    def __init__(self, folder: Path, recipe: SavedRecipe, lock: BaseFileLock) -> None:
        self.folder = folder
        self._set_recipe(recipe)
        self.validations: list[Validation] = []
        self._lock = lock
        self._saved_at = time.monotonic()
        self._saved_step = -1
        self._losses: dict[str, list[float]] = {}  # since the last record
        self._last = (0, 0.0)  # tokens and seconds at the last record

    def _set_recipe(self, recipe: SavedRecipe) -> None:
        self.recipe = recipe
        self.fingerprint = fingerprint(data=recipe.data.fingerprint, recipe=recipe.digest())

    @classmethod
    def create(cls, folder: Path, recipe: SavedRecipe, tokenizer: Tokenizer, *, first: Learner | None = None) -> Self:
        """Create a run in a new or empty directory.

        The recipe is written last, so that its presence marks a run. With `first`, a learner whose weights do not
        follow from the seed, a checkpoint of step 0 is written too.
        """
        check_unused(folder)
        with writable(folder, "choose another --out", CheckpointError):
            folder.mkdir(parents=True, exist_ok=True)
        lock = lock_folder(folder)
        try:
            with writable(folder, "choose another --out", CheckpointError):
                remove_partial_files(folder)
                shutil.rmtree(folder / CHECKPOINTS, ignore_errors=True)
                tokenizer.save(folder, max_length=recipe.model.max_length)
                run = cls(folder, recipe, lock)
                if first is not None:
                    save_checkpoint(folder / CHECKPOINTS, first.state(), step=0, fingerprint=run.fingerprint)
                recipe.save(folder)
                write_manifest(folder, [*SAVED_TOKENIZER, RECIPE])
        except CheckpointError:
            lock.release()
            raise
        return run

    @classmethod
    def open(cls, folder: Path, recipe: SavedRecipe) -> Self:
        """Open the directory of an existing run."""
        lock = lock_folder(folder)
        remove_partial_files(folder)
        remove_partial_files(folder / CHECKPOINTS)
        return cls(folder, recipe, lock)

    def record(self, step: Step, *, dev: dict[str, float] | None = None) -> None:
        """Add a row to the history now and then, with the mean losses since the last one."""
        if not step.skipped:  # losses of skipped steps may not be finite
            for name, loss in step.losses.items():  # each step has the loss of one of several tasks
                self._losses.setdefault(name, []).append(loss)
        every = max(1, self.recipe.training.steps // _NUM_RECORDS)
        if dev is None and step.number % every and step.number != self.recipe.training.step_schedule.total_steps:
            return
        tokens, seconds = step.tokens - self._last[0], step.seconds - self._last[1]
        row: dict[str, Any] = {
            "step": step.number,
            "tokens": step.tokens,
            "seconds": round(step.seconds, 3),
            "processor_seconds": round(step.processor_seconds, 3),
            "tokens_per_second": tokens_per_second(tokens, seconds),
            "learning_rate": step.learning_rate,
            **{name: sum(losses) / len(losses) for name, losses in self._losses.items()},
        }
        if dev is not None:
            row["dev"] = dev
        try:
            with (self.folder / HISTORY).open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
        except OSError as error:
            logger.warning("step %d was not added to the history (%s); training continues", step.number, error.strerror)
        self._losses, self._last = {}, (step.tokens, step.seconds)

    def update_recipe(self, recipe: SavedRecipe) -> None:
        """Save decisions made during the run, before anything depends on them."""
        with writable(self.folder, "free some space and --resume", CheckpointError):
            rewrite_file(self.folder, RECIPE, recipe.to_toml())
        self._set_recipe(recipe)

    def due(self, step: Step) -> bool:
        """Whether it is time for a checkpoint."""
        every = self.recipe.training.save_every
        return step.number % every == 0 if every else time.monotonic() - self._saved_at > _SAVE_SECONDS

    def save(self, learner: Learner, step: int, *, dev_loss: float | None = None) -> bool:
        """Write a checkpoint; return False, with a warning, if it cannot be written."""
        self._saved_at = time.monotonic()
        if dev_loss is not None:
            self.validations.append(Validation(step=step, loss=dev_loss))
        if step == self._saved_step and dev_loss is None:
            return True
        folder = self.folder / CHECKPOINTS
        try:
            history = self.folder / HISTORY
            save_checkpoint(
                folder,
                learner.state(),
                step=step,
                fingerprint=self.fingerprint,
                dev_loss=dev_loss,
                validations=self.validations,
                history=FileRecord.of(history) if history.exists() else None,
            )
        except (OSError, CheckpointError) as error:
            remove_partial_files(folder)
            logger.warning("step %d was not saved (%s); the checkpoint before it is kept", step, error)
            return False
        self._saved_step = step
        return True

    def saved_step(self) -> int:
        """The step of the last valid checkpoint, 0 without any."""
        loaded = load_checkpoint(self.folder / CHECKPOINTS)
        return loaded[1].step if loaded else 0

    def restore(self, learner: Learner) -> int:
        """Load the last valid checkpoint into a learner; return its step, 0 without any."""
        loaded = load_checkpoint(self.folder / CHECKPOINTS)
        step = 0
        if loaded is not None:
            state, manifest = loaded
            step, before = manifest.step, manifest.fingerprint
            changed = {name: value for name, value in self.fingerprint.items() if before.get(name) != value}
            if step == self.recipe.training.extended_at:  # the recipe has another budget from here on
                changed.pop("recipe", None)
            if changed:
                was = ", ".join(f"{name} was {before.get(name)} and is {value}" for name, value in changed.items())
                logger.warning("%s: the resumed run will not be bit for bit the same", was)
            if manifest.history and not manifest.history.is_start_of(self.folder / HISTORY):
                logger.warning("%s has changed; only its valid rows are kept", self.folder / HISTORY)
            self._check_fit(learner.state(), state)
            learner.restore(state)
            self._saved_step, self.validations = step, [*manifest.validations]
            self._last = (int(state.values.get("tokens", 0)), float(state.values.get("seconds", 0.0)))
        elif self.recipe.training.base_model or getattr(self.recipe.model, "vectors", ""):
            raise CheckpointError(f"{self.folder} has no valid checkpoint; start a new run in another directory")
        remove_record(self.folder, HISTORY)
        rows = [row for row in read_history(self.folder) if row["step"] <= step]
        write_file(self.folder / HISTORY, "".join(json.dumps(row) + "\n" for row in rows))
        return step

    def check_best(self) -> None:
        """Raise an error if the checkpoint with the best validation was lost."""
        find_best_checkpoint(self.folder / CHECKPOINTS)

    def restore_best(self, learner: Learner) -> int:
        """Load the checkpoint with the best validation into a learner; return its step."""
        loaded = load_checkpoint(self.folder / CHECKPOINTS, best=True)
        if loaded is None:
            return learner.steps_done
        learner.restore(loaded[0])
        return loaded[1].step

    def _check_fit(self, built: LearnerState, saved: LearnerState) -> None:
        """Raise an error if a checkpoint is not of the model that the recipe describes."""
        built_shapes, saved_shapes = (
            {name: tuple(tensor.shape) for name, tensor in state.tensors["weights"].items()} for state in (built, saved)
        )
        wrong = [name for name, shape in built_shapes.items() if saved_shapes.get(name) != shape]
        wrong += [name for name in saved_shapes if name not in built_shapes]
        wrong += [name for name in built.values if name not in saved.values]
        if wrong:
            raise CheckpointError(
                f"{self.folder / RECIPE} does not fit the checkpoints of the run ({wrong[0]} differs); restore it, or "
                "start a new run in another directory"
            )

    def close(self) -> None:
        """Release the directory."""
        self._lock.release()


def check_unused(folder: Path) -> None:
    """Raise an error if a directory cannot be used for a new run."""
    if (folder / LOCK).exists():
        lock_folder(folder).release()
    if (folder / RECIPE).exists():
        raise CheckpointError(f"{folder} already has a run; continue it with --resume, or choose another --out")
    # Files that an interrupted start leaves; they are overwritten.
    partial = {LOCK, CHECKPOINTS, MANIFEST, *SAVED_TOKENIZER} if (folder / LOCK).exists() else set()
    check_new_folder(folder, ignored=partial)


def lock_folder(folder: Path, name: str = LOCK) -> BaseFileLock:
    """Lock a directory until the lock is released; the lock file holds the id of this process for the others."""
    path = folder / name
    lock = FileLock(path, thread_local=False)
    if not folder.exists():
        raise CheckpointError(f"{folder} does not exist; start the run without --resume")
    with writable(folder, "choose another --out", CheckpointError):
        try:
            lock.acquire(blocking=False)
        except Timeout:  # which is an OSError too
            owner = path.read_text(encoding="utf-8")[:20].strip()
            raise CheckpointError(
                f"{folder} is in use by process {owner}; wait for it or choose another --out"
            ) from None
    path.write_text(str(os.getpid()), encoding="utf-8")
    return lock
