"""Checkpoint averaging and the Noam schedule of the Transformer (Vaswani et al., 2017)."""

import copy

import pytest
import torch

from polyseme.training.optimization.lr_schedules import is_averaged, learning_rate_at
from polyseme.training.optimization.optimizer_config import TrainingConfig


def test_noam():
    width, warmup = 512, 4000
    config = TrainingConfig(
        steps=100_000, lr_schedule="noam", warmup_fraction=warmup / 100_000, learning_rate=(width * warmup) ** -0.5
    )
    for step in (1, 2, 100, 3999, 4000, 4001, 16_000, 100_000):
        expected = width**-0.5 * min(step**-0.5, step * warmup**-1.5)
        assert learning_rate_at(config, step - 1) == pytest.approx(expected, rel=1e-9), step
    assert (
        learning_rate_at(TrainingConfig(steps=10, lr_schedule="noam", warmup_fraction=0.0, learning_rate=1.0), 3) == 0.5
    )


@pytest.mark.parametrize(
    ("steps", "average", "points"),
    [(1000, 3, [960, 980, 1000]), (100, 1, []), (4, 3, [2, 3, 4]), (2, 5, [1, 2])],
)
def test_averaged_steps(steps, average, points):
    config = TrainingConfig(steps=steps, num_averaged=average)
    assert [step + 1 for step in range(steps) if is_averaged(config, step)] == points


def test_final_weights_are_the_mean_of_checkpoints(any_tiny):
    plain, learner = any_tiny.learner(), any_tiny.learner(num_averaged=3)
    checkpoints = [
        {name: weight.detach().clone() for name, weight in plain.weights.items()}
        for step in plain.steps()
        if step.number in (18, 19, 20)  # a fiftieth of twenty steps is less than one
    ]
    steps = learner.steps()
    for _ in range(19):
        next(steps)
    steps.close()
    resumed = any_tiny.learner(num_averaged=3)
    resumed.restore(copy.deepcopy(learner.state()))
    next(resumed.steps())
    resumed.finalize()
    for name, weight in resumed.weights.items():
        mean = torch.stack([weights[name] for weights in checkpoints]).mean(0)
        torch.testing.assert_close(weight, mean, atol=1e-6, rtol=1e-5)
        assert not torch.equal(weight, checkpoints[-1][name])


def test_checkpoints_of_a_shorter_budget_are_not_averaged(any_tiny):
    """A finished run that is extended: the averages of the longer run exclude those of its last steps."""
    finished = any_tiny.learner(num_averaged=3)
    list(finished.steps())
    assert finished.averaging.means
    for steps, averaged in ((20, True), (22, True), (40, False)):
        learner = any_tiny.learner(num_averaged=3, steps=steps)
        learner.restore(copy.deepcopy(finished.state()))
        assert bool(learner.averaging.means) == averaged
