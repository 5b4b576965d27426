"""Multi-task training: batches of several tasks are mixed, and each step trains one of them."""

import copy
from collections import Counter

import pytest
import torch
from tests.tasks.synthetic_examples import examples, tuned, tuned_together

from polyseme.errors import ConfigError
from polyseme.training.optimization.gradient_learner import draw
from polyseme.training.optimization.optimizer_config import TrainingConfig

KINDS = {"topic": "classify", "slots": "tag", "like": "similarity"}


def source_of(model, num_rows=8):
    sets = {name: examples(KINDS[name])[: 12 + 8 * number] for number, name in enumerate(model.objective.tasks)}
    return model.objective.read(model.formatter, sets, num_rows=num_rows)


def name_of(batch):
    (name,) = batch.labels
    return name


def test_an_epoch_has_every_batch_of_every_task_once():
    model = tuned_together("skipgram", KINDS)
    source = source_of(model)
    counts = {name: examples.num_batches for name, examples in source.sources.items()}
    assert counts == {"topic": 2, "slots": 3, "like": 4} and source.num_batches == 9
    orders = []
    for epoch in range(2):
        batches = [model.objective.batch(source, seed=1, step=9 * epoch + place) for place in range(9)]
        orders.append([name_of(batch) for batch in batches])
        assert Counter(orders[-1]) == counts
        for name, alone in source.sources.items():
            own = [alone.draw(name, seed=1, step=counts[name] * epoch + number) for number in range(counts[name])]
            mixed = [batch for batch in batches if name_of(batch) == name]
            assert all(one.ids.equal(other.ids) for one, other in zip(own, mixed, strict=True))
    assert orders[0] != orders[1] and orders[0] != sorted(orders[0])


def test_batches_are_a_function_of_seed_and_step():
    model = tuned_together("skipgram", KINDS)
    first, second = source_of(model), source_of(model)
    config = TrainingConfig(steps=40, seed=1)
    backwards = [draw(model.objective, second, config, step) for step in reversed(range(18))]
    for step, other in enumerate(reversed(backwards)):
        batch = draw(model.objective, first, config, step)
        assert name_of(batch) == name_of(other) and batch.ids.equal(other.ids)
    other_seed = [name_of(model.objective.batch(first, seed=2, step=step)) for step in range(9)]
    assert other_seed != [name_of(model.objective.batch(first, seed=1, step=step)) for step in range(9)]


def test_one_task_equals_single_task_training():
    model, rows = tuned("skipgram", "tag"), examples("tag")
    mixed, alone = model.objective.read(model.formatter, {"tag": rows}, num_rows=8), model.read(rows, 8)
    for step in range(8):
        one, other = (model.objective.batch(source, seed=0, step=step) for source in (mixed, alone))
        assert one.ids.equal(other.ids) and one.labels["tag"].equal(other.labels["tag"])
    assert (mixed.length, mixed.num_rows, mixed.num_tokens) == (alone.length, alone.num_rows, alone.num_tokens)


@pytest.mark.parametrize("family", ["bert", "gpt"])
def test_step_trains_the_task_of_its_batch(family):
    model = tuned_together(family, {"topic": "classify", "slots": "tag"})
    source = source_of(model)
    beside = {"causal_lm"} if family == "gpt" else set()
    seen = set()
    for step in range(5):
        batch = model.objective.batch(source, seed=0, step=step)
        (name,) = set(batch.labels) - beside
        seen.add(name)
        outcome = model.objective(model.encoder, batch)
        assert set(outcome.losses) == {name} | beside
        sum(outcome.losses.values()).backward()
        touched = {
            other for other, task in model.objective.tasks.items() if any(w.grad is not None for w in task.parameters())
        }
        assert touched == {name}
        assert model.encoder.tokens.weight.grad is not None
        model.objective.zero_grad()
    assert seen == {"topic", "slots"}


def test_all_tasks_learn():
    model = tuned_together("bert", {"topic": "classify", "slots": "tag"})
    losses = {"topic": [], "slots": []}
    learner = model.learner_of(source_of(model), steps=40)
    for step in learner.steps():
        ((name, loss),) = step.losses.items()
        losses[name].append(loss)
    assert all(sum(some[-4:]) / 4 < 0.7 * some[0] for some in losses.values())
    metrics = learner.evaluate(source_of(model), num_batches=5)
    assert set(metrics) == {"topic", "topic_accuracy", "slots", "slots_accuracy"}


def test_resume_is_exact():
    def learner():
        model = tuned_together("gpt", {"topic": "classify", "slots": "tag"}, dropout=0.2)
        return model.learner_of(source_of(model), steps=8)

    def take(learner, number):
        steps = learner.steps()
        for _ in range(number):
            next(steps)
        steps.close()
        return learner.state()

    whole, half, resumed = take(learner(), 8), take(learner(), 3), learner()
    resumed.restore(copy.deepcopy(half))
    again = take(resumed, 5)
    for group, tensors in whole.tensors.items():
        assert all(torch.equal(tensor, again.tensors[group][name]) for name, tensor in tensors.items())


def test_only_cvt_uses_unlabelled_examples():
    model = tuned("skipgram", "tag")
    with pytest.raises(ConfigError, match=r"^data\.unlabelled: only cvt .* finetuning\.method=cvt$"):
        model.objective.read(model.formatter, {"tag": examples("tag")}, examples("tag"), num_rows=8)


@pytest.mark.parametrize("name", ["", "one.two", "views", "unlabelled", "causal_lm"])
def test_reserved_task_names(name):
    with pytest.raises(ConfigError, match=rf"^tasks\.{name}: this name is reserved"):
        tuned_together("gpt", {"slots": "tag", name: "tag"})


@pytest.mark.parametrize("name", ["names", "forward", "weights", "tasks", "parts"])
def test_other_task_names(name):
    model = tuned_together("bert", {"slots": "tag", name: "tag"})
    assert list(model.objective.tasks) == ["slots", name]
    assert f"{name}.head.output.weight" in model.objective.state_dict()
