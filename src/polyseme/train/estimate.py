"""What a recipe will cost, before it is paid."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import torch

from polyseme.errors import ConfigError
from polyseme.files import size
from polyseme.learning import Learner
from polyseme.machine import available_memory
from polyseme.models import FAMILIES
from polyseme.objectives import Source
from polyseme.train.plan import Budget, PlanConfig
from polyseme.train.recipe import Recipe

NUM_EVALUATIONS = 10
"""Looks at the dev text in a run, where the recipe does not say."""

_MEASURED_SECONDS = 3.0
_WARM_UP_STEPS = 3


@dataclass(frozen=True)
class Size:
    """How large a model is, and what training it takes."""

    parameters: int
    memory: int  # bytes: weights, gradients, two moments, activations


def measure_size(recipe: Recipe) -> Size:
    """Count without building: on torch's meta device, a terabyte takes no room."""
    try:
        with torch.device("meta"):
            encoder = FAMILIES[recipe.family](recipe.model)
    except (RuntimeError, OverflowError):
        raise ConfigError("the model is too large to be counted; make model.width or model.vocab_size less") from None
    parameters = sum(weight.numel() for weight in encoder.parameters())
    if not recipe.objective.by_gradient:
        return Size(parameters, 3 * 4 * parameters)  # as many numbers for the output side, and for the counts
    micro_tokens = min(recipe.plan.batch_tokens, max(recipe.plan.micro_tokens, recipe.data.length))
    # About twenty numbers of a layer's width are kept for each token until the backward pass (measured).
    activations = 4 * 20 * micro_tokens * sum(encoder.widths)
    logits = 4 * 3 * 512 * recipe.model.vocab_size
    batch = 3 * 8 * recipe.plan.batch_tokens
    return Size(parameters, 16 * parameters + activations + logits + batch)


def check_memory(recipe: Recipe) -> Size:
    """Refuse what this machine cannot hold."""
    needed, free = measure_size(recipe), available_memory()
    if needed.memory > free:
        raise ConfigError(
            f"training {needed.parameters:,} parameters takes about {size(needed.memory)} and {size(free)} are free; "
            "choose a smaller --size, or make model.width, model.vocab_size or plan.micro_tokens less"
        )
    return needed


@dataclass(frozen=True)
class Pace:
    """Seconds that things take on this machine."""

    step: float
    dev_batch: float
    spent: float  # on finding out

    def dev_batches_in(self, seconds: float, most: int) -> int:
        """Batches of a look at the dev text, so that all looks together take a twentieth of the time."""
        if not self.dev_batch:
            return most
        return max(1, min(most, int(seconds / 20 / NUM_EVALUATIONS / self.dev_batch)))

    def steps_in(self, seconds: float, dev_batches: int) -> int:
        """Steps that fit beside the looks at the dev text."""
        return max(1, int((seconds - self.spent - NUM_EVALUATIONS * dev_batches * self.dev_batch) / self.step))

    def seconds_for(self, steps: int, dev_batches: int) -> float:
        """How long a run of so many steps takes."""
        return steps * self.step + NUM_EVALUATIONS * dev_batches * self.dev_batch


def measure_pace(learner_with: Callable[[PlanConfig], Learner], plan: PlanConfig, dev: Source | None) -> Pace:
    """Learn for a few seconds with learners that are thrown away."""
    started = time.perf_counter()
    budget = Budget.parse(plan.budget)
    limit = min(_MEASURED_SECONDS, 0.1 * budget.amount) if budget.unit == "seconds" else _MEASURED_SECONDS

    def learn(num_steps: int) -> float:
        """Seconds of the middle step of a run in small, in which rows grow as in the whole."""
        learner = learner_with(plan.replace(steps=num_steps))
        ends = [0.0, *(step.seconds for step in learner.steps())]
        return statistics.median(after - before for before, after in pairwise(ends))

    learn(_WARM_UP_STEPS)  # which also allocates and compiles
    step = learn(_WARM_UP_STEPS)
    left = limit - (time.perf_counter() - started)
    if left > _WARM_UP_STEPS * step:
        step = learn(int(left / step))
    dev_batch = 0.0
    if dev is not None:
        learner = learner_with(plan)
        before = time.perf_counter()
        learner.evaluate(dev, num_batches=1)
        dev_batch = time.perf_counter() - before
    return Pace(step, dev_batch, time.perf_counter() - started)
