"""Gradual unfreezing, discriminative learning rates, batch normalization, and truncated backpropagation."""

import copy
import dataclasses

import pytest
import torch
from tests.tasks.synthetic_examples import KINDS, check_learning, encoder_of, examples, tuned
from torch import nn

from polyseme.batch import Batch
from polyseme.errors import ConfigError
from polyseme.tasks.networks.heads import BatchNorm, BatchNormHead
from polyseme.training.optimization.lr_schedules import num_frozen
from polyseme.training.optimization.optimizer_config import TrainingConfig
from polyseme.training.optimization.thread_parallel import ThreadReplicas, layer_group_weights
from polyseme.training.storage.model_dir import open_model, write_model

DROPOUTS = {"dropout": 0.3}
LONG = {"max_length": 100, "sizes": {"max_length": 16}}


def gradual(family="ulmfit", kind="classify", **settings):
    return tuned(family, kind, method="gradual", **settings)


def repeated(kind="classify", times=8):
    """Texts repeated to several times their length."""
    return [dataclasses.replace(row, text=" ".join([row.text] * times)) for row in examples(kind)]


def take(learner, number):
    steps = learner.steps()
    for _ in range(number):
        next(steps)
    steps.close()
    return learner


def test_one_more_layer_group_is_trained_in_each_epoch():
    config = TrainingConfig(unfreeze_every=5)
    assert [num_frozen(config, step, 3) for step in (0, 4, 5, 9, 10, 100)] == [2, 2, 1, 1, 0, 0]
    assert num_frozen(TrainingConfig(), 0, 3) == 0


@pytest.mark.parametrize(("family", "replicas"), [("ulmfit", 1), ("roberta", 2), ("cove", 1)])
def test_frozen_weights_do_not_change(family, replicas):
    model = gradual(family)
    stages = [{id(weight) for weight in stage} for stage in layer_group_weights(model.encoder)]
    learner = model.learner(examples("classify"), steps=8, unfreeze_every=2, weight_decay=0.5, warmup_fraction=0.0)
    learner.replicas = ThreadReplicas(learner.encoder, learner.objective, replicas)
    learning = {name for name, weight in learner.weights.items() if weight.requires_grad}
    before = copy.deepcopy(learner.weights)
    for step in learner.steps():
        still = set().union(*stages[: num_frozen(learner.config, step.number - 1, len(stages))])
        for name, weight in learner.weights.items():
            spared = id(weight) in still or name not in learning
            assert torch.equal(weight, before[name]) == spared, (name, step.number)
            assert (weight in learner.optimizer.state) == (not spared)
        for encoder, _ in learner.replicas.models:
            held = layer_group_weights(encoder)
            assert len(held) == len(stages) - len([stage for stage in stages if stage & still])
        before = copy.deepcopy(learner.weights)
    assert {name for name, weight in learner.weights.items() if weight.requires_grad} == learning


def test_frozen_layers_get_no_gradient():
    learner = gradual().learner(examples("classify"), steps=6, unfreeze_every=2)
    encoded = []
    learner.encoder.register_forward_hook(lambda _, __, output: encoded.append(output))
    take(learner, 6)
    needed = [[layer.requires_grad for layer in output.layers] for output in encoded]
    assert needed[::2] == [[False, False, True], [False, True, True], [True, True, True]]


@pytest.mark.parametrize(("family", "kind"), [("ulmfit", "classify"), ("elmo", "tag")])
@pytest.mark.parametrize("at", [2, 5])
def test_resume_is_exact_at_any_stage(family, kind, at):
    def learner():
        return gradual(family, kind, dropout=0.2, sizes=DROPOUTS).learner(examples(kind), steps=7, unfreeze_every=2)

    whole = take(learner(), 7).state()
    resumed = learner()
    resumed.restore(copy.deepcopy(take(learner(), at).state()))
    again = take(resumed, 7 - at).state()
    for group, tensors in whole.tensors.items():
        assert tensors.keys() == again.tensors[group].keys()
        assert all(torch.equal(tensor, again.tensors[group][name]) for name, tensor in tensors.items())
    assert (family == "ulmfit") == ("classify.head.norm.mean" in whole.tensors["weights"])


@pytest.mark.parametrize(("family", "num_stages"), [("ulmfit", 3), ("roberta", 3), ("gpt", 3)])
def test_lower_layers_have_lower_learning_rates(family, num_stages):
    model = gradual(family)
    learner = model.learner(examples("classify"), layer_lr_divisor=2.6)
    shares = {
        id(weight): group["lr_multiplier"] for group in learner.optimizer.param_groups for weight in group["params"]
    }
    found = [{shares[id(weight)] for weight in stage.parameters()} for stage in model.encoder.layer_groups()]
    found = [stage for stage in found if stage]  # a RoBERTa has nothing of its own above its blocks
    assert [share for (share,) in found] == pytest.approx([2.6**-below for below in reversed(range(num_stages))])
    assert {shares[id(weight)] for weight in model.objective.parameters()} == {1.0}


@pytest.mark.parametrize("kind", KINDS)
def test_all_tasks_learn(kind):
    losses, _ = check_learning("ulmfit", kind, method="gradual")
    assert len(losses) == 40


@pytest.mark.parametrize("family", ["onehot", "skipgram"])
def test_one_layer_cannot_be_unfrozen(family):
    with pytest.raises(ConfigError, match=r"finetuning\.method: .*; use full or frozen"):
        gradual(family)


