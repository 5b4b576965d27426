"""Short trial runs that predict what a budget of processor time is enough for, and their cache.

Processor time sums the work of all cores and does not depend on the load of the machine. A trial run predicts which
model size fits the budget and how many steps it allows; the run itself is then re-planned after each tenth of its time,
and the resulting milestones are cached along with the trials for each recipe, text and budget. So the same budget leads
to the same steps from the second time on.
"""

import dataclasses
import hashlib
import json
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
from pydantic import TypeAdapter
from pydantic_core import to_json
from torch import nn

from polyseme.models.base import Encoder
from polyseme.system.atomic_io import write_file
from polyseme.system.cache import REMEDY, cache_folder
from polyseme.system.hardware import processor_name
from polyseme.system.io_errors import writable
from polyseme.system.processes import WorkerError, WorkerPool
from polyseme.system.signals import ShutdownRequest
from polyseme.training.optimization.budget import Budget
from polyseme.training.pretraining import PretrainingSession
from polyseme.training.recipes.recipe import Recipe

FORMAT = 7  # version of the cache: increase it when the measurement changes

_SHARE = 0.1  # of the budget, for the trial
_MIN_SECONDS, _MAX_SECONDS = 4.0, 60.0
_UNLIMITED_STEPS = 1_000_000

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class TrialRun:
    """What the training of a recipe costs on this machine, in seconds of processor time."""

    step_seconds: float
    startup_seconds: float  # before the first step
    step_tokens: int
    corpus_tokens: int
    vocab_size: int
    parameters: int
    non_embedding_parameters: int
    max_steps: int  # after which the training is complete; 0: unlimited
    preparation_seconds: float  # wall time of tokenization

    @property
    def relevant_parameters(self) -> int:
        """The parameters that the number of training tokens has to match."""
        return self.non_embedding_parameters or self.parameters

    def steps_in(self, seconds: float) -> int:
        """Steps that a budget allows."""
        steps = max(1, round((seconds - self.startup_seconds) / self.step_seconds))
        return min(steps, self.max_steps) if self.max_steps else steps

    def tokens_in(self, seconds: float) -> int:
        """Training tokens that a budget allows."""
        return self.steps_in(seconds) * self.step_tokens


def find_trial(recipe: Recipe, *, fingerprint: str, seconds: float, shutdown: ShutdownRequest) -> TrialRun:
    """The cached trial run of a recipe on a text, or a new one."""
    return cached("pretraining", _key(recipe, fingerprint), lambda: run_trial(recipe, seconds, shutdown), TrialRun)


def load_milestones(recipe: Recipe, *, fingerprint: str, steps: int, seconds: float) -> tuple[int, ...]:
    """The milestones of an earlier run with the same budget; empty if there was none."""
    return _load(_milestones_file(recipe, fingerprint, steps, seconds), tuple[int, ...]) or ()


def save_milestones(milestones: Sequence[int], recipe: Recipe, *, fingerprint: str, steps: int, seconds: float) -> None:
    """Cache the milestones of a run."""
    _save(_milestones_file(recipe, fingerprint, steps, seconds), list(milestones))


def cached(kind: str, key: Sequence[Any], measure: Callable[[], T], of: type[T]) -> T:
    """A measurement of a type on this machine, from the cache if it was made before."""
    path = _cache_file(kind, key)
    value = _load(path, of)
    if value is None:
        value = measure()
        _save(path, value)
    return value


def run_trial(recipe: Recipe, seconds: float, shutdown: ShutdownRequest) -> TrialRun:
    """Measure in a process of its own, like the training itself."""
    limit = max(_MIN_SECONDS, min(_MAX_SECONDS, _SHARE * seconds))
    with tempfile.TemporaryDirectory() as folder:
        pool = WorkerPool(f"{__name__}:trial_handler", size=1, log=Path(folder) / "trial.log")
        with closing(pool), closing(pool.run([{"recipe": recipe.dump(), "limit": limit}])) as answers:
            for _, answer in answers:
                if isinstance(answer, WorkerError):
                    raise WorkerError(f"the trial run of {recipe.family} failed: {answer}")
                if isinstance(answer, Exception):
                    raise type(answer)(f"{recipe.family}: {answer}")
                if answer is None and shutdown.signal:
                    raise KeyboardInterrupt
    return TrialRun(**answer)


def trial_handler() -> Callable[..., dict[str, Any]]:
    """The handler of requests in a worker process."""
    return lambda recipe, limit: dataclasses.asdict(measure(Recipe.parse(recipe), limit))


def measure(recipe: Recipe, limit: float) -> TrialRun:
    """Train for `limit` seconds of processor time, and discard the result."""
    started = time.perf_counter()
    session = PretrainingSession.start(recipe, None)
    preparation = time.perf_counter() - started - session.start_seconds
    source = session.source
    step_tokens, corpus_tokens = source.num_rows * source.length, source.store.num_tokens
    max_steps = 0
    if recipe.objective.full_batch:
        passes = Budget.parse(recipe.training.budget)
        max_steps = passes.steps(tokens_per_step=step_tokens, tokens_per_epoch=corpus_tokens) or 1
    # Short runs of neural networks are complete because step time changes in the course of a run.
    num_steps = 0 if recipe.objective.by_gradient else max_steps or _UNLIMITED_STEPS
    times = session.measure_step_time(limit, clock=time.process_time, num_steps=num_steps)
    return TrialRun(
        step_seconds=times.processor_seconds,
        startup_seconds=times.startup_processor_seconds + session.start_processor_seconds,
        step_tokens=step_tokens,
        corpus_tokens=corpus_tokens,
        vocab_size=session.recipe.model.vocab_size,
        parameters=sum(weight.numel() for weight in session.encoder.parameters()),
        non_embedding_parameters=count_non_embedding(session.encoder),
        max_steps=max_steps,
        preparation_seconds=preparation,
    )


def count_non_embedding(encoder: Encoder) -> int:
    """Parameters outside of the token, position and segment embeddings."""
    embeddings = {id(module.weight) for module in encoder.modules() if isinstance(module, nn.Embedding)}
    embeddings.add(id(encoder.tokens.weight))
    return sum(weight.numel() for weight in encoder.parameters() if id(weight) not in embeddings)


def _milestones_file(recipe: Recipe, fingerprint: str, steps: int, seconds: float) -> Path:
    return _cache_file("milestones", [_key(recipe, fingerprint), recipe.training.seed, steps, seconds])


def _key(recipe: Recipe, fingerprint: str) -> list[Any]:
    """What step times depend on: neither the length of the training nor the location of the text."""
    values = recipe.dump()
    del values["command"]
    for group, names in (("data", ("corpus", "dev", "fingerprint")), ("training", ("budget", "steps", "seed"))):
        values[group] = {name: value for name, value in values[group].items() if name not in names}
    if recipe.objective.full_batch:
        values["training"]["budget"] = recipe.training.budget
    return [values, fingerprint]


def _cache_file(kind: str, key: Sequence[Any]) -> Path:
    parts = [FORMAT, kind, key, processor_name(), torch.__version__]
    name = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]
    return cache_folder() / "throughput" / f"{name}.json"


def _load(path: Path, of: type[T]) -> T | None:
    """A cached value; None if there is none or if it is not of its type."""
    try:
        return TypeAdapter(of).validate_json(path.read_bytes(), strict=True)
    except (OSError, ValueError):
        return None


def _save(path: Path, value: Any) -> None:
    with writable(path, REMEDY):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, to_json(value, indent=2) + b"\n")
