"""Learning rate schedules at listed steps."""

import pytest

from polyseme.training.optimization.lr_schedules import (
    layer_learning_rates,
    learning_rate_at,
    num_frozen,
    slanted_triangular,
)
from polyseme.training.optimization.optimizer_config import TrainingConfig


@pytest.mark.parametrize(
    "step, multiplier",
    [
        (0, 1 / 32),  # p = 0
        (5, (1 + 0.5 * 31) / 32),  # halfway up
        (10, 1.0),  # the cut
        (55, (1 + 0.5 * 31) / 32),  # halfway down: 45 of 90 steps after it
        (99, (1 + 31 / 90) / 32),  # the last
    ],
)
def test_slanted_triangular(step, multiplier):
    assert slanted_triangular(step, 100) == pytest.approx(multiplier)
    config = TrainingConfig(steps=100, learning_rate=0.01, lr_schedule="slanted", warmup_fraction=0.1)
    assert learning_rate_at(config, step) == pytest.approx(0.01 * multiplier)


@pytest.mark.parametrize("num_steps", [1, 2, 9, 15, 19, 101])
@pytest.mark.parametrize("cut_fraction", [0.0, 0.1, 0.9])
def test_slanted_triangular_of_all_lengths(num_steps, cut_fraction):
    multipliers = [slanted_triangular(step, num_steps, cut_fraction=cut_fraction) for step in range(num_steps)]
    assert all(1 / 32 <= multiplier <= 1 for multiplier in multipliers), (
        "the paper's equation falls below zero, or divides by it"
    )
    assert max(multipliers) == 1
    top = multipliers.index(1)
    assert multipliers[: top + 1] == sorted(multipliers[: top + 1])
    assert multipliers[top:] == sorted(multipliers[top:], reverse=True)


def test_layer_learning_rates():
    assert layer_learning_rates(0.01, 4) == pytest.approx([0.01 / 2.6**3, 0.01 / 2.6**2, 0.01 / 2.6, 0.01])
    assert layer_learning_rates(0.01, 3, divisor=1.0) == [0.01] * 3


def test_layers_are_unfrozen_from_the_top():
    config = TrainingConfig(unfreeze_every=2)
    assert [num_frozen(config, step, 4) for step in range(0, 12, 2)] == [3, 2, 1, 0, 0, 0]