def test_families_with_batch_normalization():
    assert isinstance(gradual("elmo", "pair").task.head, BatchNormHead)
    for other in (gradual("bert"), gradual("ulmfit", "tag"), tuned("ulmfit", "classify")):
        assert not isinstance(other.task.head, BatchNormHead) and not list(other.objective.buffers())


def test_batch_norm_equals_torch():
    torch.manual_seed(0)
    ours, theirs = BatchNorm(5), nn.BatchNorm1d(5)
    for _ in range(3):
        x = 3 + 2 * torch.randn(7, 5)
        torch.testing.assert_close(ours(x), theirs(x))
    torch.testing.assert_close(ours.mean, theirs.running_mean)
    torch.testing.assert_close(ours.variance, theirs.running_var)
    ours.eval(), theirs.eval()
    torch.testing.assert_close(ours(x[None]), theirs(x)[None])


@pytest.mark.parametrize("batching", [{"num_rows": 1}, {"num_rows": 9, "micro_batch_tokens": 80}])
def test_single_row_uses_running_statistics(batching):
    learner = gradual().learner(examples("classify")[:9], steps=4, **batching)
    assert all(torch.isfinite(torch.tensor(step.losses["classify"])) for step in learner.steps())
    moved = learner.statistics["classify.head.norm.mean"].abs().sum() > 0
    assert moved == (batching["num_rows"] > 1)


def test_statistics_are_of_the_batch(monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 4)
    learner = gradual().learner(examples("classify"), steps=1)
    assert len(learner.replicas.models) == 1
    assert len(tuned("ulmfit", "classify").learner(examples("classify"), steps=1).replicas.models) == 4


def test_skipped_step_does_not_change_statistics():
    learner = take(gradual().learner(examples("classify"), steps=4), 1)
    before = copy.deepcopy(learner.statistics)
    with torch.no_grad():
        learner.encoder.tokens.weight.fill_(torch.nan)
    steps = learner.steps()
    assert next(steps).skipped
    steps.close()
    assert all(torch.equal(tensor, before[name]) for name, tensor in learner.statistics.items())


def test_statistics_are_saved_with_the_model(tmp_path):
    model = gradual()
    take(model.learner(examples("classify"), steps=5), 5)
    expected = model.predict(examples("classify"))
    write_model(tmp_path, family="ulmfit", encoder=model.encoder, heads=model.objective, extra={})
    fresh = gradual()
    fresh.encoder, found = open_model(tmp_path).load(fresh.objective)
    assert found == set(fresh.objective.state_dict())
    assert fresh.predict(examples("classify")) == expected


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_chunks_pass_state_but_no_gradient(direction):
    encoder = encoder_of("ulmfit", direction=direction)
    ids = torch.arange(14).view(2, 7) + 5
    mask = torch.tensor([[True] * 7, [True] * 5 + [False] * 2])

    def read(chunk):
        encoded = encoder(Batch(ids=ids, mask=mask, bptt_length=chunk))
        encoded.layers[0].retain_grad()
        return encoded

    def reached(encoded, row, place):
        (gradient,) = torch.autograd.grad(encoded.layers[-1][row, place].sum(), encoded.layers[0], retain_graph=True)
        return gradient.abs().sum(-1).nonzero().tolist()

    whole, chunked = read(0), read(3)
    for ours, theirs in zip(chunked.layers, whole.layers, strict=True):
        torch.testing.assert_close(ours[mask], theirs[mask])
    for name, tensor in whole.state.recurrent_state.items():
        torch.testing.assert_close(chunked.state.recurrent_state[name], tensor)
    if direction == "forward":
        assert reached(whole, 0, 4) == [[0, place] for place in range(5)]
        assert reached(chunked, 0, 4) == [[0, 3], [0, 4]]
        assert reached(chunked, 1, 2) == [[1, 0], [1, 1], [1, 2]]
    else:  # 6 5 4, 3 2 1, 0; of the shorter row 4 3 2, 1 0
        assert reached(whole, 0, 2) == [[0, place] for place in range(2, 7)]
        assert reached(chunked, 0, 2) == [[0, 2], [0, 3]]
        assert reached(chunked, 1, 0) == [[1, 0], [1, 1]]
    chunked.layers[-1][mask].sum().backward()
    assert torch.equal(chunked.layers[0].grad.abs().sum(-1) > 0, mask), "every chunk is trained on"


def test_long_texts_are_encoded_in_chunks():
    model = gradual(chunk=8, **LONG)
    source = model.read(repeated())
    assert source.length > 2 * model.encoder.config.max_length
    assert model.objective.batch(source, seed=0, step=0).bptt_length == 8
    assert tuned("ulmfit", "classify").objective.batch(source, seed=0, step=0).bptt_length == 0
    assert gradual("bert", **LONG).read(repeated()).length == 16
    steps = list(model.learner(repeated(), steps=30, unfreeze_every=3).steps())
    assert steps[-1].losses["classify"] < 0.7 * steps[0].losses["classify"]


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_predictions_do_not_depend_on_the_batch(direction):
    model = gradual(max_length=100, sizes={"direction": direction}, chunk=8)
    rows = [*examples("classify")[:6], *repeated()[:6], *repeated(times=2)[:4]]
    take(model.learner(rows, steps=6, num_rows=8), 6)
    together = model.predict(rows)
    for row, answer in zip(rows, together, strict=True):
        assert model.predict([row])[0].probabilities == pytest.approx(answer.probabilities, abs=1e-5)
