"""Budgets, schedules and groups of weights: pure functions of the step."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from polyseme.config import Config
from polyseme.course import NUM_PARTS, Course
from polyseme.errors import ConfigError

_UNITS = {"s": 1, "m": 60, "h": 3600}
_SCALES = {"": 1, "k": 1e3, "M": 1e6, "G": 1e9}


@dataclass(frozen=True)
class Budget:
    """How long to train: an amount of seconds, steps, tokens or epochs."""

    amount: float
    unit: Literal["seconds", "steps", "tokens", "epochs"]

    @classmethod
    def parse(cls, text: str) -> Budget:
        """Read `90s`, `10m`, `2h`, `500steps`, `2Mtokens` or `3epochs`."""
        found = re.fullmatch(r"(\d{1,15}(?:\.\d{1,9})?)\s*(?:([smh])|([kMG]?)(step|token|epoch)s?)", text.strip())
        if found is None or float(found[1]) == 0:
            raise ConfigError(f"{text!r:.60} is no budget; say 90s, 10m, 2h, 500steps, 2Mtokens or 3epochs")
        if found[2]:
            return cls(float(found[1]) * _UNITS[found[2]], "seconds")
        units: dict[str, Literal["steps", "tokens", "epochs"]] = {"step": "steps", "token": "tokens", "epoch": "epochs"}
        return cls(float(found[1]) * _SCALES[found[3]], units[found[4]])

    def steps(self, *, tokens_per_step: float, tokens_per_epoch: int) -> int | None:
        """The number of steps, or nothing where only a clock can tell."""
        if self.unit == "seconds":
            return None
        per_step = {"steps": 1.0, "tokens": tokens_per_step, "epochs": tokens_per_step / max(1, tokens_per_epoch)}
        return max(1, round(self.amount / per_step[self.unit]))


SIZES = ("tiny", "small", "medium", "base")
_LEAST_MINUTES = {"small": 1, "medium": 60, "base": 48 * 60}  # of two cores
_LEAST_BYTES = {"small": 500e3, "medium": 20e6, "base": 1e9}  # of text


def choose_size(budget: str | None, *, num_bytes: int, cores: int) -> str:
    """The largest size that has both the time and the text to become better than the one below it.

    For two cores; more count in proportion. That small is right for minutes was measured (docs/decisions/0006);
    where medium and base begin is an estimate. Budgets that are no time leave the choice to the text.
    """
    given = Budget.parse(budget or "10m")
    minutes = given.amount / 60 * cores / 2 if given.unit == "seconds" else math.inf
    fitting = [size for size in _LEAST_MINUTES if minutes >= _LEAST_MINUTES[size] and num_bytes >= _LEAST_BYTES[size]]
    return fitting[-1] if fitting else SIZES[0]


def _readable(text: str) -> str:
    try:
        Budget.parse(text)
    except ConfigError as error:
        raise ValueError(str(error)) from None
    return text


BudgetText = Annotated[str, AfterValidator(_readable)]
"""A budget as people write it, such as 10m or 3epochs."""


class PlanConfig(Config):
    """How the weights move."""

    budget: BudgetText = "10m"  # how long to train
    steps: int = Field(0, ge=0)  # what the budget came to; measured once and then kept
    processor_seconds: float = Field(0.0, ge=0)  # of all cores, which the steps are fitted to on the way; 0: to nothing
    marks: tuple[int, ...] = ()  # steps after which each tenth of the way was over, where they were fitted
    seed: int = Field(0, ge=0, lt=2**32)
    start: Literal["paper", "fast"] = "paper"  # first weights: as published, or such that learning sets in sooner
    base: str = ""  # the model whose weights it goes on from instead
    batch_tokens: int = Field(4096, ge=1)  # tokens behind one move of the weights
    micro_tokens: int = Field(16384, ge=1)  # of these, tokens that go through the model at once
    rate: float = Field(1e-3, gt=0)  # the highest learning rate
    schedule: Literal["constant", "linear", "cosine", "trapezoid", "slanted", "noam"] = "linear"  # after the warm-up
    layer_divisor: float = Field(1.0, ge=1)  # what the rate of a layer is divided by for the layer below it
    unfreeze: int = Field(0, ge=0)  # steps after which one more layer learns, the top one first; 0: all from the start
    warmup: float = Field(0.06, ge=0, lt=1)  # share of the steps in which the rate rises
    short_rows: float = Field(0.0, ge=0, le=1)  # share of the steps with rows of a quarter, then half the length
    cooldown: float = Field(0.25, gt=0, le=1)  # share of the steps in which a trapezoid falls
    optimizer: Literal["adamw", "nt-asgd"] = "adamw"  # nt-asgd: plain steps, then the mean of the weights
    patience: int = Field(5, ge=1)  # looks at the dev text without gain before nt-asgd takes means
    average: int = Field(1, ge=1)  # points of the last steps, a fiftieth of all apart, whose mean the weights become
    beta1: float = Field(0.9, ge=0, lt=1)
    beta2: float = Field(0.98, ge=0, lt=1)
    epsilon: float = Field(1e-6, gt=0)
    decay: float = Field(0.01, ge=0)  # of weights; norms and biases are left alone
    clip: float = Field(1.0, gt=0)  # largest norm of a gradient
    save_every: int = Field(0, ge=0)  # steps between checkpoints; 0: once a minute
    evaluate_every: int = Field(0, ge=0)  # steps between looks at the dev text; 0: ten times a run
    evaluate_batches: int = Field(0, ge=0)  # of such a look; 0: a twentieth of the time; the last look reads all
    threads: int = Field(0, ge=0, le=1024)  # 0: all cores

    @field_validator("marks")
    @classmethod
    def _ascending(cls, marks: tuple[int, ...], told: ValidationInfo) -> tuple[int, ...]:
        if any(mark <= before for before, mark in pairwise((0, *marks))):
            raise ValueError("say numbers of steps, each larger than the one before")
        if len(marks) > NUM_PARTS or (0 < len(marks) < NUM_PARTS and not told.data.get("processor_seconds")):
            raise ValueError(f"say {NUM_PARTS} numbers of steps; fewer where processor_seconds decide on the others")
        return marks

    @property
    def course(self) -> Course:
        """How far the run is at each step."""
        return Course(steps=self.steps, marks=self.marks)


def rate_at(plan: PlanConfig, step: int) -> float:
    """The learning rate of a step, counted from 0."""
    return plan.rate * _share(plan, plan.course.place(step))


def _share(plan: PlanConfig, step: float) -> float:
    if plan.schedule == "slanted":
        return slanted(step, plan.steps, cut_share=plan.warmup)
    warmup = plan.warmup * plan.steps
    if step + 1 < warmup:
        return (step + 1) / warmup
    if plan.schedule == "noam":  # Vaswani et al., 2017, equation 3, in which the highest is (d · warm-up)^-0.5
        return math.sqrt(max(1.0, warmup) / (step + 1))
    # The last step still moves: the rate would reach 0 one step later.
    left = (plan.steps - step) / max(1.0, plan.steps - warmup)
    left = min(1.0, left)
    if plan.schedule == "constant":
        return 1.0
    if plan.schedule == "cosine":
        return 0.5 * (1 - math.cos(math.pi * left))
    if plan.schedule == "trapezoid":
        return min(1.0, (plan.steps - step) / max(1.0, plan.cooldown * plan.steps))
    return left


def slanted(step: float, num_steps: int, *, cut_share: float = 0.1, ratio: float = 32) -> float:
    """The slanted triangular course of a rate (Howard and Ruder, 2018, equation 3), as a share of the highest.

    Where no step is left for the rise, it only falls: there the paper divides by zero. A cut that is rounded down makes
    its fall end too soon, and go on below zero: here it stays at the lowest.
    """
    cut = math.floor(num_steps * cut_share)
    if step < cut:
        height = step / cut
    else:
        height = max(0.0, 1 - (step - cut) / (cut * (1 / cut_share - 1) if cut else num_steps))
    return (1 + height * (ratio - 1)) / ratio


def layer_rates(rate: float, num_groups: int, *, divisor: float = 2.6) -> list[float]:
    """The rates of groups of layers from bottom to top, of which the top one has `rate` (section 3.2 there)."""
    return [rate / divisor**below for below in reversed(range(num_groups))]


def num_unfrozen(epoch: int, num_groups: int) -> int:
    """How many groups learn in an epoch, counted from 0: the top one first, then one more at a time (section 3.3)."""
    return min(epoch + 1, num_groups)


def num_frozen(plan: PlanConfig, step: int, num_groups: int) -> int:
    """How many groups, from the bottom, stay as they are in a step, counted from 0."""
    return num_groups - num_unfrozen(step // plan.unfreeze, num_groups) if plan.unfreeze else 0


def averaged(plan: PlanConfig, step: int) -> bool:
    """Whether the weights after a step, counted from 0, go into the mean that they become."""
    before, after = (plan.steps - plan.course.place(number) for number in (step, step + 1))  # what is left of the way
    apart = max(1, plan.steps // 50)
    points = math.ceil(after / apart)
    return plan.average > 1 and points < plan.average and points < math.ceil(before / apart)


def shortening(plan: PlanConfig, step: int) -> int:
    """By what the length of the rows is divided in a step, counted from 0."""
    short, place = plan.short_rows * plan.steps, plan.course.place(step)
    return 4 if place < short / 2 else 2 if place < short else 1


def decays(name: str, num_dimensions: int) -> bool:
    """Whether a weight is pulled towards zero: matrices and embeddings are, norms and biases are not."""
    return num_dimensions > 1 and not name.endswith(".bias")
