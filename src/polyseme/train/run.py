"""A run directory: a model in the making, with its recipe, its history and its checkpoints."""

from __future__ import annotations

import fcntl
import json
import logging
import os
import shutil
import time
from pathlib import Path
from typing import IO, Any, Self

from polyseme.errors import CheckpointError
from polyseme.files import remove_leavings, write_file
from polyseme.learning import Learner, Step
from polyseme.text.tokenizer import Tokenizer
from polyseme.train.checkpoint import fingerprint, load_checkpoint, save_checkpoint
from polyseme.train.recipe import RECIPE, Saved

logger = logging.getLogger(__name__)

HISTORY, CHECKPOINTS, LOCK = "history.jsonl", "checkpoints", "run.lock"
TIMES = ("step", "tokens", "seconds", "processor_seconds", "tokens_per_second", "rate")  # of a row, beside its losses
_SAVE_SECONDS = 60
_NUM_RECORDS = 200


class Run:
    """Holds the directory locked while it is open; the lock goes with the process, however that ends."""

    def __init__(self, folder: Path, recipe: Saved, lock: IO[str]) -> None:
        self.folder = folder
        self.recipe = recipe
        self.fingerprint = fingerprint(data=recipe.data.fingerprint, recipe=recipe.digest())
        self._lock = lock
        self._saved_at = time.monotonic()
        self._saved_step = -1
        self._losses: dict[str, list[float]] = {}  # since the last record
        self._last = (0, 0.0)  # tokens and seconds at the last record

    @classmethod
    def create(cls, folder: Path, recipe: Saved, tokenizer: Tokenizer, *, first: Learner | None = None) -> Self:
        """Start in a new or empty directory; the recipe is written last, so that where there is one there is a run.

        What the seed alone does not tell, a learner brings as a checkpoint before the `first` step.
        """
        check_unused(folder)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CheckpointError(f"{folder} cannot be made ({error.strerror}); choose another --out") from None
        lock = lock_folder(folder)
        try:
            remove_leavings(folder)
            shutil.rmtree(folder / CHECKPOINTS, ignore_errors=True)
            tokenizer.save(folder)
            run = cls(folder, recipe, lock)
            if first is not None:
                save_checkpoint(folder / CHECKPOINTS, first.state(), step=0, fingerprint=run.fingerprint)
            recipe.save(folder)
        except OSError as error:
            lock.close()
            raise CheckpointError(f"{folder} cannot be written ({error.strerror}); choose another --out") from None
        except CheckpointError:
            lock.close()
            raise
        return run

    @classmethod
    def open(cls, folder: Path, recipe: Saved) -> Self:
        """Go on in the directory of an earlier start."""
        lock = lock_folder(folder)
        remove_leavings(folder)
        remove_leavings(folder / CHECKPOINTS)
        return cls(folder, recipe, lock)

    def record(self, step: Step, *, dev: dict[str, float] | None = None) -> None:
        """Keep a row of figures now and then: the means since the row before."""
        if not step.skipped:  # whose losses may not be numbers
            for name, loss in step.losses.items():  # of tasks that have turns, some
                self._losses.setdefault(name, []).append(loss)
        every = max(1, self.recipe.plan.steps // _NUM_RECORDS)
        if dev is None and step.number % every and step.number != self.recipe.plan.course.total:
            return
        tokens, seconds = step.tokens - self._last[0], step.seconds - self._last[1]
        row: dict[str, Any] = {
            "step": step.number,
            "tokens": step.tokens,
            "seconds": round(step.seconds, 3),
            "processor_seconds": round(step.processor_seconds, 3),
            "tokens_per_second": round(tokens / max(1e-9, seconds)),
            "rate": step.rate,
            **{name: sum(losses) / len(losses) for name, losses in self._losses.items()},
        }
        if dev is not None:
            row["dev"] = dev
        try:
            with (self.folder / HISTORY).open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
        except OSError as error:
            logger.warning("step %d was not recorded (%s); the run goes on", step.number, error.strerror)
        self._losses, self._last = {}, (step.tokens, step.seconds)

    def follow(self, recipe: Saved) -> None:
        """Keep what has been decided on the way, before anything depends on it."""
        try:
            recipe.save(self.folder)
        except OSError as error:
            raise CheckpointError(
                f"{self.folder} cannot be written ({error.strerror}); make room and --resume"
            ) from None
        self.recipe = recipe

    def due(self, step: Step) -> bool:
        """Whether it is time for a checkpoint."""
        every = self.recipe.plan.save_every
        if every:
            return step.number % every == 0
        return time.monotonic() - self._saved_at > _SAVE_SECONDS

    def save(self, learner: Learner, step: int, *, dev_loss: float | None = None) -> bool:
        """Write a checkpoint; a failed save is said and the run goes on with the one before."""
        self._saved_at = time.monotonic()
        if step == self._saved_step:
            return True
        folder = self.folder / CHECKPOINTS
        try:
            save_checkpoint(folder, learner.state(), step=step, fingerprint=self.fingerprint, dev_loss=dev_loss)
        except (OSError, CheckpointError) as error:
            remove_leavings(folder)
            logger.warning("step %d was not saved (%s); the checkpoint before it is kept", step, error)
            return False
        self._saved_step = step
        return True

    def restore(self, learner: Learner) -> int:
        """Put the learner where the newest good checkpoint was taken; 0 where there is none yet."""
        loaded = load_checkpoint(self.folder / CHECKPOINTS)
        step = 0
        if loaded is not None:
            state, manifest = loaded
            step = int(manifest["step"])
            self._compare(manifest["fingerprint"])
            learner.restore(state)
            self._saved_step = step
            self._last = (int(state.values.get("tokens", 0)), float(state.values.get("seconds", 0.0)))
        elif self.recipe.plan.base or getattr(self.recipe.model, "vectors", ""):
            raise CheckpointError(f"{self.folder} has no checkpoint that can be read; start anew elsewhere")
        self._forget_after(step)
        return step

    def restore_best(self, learner: Learner) -> int:
        """Put the learner where it did best on the dev text, and say at which step; where it stands if none is kept."""
        loaded = load_checkpoint(self.folder / CHECKPOINTS, best=True)
        if loaded is None:
            return learner.done
        learner.restore(loaded[0])
        return int(loaded[1]["step"])

    def _compare(self, before: dict[str, Any]) -> None:
        changed = [name for name, value in self.fingerprint.items() if before.get(name) != value]
        if changed:
            was = ", ".join(f"{name} was {before.get(name)} and is {self.fingerprint[name]}" for name in changed)
            logger.warning("%s: the run goes on, but not bit for bit as it would have", was)

    def _forget_after(self, step: int) -> None:
        rows = [row for row in read_history(self.folder) if row["step"] <= step]
        write_file(self.folder / HISTORY, "".join(json.dumps(row) + "\n" for row in rows))

    def close(self) -> None:
        """Let others have the directory."""
        self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *reason: object) -> None:
        self.close()


