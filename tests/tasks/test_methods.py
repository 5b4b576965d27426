"""Fine-tuning methods: trained and frozen weights, and exact resume."""

import copy

import pytest
import torch
from tests.tasks.synthetic_examples import KINDS, examples, parse_task, tuned

from polyseme.batch import IGNORED
from polyseme.errors import ConfigError


def gradients(model, kind):
    batch = model.objective.batch(model.read(examples(kind)[:12]), seed=0, step=0)
    model.encoder.train()
    outcome = model.objective.train()(model.encoder, batch)
    sum(outcome.losses.values()).backward()
    touched = [
        {name for name, weight in part.named_parameters() if weight.grad is not None and weight.grad.abs().sum() > 0}
        for part in (model.encoder, model.objective)
    ]
    return touched, outcome


@pytest.mark.parametrize("family", ["bert", "gpt", "elmo", "ulmfit", "cove", "nnlm", "skipgram"])
@pytest.mark.parametrize("method", ["full", "frozen", "mix", "gradual"])
@pytest.mark.parametrize("kind", ["pair", "tag"])
def test_trained_weights_get_gradients(family, method, kind):
    if family == "skipgram" and method in ("mix", "gradual"):
        with pytest.raises(ConfigError, match=r"finetuning\.method: .* use (full or )?frozen"):
            tuned(family, kind, method=method)
        return
    model = tuned(family, kind, method=method)
    before = copy.deepcopy(model.encoder.state_dict())
    (encoder, heads), _ = gradients(model, kind)
    assert heads == {name for name, _ in model.objective.named_parameters()}
    if method in ("full", "gradual"):
        trained = {name for name, weight in model.encoder.named_parameters() if weight.requires_grad}
        spared = {name for name in trained if name.startswith("pooler") and kind == "tag"}  # which sums rows up
        assert encoder == trained - spared
    else:
        assert not encoder
        learner = model.learner(examples(kind), steps=3)
        for _ in learner.steps():
            pass
        assert all(torch.equal(before[name], weight) for name, weight in model.encoder.state_dict().items())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("family", "method"), [("bert", "mix"), ("ulmfit", "mix"), ("gpt2", "frozen")])
def test_all_tasks_learn_with_a_frozen_encoder(family, method, kind):
    model = tuned(family, kind, method=method)
    losses = [step.losses[kind] for step in model.learner(examples(kind), steps=24, learning_rate=2e-2).steps()]
    assert sum(losses[-4:]) / 4 < 0.95 * losses[0]
    assert len(model.predict(examples(kind)[:3])) == 3


def test_frozen_encoder_has_no_dropout():
    model = tuned("bert", "classify", method="frozen", sizes={"dropout": 0.4})
    batch = model.objective.batch(model.read(examples("classify")), seed=0, step=0)
    model.encoder.train()
    losses = [model.objective.train()(model.encoder, batch).losses["classify"].item() for _ in range(2)]
    assert losses[0] == losses[1]


def test_layer_weights_are_trained_and_regularized():
    model = tuned("ulmfit", "tag", method="mix", penalty=0.0)
    strict = tuned("ulmfit", "tag", method="mix", penalty=10.0)
    for one in (model, strict):
        for _ in one.learner(examples("tag"), steps=12, learning_rate=3e-2).steps():
            pass
    free, regularized = (one.task.features.mix.layer_weights for one in (model, strict))
    assert free.shape == (3,) and free.sum().item() == pytest.approx(1)
    assert regularized.std() < 0.5 * free.std()


def test_auxiliary_language_model():
    model = tuned("gpt", "similarity", language_model=0.25)
    assert model.objective.weights == {"similarity": 1.0, "causal_lm": 0.25}
    batch = model.objective.batch(model.read(examples("similarity")), seed=0, step=0)
    labels = batch.labels["causal_lm"]
    for ids, mask, targets in zip(batch.ids, batch.mask, labels, strict=True):
        length = int(mask.sum())
        assert targets[: length - 1].tolist() == ids[1:length].tolist() and (targets[length - 1 :] == IGNORED).all()
    assert batch.counts["causal_lm"] == int(batch.mask.sum()) - len(batch.ids)
    steps = list(model.learner(examples("similarity"), steps=20).steps())
    assert steps[-1].losses["causal_lm"] < steps[0].losses["causal_lm"]
    for others in (tuned("gpt", "tag", method="mix"), tuned("gpt", "tag", language_model=0), tuned("bert", "tag")):
        assert others.objective.names == ("tag",)


@pytest.mark.parametrize(("family", "kind", "method"), [("gpt", "choice", "full"), ("elmo", "tag", "mix")])
def test_resume_is_exact(family, kind, method):
    def learner():
        return tuned(family, kind, method=method, dropout=0.2, sizes={"dropout": 0.1}).learner(examples(kind), steps=6)

    def take(learner, number):
        steps = learner.steps()
        for _ in range(number):
            next(steps)
        steps.close()
        return learner

    whole = take(learner(), 6).state()
    resumed = learner()
    resumed.restore(copy.deepcopy(take(learner(), 3).state()))
    again = take(resumed, 3).state()
    for group, tensors in whole.tensors.items():
        assert all(torch.equal(tensor, again.tensors[group][name]) for name, tensor in tensors.items())


def test_accumulation_changes_nothing():
    whole, pieces = (tuned("bert", "choice").learner(examples("choice")) for _ in range(2))
    batch = whole.objective.batch(whole.source, seed=0, step=0)
    pieces.micro_tokens = 4 * batch.ids.shape[1]
    assert whole._accumulate_gradient(batch) == pytest.approx(pieces._accumulate_gradient(batch), rel=1e-5)
    for name, weight in whole.weights.items():
        if weight.grad is not None:
            torch.testing.assert_close(pieces.weights[name].grad, weight.grad, atol=1e-6, rtol=1e-4)


def test_evaluation_has_loss_and_accuracy():
    model = tuned("gpt", "pair")
    learner = model.learner(examples("pair"))
    metrics = learner.evaluate(model.read(examples("pair", 20, seed=1)), num_batches=2)
    assert set(metrics) == {"pair", "pair_accuracy", "causal_lm", "causal_lm_accuracy"}


@pytest.mark.parametrize(
    ("kind", "settings", "message"),
    [
        ("clasify", {}, "did you mean classify"),
        ("classify", {"labels": ["a", "b"], "weights": [1.0]}, "give one for each"),
        ("classify", {"labels": ["a"]}, "at least 2"),
        ("span", {"strid": 3}, "did you mean task.stride"),
    ],
)
def test_invalid_settings(kind, settings, message):
    with pytest.raises(ConfigError, match=message):
        parse_task(kind, **settings)
