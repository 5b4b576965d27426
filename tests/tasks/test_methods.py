"""What moves under each method, what stays, and that a run can be resumed."""

import copy

import pytest
import torch
from made_up import KINDS, examples, tuned

from polyseme.errors import ConfigError
from polyseme.tasks import read_task
from polyseme.tensors import IGNORED


def gradients(model, kind):
    batch = model.tuning.batch(model.read(examples(kind)[:12]), seed=0, step=0)
    model.encoder.train()
    outcome = model.tuning.train()(model.encoder, batch)
    sum(outcome.losses.values()).backward()
    touched = [
        {name for name, weight in part.named_parameters() if weight.grad is not None and weight.grad.abs().sum() > 0}
        for part in (model.encoder, model.tuning)
    ]
    return touched, outcome


@pytest.mark.parametrize("family", ["bert", "gpt", "elmo", "ulmfit", "cove", "nnlm", "skipgram"])
@pytest.mark.parametrize("method", ["full", "frozen", "mix", "gradual"])
@pytest.mark.parametrize("kind", ["pair", "tag"])
def test_gradients_reach_what_they_should(family, method, kind):
    if family == "skipgram" and method in ("mix", "gradual"):
        with pytest.raises(ConfigError, match=r"tuning\.method: .* say (full or )?frozen"):
            tuned(family, kind, method=method)
        return
    model = tuned(family, kind, method=method)
    before = copy.deepcopy(model.encoder.state_dict())
    (encoder, heads), _ = gradients(model, kind)
    assert heads == {name for name, _ in model.tuning.named_parameters()}
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
def test_all_tasks_learn_above_an_encoder_that_stays(family, method, kind):
    model = tuned(family, kind, method=method)
    losses = [step.losses[kind] for step in model.learner(examples(kind), steps=24, rate=2e-2).steps()]
    assert sum(losses[-4:]) / 4 < 0.95 * losses[0]
    assert len(model.predict(examples(kind)[:3])) == 3


def test_an_encoder_that_stays_drops_nothing():
    model = tuned("bert", "classify", method="frozen", sizes={"dropout": 0.4})
    batch = model.tuning.batch(model.read(examples("classify")), seed=0, step=0)
    model.encoder.train()
    losses = [model.tuning.train()(model.encoder, batch).losses["classify"].item() for _ in range(2)]
    assert losses[0] == losses[1]


def test_the_shares_of_layers_are_learnt_and_kept_near_each_other():
    model = tuned("ulmfit", "tag", method="mix", penalty=0.0)
    strict = tuned("ulmfit", "tag", method="mix", penalty=10.0)
    for one in (model, strict):
        for _ in one.learner(examples("tag"), steps=12, rate=3e-2).steps():
            pass
    free, kept = (one.task.features.mix.shares[0] for one in (model, strict))
    assert free.shape == (3,) and free.sum().item() == pytest.approx(1)
    assert kept.std() < 0.5 * free.std()


def test_the_next_token_counts_beside_the_task():
    model = tuned("gpt", "similarity", language_model=0.25)
    assert model.tuning.weights == {"similarity": 1.0, "next_token": 0.25}
    batch = model.tuning.batch(model.read(examples("similarity")), seed=0, step=0)
    labels = batch.labels["next_token"]
    for ids, mask, asked in zip(batch.ids, batch.mask, labels, strict=True):
        length = int(mask.sum())
        assert asked[: length - 1].tolist() == ids[1:length].tolist() and (asked[length - 1 :] == IGNORED).all()
    assert batch.counts["next_token"] == int(batch.mask.sum()) - len(batch.ids)
    steps = list(model.learner(examples("similarity"), steps=20).steps())
    assert steps[-1].losses["next_token"] < steps[0].losses["next_token"]
    for others in (tuned("gpt", "tag", method="mix"), tuned("gpt", "tag", language_model=0), tuned("bert", "tag")):
        assert others.tuning.names == ("tag",)


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
    assert whole._gradient(batch) == pytest.approx(pieces._gradient(batch), rel=1e-5)
    for name, weight in whole.weights.items():
        if weight.grad is not None:
            torch.testing.assert_close(pieces.weights[name].grad, weight.grad, atol=1e-6, rtol=1e-4)


def test_evaluation_tells_loss_and_accuracy():
    model = tuned("gpt", "pair")
    learner = model.learner(examples("pair"))
    figures = learner.evaluate(model.read(examples("pair", 20, seed=1)), num_batches=2)
    assert set(figures) == {"pair", "pair_accuracy", "next_token", "next_token_accuracy"}


@pytest.mark.parametrize(
    ("kind", "settings", "message"),
    [
        ("clasify", {}, "did you mean classify"),
        ("classify", {"labels": ["a", "b"], "weights": [1.0]}, "give one for each"),
        ("classify", {"labels": ["a"]}, "at least 2"),
        ("span", {"strid": 3}, "did you mean task.stride"),
    ],
)
def test_mistakes(kind, settings, message):
    with pytest.raises(ConfigError, match=message):
        read_task(kind, **settings)