def check_unused(folder: Path) -> None:
    """Refuse a directory that holds something, before any work is done for it."""
    if folder.exists() and not folder.is_dir():
        raise CheckpointError(f"{folder} is a file; choose another --out")
    place = next(place for place in [folder, *folder.absolute().parents] if place.exists())
    if not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
        raise CheckpointError(f"{folder} cannot be made: {place} is no folder to write in; choose another --out")
    if (folder / LOCK).exists():
        lock_folder(folder).close()
    if (folder / RECIPE).exists():
        raise CheckpointError(f"{folder} holds a run already; go on with it by --resume, or choose another --out")
    # A start that was killed early leaves these; they are written again.
    leavings = {LOCK, CHECKPOINTS, "tokenizer.json", "tokenizer_config.json"} if (folder / LOCK).exists() else set()
    if folder.is_dir() and any(path.name not in leavings and path.suffix != ".part" for path in folder.iterdir()):
        raise CheckpointError(f"{folder} is not empty; choose another --out")


def read_history(folder: Path) -> list[dict[str, Any]]:
    """The rows of a run's history; one that a crash or a full disk cut short is left out."""
    rows = []
    try:
        lines = (folder / HISTORY).read_text(encoding="utf-8", errors="replace").split("\n")
    except FileNotFoundError:
        return []
    for line in lines:
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(row, dict) and {"step", "tokens", "seconds"} <= row.keys():
            rows.append(row)
    return rows


def lock_folder(folder: Path, name: str = LOCK) -> IO[str]:
    """Keep others out of a folder for as long as the file is open; the process that has it is named to them."""
    try:
        file = (folder / name).open("a+", encoding="utf-8")
    except FileNotFoundError:
        raise CheckpointError(f"{folder} does not exist; there is no run to go on with") from None
    except OSError as error:
        raise CheckpointError(f"{folder} cannot be written ({error.strerror}); choose another --out") from None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.seek(0)
        owner = file.read(20).strip()
        file.close()
        raise CheckpointError(f"{folder} is in use by process {owner}; wait for it or choose another --out") from None
    file.truncate(0)
    file.write(str(os.getpid()))
    file.flush()
    return file
