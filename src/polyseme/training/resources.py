"""Memory and time that training takes on this machine."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from polyseme.errors import ConfigError
from polyseme.families import FAMILIES
from polyseme.learner import Learner
from polyseme.system.formatting import format_bytes
from polyseme.system.hardware import available_memory
from polyseme.training.optimization.budget import Budget
from polyseme.training.optimization.optimizer_config import TrainingConfig
from polyseme.training.recipes.recipe import Recipe
from polyseme.training.storage.model_dir import meta_device

_VALIDATION_SHARE = 1 / 5  # of the time of a fine-tuning, with the evaluation on all dev data at the end
_MIN_EVALUATIONS, _MIN_DEV_BATCHES = 2, 2
_MEASURED_SECONDS = 3.0
_WARM_UP_STEPS = 3


@dataclass(frozen=True)
class ModelSize:
    """Number of parameters, and memory for training them."""

    parameters: int
    memory: int  # bytes: weights, gradients, both Adam moments, activations


def measure_size(recipe: Recipe) -> ModelSize:
    """Compute the size of a model without allocating it, on torch's meta device."""
    try:
        with meta_device():
            encoder = FAMILIES[recipe.family](recipe.model)
    except (RuntimeError, OverflowError):
        raise ConfigError("the model is too large; reduce model.width or model.vocab_size") from None
    parameters = sum(weight.numel() for weight in encoder.parameters())
    if not recipe.objective.by_gradient:
        return ModelSize(parameters, 3 * 4 * parameters)  # input vectors, output vectors, counts
    micro_batch = min(
        recipe.training.batch_tokens, max(recipe.training.micro_batch_tokens, recipe.data.sequence_length)
    )
    # About twenty values of a layer's width are kept per token until the backward pass (measured).
    activations = 4 * 20 * micro_batch * sum(encoder.widths)
    logits = 4 * 3 * 512 * recipe.model.vocab_size
    batch = 3 * 8 * recipe.training.batch_tokens
    return ModelSize(parameters, 16 * parameters + activations + logits + batch)


def check_memory(recipe: Recipe) -> None:
    """Raise an error if training needs more memory than this machine has."""
    needed, free = measure_size(recipe), available_memory()
    if needed.memory > free:
        raise ConfigError(
            f"training {needed.parameters:,} parameters takes about {format_bytes(needed.memory)}, and "
            f"{format_bytes(free)} are free; choose a smaller --size, or reduce model.width, "
            "model.vocab_size or training.micro_batch_tokens"
        )


@dataclass(frozen=True, kw_only=True)
class StepTime:
    """Time per training step."""

    seconds: float  # median
    processor_seconds: float  # of all cores together, mean
    startup_processor_seconds: float  # before the first step
    spent: float  # seconds, on the measurement


def measure_step_time(
    build_learner: Callable[[int], Learner],
    *,
    seconds: float,
    clock: Callable[[], float] = time.perf_counter,
    num_steps: int = 0,
) -> StepTime:
    """Time the steps of learners that are thrown away.

    Without `num_steps`, complete short runs are timed, in which sequences grow as in a whole run. With it, the first
    steps of a run of that many steps, except the first; for trainers whose startup is too expensive to repeat.

    Args:
        build_learner: Builds a learner for a number of steps.
        seconds: About how long to measure.
        clock: Measures these seconds; `time.process_time` on a machine that is busy otherwise.
        num_steps: Number of steps of the run whose first steps are timed.
    """
    started, deadline = time.perf_counter(), clock() + seconds

    def time_steps(number: int, *, whole: bool = True) -> StepTime:
        before = time.process_time()
        learner = build_learner(number)
        startup = time.process_time() - before
        ends = [(0.0, 0.0)]
        for step in learner.steps():
            ends.append((step.seconds, step.processor_seconds))
            if not whole and clock() > deadline and len(ends) > 2:
                break
        first = 0 if whole or len(ends) < 3 else 1
        return StepTime(
            seconds=statistics.median(after[0] - before[0] for before, after in pairwise(ends[first:])),
            processor_seconds=(ends[-1][1] - ends[first][1]) / (len(ends) - 1 - first),
            startup_processor_seconds=startup,
            spent=time.perf_counter() - started,
        )

    if num_steps:
        return time_steps(num_steps, whole=False)
    time_steps(_WARM_UP_STEPS)  # allocates memory and compiles kernels
    begun = clock()
    found = time_steps(_WARM_UP_STEPS)
    remaining = int((deadline - clock()) / (clock() - begun) * _WARM_UP_STEPS)
    return time_steps(remaining) if remaining > _WARM_UP_STEPS else found


@dataclass(frozen=True)
class Throughput:
    """Seconds per training step and per validation batch."""

    step: float
    dev_batch: float
    spent: float  # on the measurement
    num_evaluations: int = 10

    def dev_batches_in(self, seconds: float, limit: int) -> int:
        """Batches per validation, so that all validations together take a twentieth of the time."""
        if not self.dev_batch:
            return limit
        return max(1, min(limit, int(seconds / 20 / self.num_evaluations / self.dev_batch)))

    def steps_in(self, seconds: float, dev_batches: int) -> int:
        """Steps that fit into a time beside the validations."""
        return max(1, int((seconds - self.spent - self.num_evaluations * dev_batches * self.dev_batch) / self.step))

    def seconds_for(self, steps: int, dev_batches: int) -> float:
        """Duration of a run of a number of steps."""
        return steps * self.step + self.num_evaluations * dev_batches * self.dev_batch


def fit_into_time(
    config: TrainingConfig,
    seconds: float,
    *,
    step: float,
    dev_seconds: Callable[[int], float],
    all_batches: int,
    most_batches: int,
) -> TrainingConfig:
    """Set the steps of a fine-tuning, and the validations where the config leaves them open.

    Validations are first made smaller, then fewer, until they take a fifth of the time. The evaluation on all dev data
    at the end may take longer than that, but at least half of the time is for training.

    Args:
        config: Settings; `evaluate_every` and `evaluate_batches` take precedence if they are not 0.
        seconds: The time that is left.
        step: Seconds per training step.
        dev_seconds: Seconds of a validation by its number of batches.
        all_batches: Batches of all dev data.
        most_batches: Batches per validation, at most.
    """
    final = dev_seconds(all_batches)
    left, available = seconds - final, _VALIDATION_SHARE * seconds - final
    number, batches = config.num_evaluations, config.evaluate_batches or min(all_batches, most_batches)
    if config.evaluate_every:
        number = max(1, int(left / step / config.evaluate_every))
    while not config.evaluate_batches and batches > _MIN_DEV_BATCHES and number * dev_seconds(batches) > available:
        batches -= 1
    while not config.evaluate_every and number > _MIN_EVALUATIONS and number * dev_seconds(batches) > available:
        number -= 1
    steps = max(1, int(max(seconds / 2, left - number * dev_seconds(batches)) / step))
    return config.replace(
        steps=steps,
        num_evaluations=config.num_evaluations if config.evaluate_every else number,
        evaluate_batches=batches,
    )


def measured_seconds(budget: str) -> float:
    """How long to measure throughput for a budget: a tenth of a short one, three seconds at most."""
    parsed = Budget.parse(budget)
    return min(_MEASURED_SECONDS, 0.1 * parsed.amount) if parsed.unit == "seconds" else _MEASURED_SECONDS
