"""The rates of the Transformer's paper, and the mean of its last checkpoints."""

import copy

import pytest
import torch

from polyseme.train.plan import PlanConfig, averaged, rate_at


def test_noam():
    width, warmup = 512, 4000
    plan = PlanConfig(steps=100_000, schedule="noam", warmup=warmup / 100_000, rate=(width * warmup) ** -0.5)
    for step in (1, 2, 100, 3999, 4000, 4001, 16_000, 100_000):
        expected = width**-0.5 * min(step**-0.5, step * warmup**-1.5)
        assert rate_at(plan, step - 1) == pytest.approx(expected, rel=1e-9), step
    assert rate_at(PlanConfig(steps=10, schedule="noam", warmup=0.0, rate=1.0), 3) == 0.5


@pytest.mark.parametrize(
    ("steps", "average", "points"),
    [(1000, 3, [960, 980, 1000]), (100, 1, []), (4, 3, [2, 3, 4]), (2, 5, [1, 2])],
)
def test_points_of_the_mean(steps, average, points):
    plan = PlanConfig(steps=steps, average=average)
    assert [step + 1 for step in range(steps) if averaged(plan, step)] == points


def test_the_model_is_the_mean_of_the_last_points(one_workshop):
    plain, learner = one_workshop.learner(), one_workshop.learner(average=3)
    kept = [
        {name: weight.detach().clone() for name, weight in plain.weights.items()}
        for step in plain.steps()
        if step.number in (18, 19, 20)  # a fiftieth of twenty steps is less than one
    ]
    steps = learner.steps()
    for _ in range(19):
        next(steps)
    steps.close()
    resumed = one_workshop.learner(average=3)
    resumed.restore(copy.deepcopy(learner.state()))
    next(resumed.steps())
    resumed.settle()
    for name, weight in resumed.weights.items():
        mean = torch.stack([weights[name] for weights in kept]).mean(0)
        torch.testing.assert_close(weight, mean, atol=1e-6, rtol=1e-5)
        assert not torch.equal(weight, kept[-1][name])
