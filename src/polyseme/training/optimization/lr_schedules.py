"""Schedules as pure functions of the step: learning rate, unfreezing, sequence length, checkpoint averaging."""

import math

from polyseme.training.optimization.optimizer_config import TrainingConfig


def learning_rate_at(config: TrainingConfig, step: int) -> float:
    """Learning rate of a step, counted from 0."""
    return config.learning_rate * _multiplier(config, config.step_schedule.scaled_step(step))


def _multiplier(config: TrainingConfig, step: float) -> float:
    if config.lr_schedule == "slanted":
        return slanted_triangular(step, config.steps, cut_fraction=config.warmup_fraction)
    warmup = config.warmup_fraction * config.steps
    if step + 1 < warmup:
        return (step + 1) / warmup
    if config.lr_schedule == "noam":  # Vaswani et al., 2017, equation 3; the maximum there is (d · warm-up)^-0.5
        return math.sqrt(max(1.0, warmup) / (step + 1))
    # The last step still has a positive rate: 0 would be reached one step later.
    remaining = min(1.0, (config.steps - step) / max(1.0, config.steps - warmup))
    if config.lr_schedule == "constant":
        return 1.0
    if config.lr_schedule == "cosine":
        return 0.5 * (1 - math.cos(math.pi * remaining))
    if config.lr_schedule == "trapezoid":
        return min(1.0, (config.steps - step) / max(1.0, config.cooldown_fraction * config.steps))
    return remaining


def slanted_triangular(step: float, num_steps: int, *, cut_fraction: float = 0.1, ratio: float = 32) -> float:
    """Slanted triangular learning rate (Howard and Ruder, 2018, equation 3), as a fraction of the maximum.

    Two cases differ from the paper. Without any warm-up step the rate only falls, where the paper divides by zero. A
    `cut` that is rounded down makes the paper's rate fall below zero at the end; here it stays at the minimum.
    """
    cut = math.floor(num_steps * cut_fraction)
    if step < cut:
        height = step / cut
    else:
        height = max(0.0, 1 - (step - cut) / (cut * (1 / cut_fraction - 1) if cut else num_steps))
    return (1 + height * (ratio - 1)) / ratio


def layer_learning_rates(learning_rate: float, num_groups: int, *, divisor: float = 2.6) -> list[float]:
    """Discriminative learning rates of layer groups, bottom to top (Howard and Ruder, 2018, section 3.2)."""
    return [learning_rate / divisor**below for below in reversed(range(num_groups))]


def num_frozen(config: TrainingConfig, step: int, num_groups: int) -> int:
    """Number of layer groups, from the bottom, that are frozen in a step, counted from 0: gradual unfreezing.

    See section 3.3 there. The top group is trained from the first step.
    """
    return max(0, num_groups - 1 - step // config.unfreeze_every) if config.unfreeze_every else 0


def is_averaged(config: TrainingConfig, step: int) -> bool:
    """Whether the weights after a step, counted from 0, are one of the `num_averaged` checkpoints."""
    return has_averages(config, step + 1) and _averages_left(config, step + 1) < _averages_left(config, step)


def has_averages(config: TrainingConfig, num_steps: int) -> bool:
    """Whether one of the first steps is followed by one of the `num_averaged` checkpoints."""
    return config.num_averaged > 1 and _averages_left(config, num_steps) < config.num_averaged


def _averages_left(config: TrainingConfig, num_steps: int) -> int:
    """Number of intervals between checkpoints from some step to the end of the run."""
    left = config.steps - config.step_schedule.scaled_step(num_steps)
    return math.ceil(left / max(1, config.steps // 50))


def length_divisor(config: TrainingConfig, step: int) -> int:
    """Divisor of the sequence length in a step, counted from 0."""
    short, scaled = config.short_sequence_fraction * config.steps, config.step_schedule.scaled_step(step)
    return 4 if scaled < short / 2 else 2 if scaled < short else 1
