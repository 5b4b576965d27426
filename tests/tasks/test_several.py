"""Several tasks on one encoder: their batches are mixed, and each step asks for the task of its batch alone."""

import copy
from collections import Counter

import pytest
import torch
from made_up import examples, tuned, tuned_together

from polyseme.errors import ConfigError
from polyseme.train.learner import draw
from polyseme.train.plan import PlanConfig

KINDS = {"topic": "classify", "slots": "tag", "like": "similarity"}


def source_of(model, num_rows=8):
    sets = {name: examples(KINDS[name])[: 12 + 8 * number] for number, name in enumerate(model.tuning.tasks)}
    return model.tuning.read(model.layout, sets, num_rows=num_rows)


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
        batches = [model.tuning.batch(source, seed=1, step=9 * epoch + place) for place in range(9)]
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
    plan = PlanConfig(steps=40, seed=1)
    backwards = [draw(model.tuning, second, plan, step) for step in reversed(range(18))]
    for step, other in enumerate(reversed(backwards)):
        batch = draw(model.tuning, first, plan, step)
        assert name_of(batch) == name_of(other) and batch.ids.equal(other.ids)
    other_seed = [name_of(model.tuning.batch(first, seed=2, step=step)) for step in range(9)]
    assert other_seed != [name_of(model.tuning.batch(first, seed=1, step=step)) for step in range(9)]


def test_one_task_is_as_it_is_alone():
    model, rows = tuned("skipgram", "tag"), examples("tag")
    mixed, alone = model.tuning.read(model.layout, {"tag": rows}, num_rows=8), model.read(rows, 8)
    for step in range(8):
        one, other = (model.tuning.batch(source, seed=0, step=step) for source in (mixed, alone))
        assert one.ids.equal(other.ids) and one.labels["tag"].equal(other.labels["tag"])
    assert (mixed.length, mixed.num_rows, mixed.num_tokens) == (alone.length, alone.num_rows, alone.num_tokens)


@pytest.mark.parametrize("family", ["bert", "gpt"])
def test_a_step_asks_for_the_task_of_its_batch(family):
    model = tuned_together(family, {"topic": "classify", "slots": "tag"})
    source = source_of(model)
    beside = {"next_token"} if family == "gpt" else set()
    seen = set()
    for step in range(5):
        batch = model.tuning.batch(source, seed=0, step=step)
        (name,) = set(batch.labels) - beside
        seen.add(name)
        outcome = model.tuning(model.encoder, batch)
        assert set(outcome.losses) == {name} | beside
        sum(outcome.losses.values()).backward()
        touched = {
            other for other, task in model.tuning.tasks.items() if any(w.grad is not None for w in task.parameters())
        }
        assert touched == {name}
        assert model.encoder.tokens.weight.grad is not None
        model.tuning.zero_grad()
    assert seen == {"topic", "slots"}


def test_all_tasks_learn():
    model = tuned_together("bert", {"topic": "classify", "slots": "tag"})
    losses = {"topic": [], "slots": []}
    learner = model.learner_of(source_of(model), steps=40)
    for step in learner.steps():
        ((name, loss),) = step.losses.items()
        losses[name].append(loss)
    assert all(sum(some[-4:]) / 4 < 0.7 * some[0] for some in losses.values())
    figures = learner.evaluate(source_of(model), num_batches=5)
    assert set(figures) == {"topic", "topic_accuracy", "slots", "slots_accuracy"}


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


def test_only_cvt_learns_without_labels():
    model = tuned("skipgram", "tag")
    with pytest.raises(ConfigError, match=r"^data\.unlabelled: only cvt .* say tuning\.method=cvt$"):
        model.tuning.read(model.layout, {"tag": examples("tag")}, examples("tag"), num_rows=8)


@pytest.mark.parametrize("name", ["", "one.two", "views", "unlabelled", "next_token"])
def test_some_names_are_taken(name):
    with pytest.raises(ConfigError, match=rf"^tasks\.{name}: a task cannot be called that; choose another name"):
        tuned_together("gpt", {"slots": "tag", name: "tag"})


@pytest.mark.parametrize("name", ["names", "forward", "weights", "tasks", "parts"])
def test_others_are_free(name):
    model = tuned_together("bert", {"slots": "tag", name: "tag"})
    assert list(model.tuning.tasks) == ["slots", name]
    assert f"{name}.head.output.weight" in model.tuning.state_dict()
