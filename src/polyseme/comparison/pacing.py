"""How many steps a budget of processor time comes to: a few are measured, the run is fitted on the way, all is kept.

Time of processors counts the work of all cores, whatever else the machine does meanwhile. What a few steps took tells
which size fits and how many steps there may be; each tenth of the run then has as many as the time left allows. Both
are remembered for a recipe, a text and a budget, so that the same budget is the same steps from there on.
"""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import json
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from polyseme.comparison import children
from polyseme.errors import DataError, PolysemeError, TrainingError
from polyseme.files import cache_folder, write_file
from polyseme.machine import processor
from polyseme.train.recipe import Recipe
from polyseme.train.signals import Interruption

FORMAT = 6  # counts changes of how it is measured

_SHARE = 0.1  # of the budget, for measuring
_LEAST_SECONDS, _MOST_SECONDS = 4.0, 60.0
_WARM_UP_STEPS = 3
_LOOK_SECONDS = 0.1
_CHILD = "from polyseme.comparison.pacing import main; main(*sys.argv[1:])"


@dataclass(frozen=True, kw_only=True)
class Pace:
    """What a recipe takes on this machine, in seconds of processors, and what it reads."""

    step: float
    start: float  # before the first step
    step_tokens: int
    corpus_tokens: int
    vocab_size: int
    parameters: int
    inner_parameters: int  # outside embeddings
    own_steps: int  # after which there is nothing more to learn; 0 where there always is
    preparation: float  # seconds, of reading the text

    def steps_in(self, seconds: float) -> int:
        """Steps that a budget allows."""
        steps = max(1, round((seconds - self.start) / self.step))
        return min(steps, self.own_steps) if self.own_steps else steps

    def tokens_in(self, seconds: float) -> int:
        return self.steps_in(seconds) * self.step_tokens


def find_pace(recipe: Recipe, *, fingerprint: str, seconds: float, interruption: Interruption) -> Pace:
    """The pace of a recipe on a text, measured now if it never was on this machine."""
    key = _key(recipe, fingerprint)
    found = remembered("pretraining", key, lambda: dataclasses.asdict(_ask_child(recipe, seconds, interruption)))
    return Pace(**found)


def find_marks(recipe: Recipe, *, fingerprint: str, steps: int, seconds: float) -> tuple[int, ...]:
    """How a run that was to take so many steps was fitted to so many seconds; none where it never was."""
    return tuple(_recall(_marks_file(recipe, fingerprint, steps, seconds)) or ())


def keep_marks(marks: Sequence[int], recipe: Recipe, *, fingerprint: str, steps: int, seconds: float) -> None:
    """Let other runs take the same steps."""
    _remember(_marks_file(recipe, fingerprint, steps, seconds), list(marks))


def _marks_file(recipe: Recipe, fingerprint: str, steps: int, seconds: float) -> Path:
    return _file("marks", [_key(recipe, fingerprint), recipe.plan.seed, steps, seconds])


def _key(recipe: Recipe, fingerprint: str) -> list[Any]:
    values = recipe.dump()
    # Neither how long it is to run nor where the text lies makes a difference.
    for group, names in (("data", ("corpus", "dev", "fingerprint")), ("plan", ("budget", "steps", "seed"))):
        values[group] = {name: value for name, value in values[group].items() if name not in names}
    if recipe.objective.whole_text:
        values["plan"]["budget"] = recipe.plan.budget
    return [values, fingerprint]


def remembered(what: str, key: Sequence[Any], measure: Callable[[], Any]) -> Any:
    """What was measured on this machine before, or is now."""
    path = _file(what, key)
    found = _recall(path)
    if found is None:
        found = measure()
        _remember(path, found)
    return found


def _recall(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _file(what: str, key: Sequence[Any]) -> Path:
    import torch

    parts = [FORMAT, what, key, processor(), torch.__version__]
    name = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]
    return cache_folder() / "paces" / f"{name}.json"


def _remember(path: Path, found: Any) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, json.dumps(found, indent=2) + "\n")
    except OSError as error:
        raise DataError(f"{path} cannot be written ({error.strerror}); make room or set POLYSEME_CACHE") from None


