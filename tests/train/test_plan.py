"""Courses of rates at listed steps."""

import pytest

from polyseme.train.plan import PlanConfig, layer_rates, num_unfrozen, rate_at, slanted


@pytest.mark.parametrize(
    "step, share",
    [
        (0, 1 / 32),  # p = 0
        (5, (1 + 0.5 * 31) / 32),  # halfway up
        (10, 1.0),  # the cut
        (55, (1 + 0.5 * 31) / 32),  # halfway down: 45 of 90 steps after it
        (99, (1 + 31 / 90) / 32),  # the last
    ],
)
def test_slanted_triangle(step, share):
    assert slanted(step, 100) == pytest.approx(share)
    plan = PlanConfig(steps=100, rate=0.01, schedule="slanted", warmup=0.1)
    assert rate_at(plan, step) == pytest.approx(0.01 * share)


@pytest.mark.parametrize("num_steps", [1, 2, 9, 15, 19, 101])
@pytest.mark.parametrize("cut_share", [0.0, 0.1, 0.9])
def test_slanted_triangles_of_all_sizes(num_steps, cut_share):
    shares = [slanted(step, num_steps, cut_share=cut_share) for step in range(num_steps)]
    assert all(1 / 32 <= share <= 1 for share in shares), "the paper's fall goes on below zero, or divides by it"
    assert max(shares) == 1
    top = shares.index(1)
    assert shares[: top + 1] == sorted(shares[: top + 1])
    assert shares[top:] == sorted(shares[top:], reverse=True)


def test_rates_of_layers():
    assert layer_rates(0.01, 4) == pytest.approx([0.01 / 2.6**3, 0.01 / 2.6**2, 0.01 / 2.6, 0.01])
    assert layer_rates(0.01, 3, divisor=1.0) == [0.01] * 3


def test_layers_thaw_from_the_top():
    assert [num_unfrozen(epoch, 4) for epoch in range(6)] == [1, 2, 3, 4, 4, 4]
