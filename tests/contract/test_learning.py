"""What training promises, for every family."""

import copy
import dataclasses
import hashlib

import pytest
import torch


@pytest.fixture(scope="session")
def states(tiny):
    """Where a run stands after each of its twenty steps."""
    learner = tiny.learner()
    return [frozen(learner.state()) for _ in learner.steps()]


def run(learner, num_steps):
    steps = learner.steps()
    for _ in range(num_steps):
        next(steps)
    steps.close()
    return learner


def frozen(state):
    """A state as it would come back from the disk."""
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


def test_batches_are_a_function_of_seed_and_step(drawing):
    def digest(seed, step):
        _, objective = drawing.build(seed=step)
        batch = objective.batch(drawing.source, seed=seed, step=step)
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
    assert_same(run(last, 20 - last.done).state(), states[-1])


def test_accumulation_changes_nothing(drawing):
    """The same update from one pass and from many, up to the order in which floats are added."""
    tiny = copy.copy(drawing)
    tiny.recipe = dataclasses.replace(tiny.recipe, model=tiny.recipe.model.replace(dropout=0.0))
    whole, pieces = tiny.learner(), tiny.learner()
    pieces.micro_tokens = 3 * tiny.source.length  # of eight rows
    batch = whole.objective.batch(tiny.source, seed=0, step=0)
    losses = [learner._gradient(batch) for learner in (whole, pieces)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    for name, weight in whole.weights.items():
        torch.testing.assert_close(pieces.weights[name].grad, weight.grad, atol=1e-6, rtol=1e-4)


def test_it_learns(tiny):
    learner = tiny.learner(steps=60, rate=5e-3 if tiny.by_gradient else 0.2)
    before = learner.evaluate(tiny.source, num_batches=4)
    if not before:
        pytest.skip("nothing is measured on other text")
    run(learner, 60)
    after = learner.evaluate(tiny.source, num_batches=4)
    name = learner.objective.names[-1] if tiny.by_gradient else tiny.recipe.objective.kind
    assert after[name] < before[name] - (1.0 if tiny.by_gradient else 0.3)
    if tiny.by_gradient:
        assert after[f"{name}_accuracy"] > before[f"{name}_accuracy"]


def test_evaluation_leaves_no_trace(tiny):
    plain = run(tiny.learner(), 6).state()
    watched = tiny.learner()
    steps = watched.steps()
    for _ in range(6):
        next(steps)
        watched.evaluate(tiny.source, num_batches=2)
    steps.close()
    assert_same(watched.state(), plain)