def _ask_child(recipe: Recipe, seconds: float, interruption: Interruption) -> Pace:
    """Measure in a process of its own, as the training will be in one."""
    with tempfile.TemporaryDirectory() as folder:
        asked, answer, log = (Path(folder) / name for name in ("asked.json", "answer.json", "log.txt"))
        asked.write_text(json.dumps(recipe.dump()), encoding="utf-8")
        limit = max(_LEAST_SECONDS, min(_MOST_SECONDS, _SHARE * seconds))
        with (
            log.open("wb") as said,
            subprocess.Popen(
                children.command(_CHILD, str(asked), str(answer), str(limit)),
                stdout=subprocess.DEVNULL,
                stderr=said,
                env=children.environment(),
                start_new_session=True,  # Ctrl-C comes to us
            ) as child,
        ):
            while child.poll() is None:
                if interruption.signal:
                    child.kill()
                    raise KeyboardInterrupt
                time.sleep(_LOOK_SECONDS)
        try:
            found = json.loads(answer.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
            last = lines[-1] if lines else f"it ended with {child.returncode}"
            raise TrainingError(f"{recipe.family} could not be tried ({last:.200})") from None
    if "error" in found:
        raise DataError(f"{recipe.family}: {found['error']}")
    return Pace(**found)


def main(asked: str, answer: str, limit: str) -> None:
    """What the child does: read a recipe, measure it, write down what was found."""
    from polyseme.machine import keep_freed_memory

    keep_freed_memory()
    found: Mapping[str, Any]
    try:
        recipe = Recipe.parse(json.loads(Path(asked).read_text(encoding="utf-8")))
        found = dataclasses.asdict(measure(recipe, float(limit)))
    except PolysemeError as error:
        found = {"error": str(error)}
    write_file(Path(answer), json.dumps(found))


def measure(recipe: Recipe, limit: float) -> Pace:
    """Learn for so many seconds of a processor, and throw it away."""
    from polyseme.train.plan import Budget
    from polyseme.train.pretraining import Pretraining, build_learner

    began = time.perf_counter()
    training = Pretraining.prepare(recipe)
    preparation = time.perf_counter() - began - training.start_seconds
    source = training.source
    step_tokens, corpus_tokens = source.num_rows * source.length, source.store.num_tokens
    own_steps = 0
    if recipe.objective.whole_text:
        own = Budget.parse(recipe.plan.budget)
        own_steps = own.steps(tokens_per_step=step_tokens, tokens_per_epoch=corpus_tokens) or 1
    spare = copy.deepcopy((training.encoder, training.objective))

    def learner_of(steps: int) -> tuple[Any, float]:
        before = time.process_time()
        told = dataclasses.replace(training.recipe, plan=training.recipe.plan.replace(steps=steps))
        learner = build_learner(told, *spare, source, training.tokenizer)
        return learner, time.process_time() - before

    if recipe.objective.by_gradient:
        step, start = _mean_of_run(learner_of, limit)
    else:
        # Kernels are compiled once for all runs on a machine; no budget should pay for that.
        next(iter(learner_of(1)[0].steps()))
        learner, start = learner_of(own_steps or 1_000_000)
        step = _mean_of_steps(learner, limit)
    parameters = sum(weight.numel() for weight in training.encoder.parameters())
    return Pace(
        step=step,
        start=start + training.start_processor_seconds,
        step_tokens=step_tokens,
        corpus_tokens=corpus_tokens,
        vocab_size=training.recipe.model.vocab_size,
        parameters=parameters,
        inner_parameters=inner_parameters(training.encoder),
        own_steps=own_steps,
        preparation=preparation,
    )


def _mean_of_run(learner_of: Any, limit: float) -> tuple[float, float]:
    """The seconds of a step, and those before the first.

    Of runs in small, in which rows grow as in the whole; those before the last allocate and tell its length.
    """
    number, spent = _WARM_UP_STEPS, 0.0
    while True:
        learner, start = learner_of(number)
        *_, last = learner.steps()
        found = last.processor_seconds
        spent += found
        left = limit - spent
        if left < found / number * _WARM_UP_STEPS or number > _WARM_UP_STEPS:
            return found / number, start
        number = max(_WARM_UP_STEPS + 1, int(left / (found / number)))


def _mean_of_steps(learner: Any, limit: float) -> float:
    """Of the steps that there is time for, the first left out if there are others: it has more to do."""
    ends = [0.0]
    for step in learner.steps():
        ends.append(step.processor_seconds)
        if step.processor_seconds > limit and len(ends) > 2:
            break
    return (ends[-1] - ends[1]) / (len(ends) - 2) if len(ends) > 2 else ends[-1]


def inner_parameters(encoder: Any) -> int:
    """Those that every token passes through: all but the tables of tokens, positions and segments."""
    from torch import nn

    tables = {id(module.weight) for module in encoder.modules() if isinstance(module, nn.Embedding)}
    tables.add(id(encoder.tokens.weight))
    return sum(weight.numel() for weight in encoder.parameters() if id(weight) not in tables)
