"""Contract of training, for every family."""

import copy
import dataclasses
import hashlib

import pytest
import torch


@pytest.fixture(scope="session")
def states(tiny):
    """Learner state after each of twenty steps."""
    learner = tiny.learner()
    return [frozen(learner.state()) for _ in learner.steps()]


def run(learner, num_steps):
    steps = learner.steps()
    for _ in range(num_steps):
        next(steps)
    steps.close()
    return learner


def frozen(state):
    """A copy, as a checkpoint would restore it."""
    return copy.deepcopy(state)


def assert_same(left, right):
    for group, tensors in left.tensors.items():
        assert tensors.keys() == right.tensors[group].keys()
        for name, tensor in tensors.items():
            assert torch.equal(tensor, right.tensors[group][name]), f"{group}: {name}"
    ignored = {"seconds", "processor_seconds"}
    assert {k: v for k, v in left.values.items() if k not in ignored} == {
        k: v for k, v in right.values.items() if k not in ignored
    }


def test_batches_depend_on_seed_and_step_only(gradient_family):
    def digest(seed, step):
        _, objective = gradient_family.build(seed=step)
        batch = objective.batch(gradient_family.source, seed=seed, step=step)
        parts = [batch.ids, *batch.labels.values()] + ([] if batch.segments is None else [batch.segments])
        return hashlib.sha256(b"".join(part.numpy().tobytes() for part in parts)).hexdigest()

    first = [digest(0, step) for step in range(20)]
    assert first == [digest(0, step) for step in range(20)]
    assert len(set(first)) == 20
    assert digest(1, 0) != first[0]


@pytest.mark.parametrize("at", range(1, 20))
def test_resume_is_bit_exact_at_every_step(tiny, states, at):
    resumed = tiny.learner()
    resumed.restore(frozen(states[at - 1]))
    assert_same(run(resumed, 1).state(), states[at])


def test_a_resume_of_a_resume_is_bit_exact(tiny, states):
    resumed = tiny.learner()
    resumed.restore(frozen(states[5]))
    again = frozen(run(resumed, 7).state())
    last = tiny.learner()
    last.restore(again)
    assert_same(run(last, 20 - last.steps_done).state(), states[-1])


def test_gradient_accumulation(gradient_family):
    """Equal gradients from one micro-batch and from several, up to rounding."""
    tiny = copy.copy(gradient_family)
    tiny.recipe = dataclasses.replace(tiny.recipe, model=tiny.recipe.model.replace(dropout=0.0))
    whole, pieces = tiny.learner(), tiny.learner()
    pieces.micro_batch_tokens = 3 * tiny.source.length  # of eight sequences
    batch = whole.objective.batch(tiny.source, seed=0, step=0)
    losses = [learner._accumulate_gradient(batch) for learner in (whole, pieces)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    for name, weight in whole.weights.items():
        torch.testing.assert_close(pieces.weights[name].grad, weight.grad, atol=1e-6, rtol=1e-4)


def test_training_reduces_the_loss(tiny):
    learner = tiny.learner(steps=60, learning_rate=5e-3 if tiny.by_gradient else 0.2)
    before = learner.evaluate(tiny.source, num_batches=4)
    if not before:
        pytest.skip("no validation metrics")
    run(learner, 60)
    after = learner.evaluate(tiny.source, num_batches=4)
    name, *_ = before
    if tiny.by_gradient:
        *_, name = learner.objective.batch(tiny.source, seed=0, step=0).counts
    assert after[name] < before[name] - (1.0 if tiny.by_gradient else 0.3)
    if tiny.by_gradient:
        assert after[f"{name}_accuracy"] > before[f"{name}_accuracy"]


def test_evaluation_does_not_change_the_state(tiny):
    plain = run(tiny.learner(), 6).state()
    watched = tiny.learner()
    steps = watched.steps()
    for _ in range(6):
        next(steps)
        watched.evaluate(tiny.source, num_batches=2)
    steps.close()
    assert_same(watched.state(), plain)
