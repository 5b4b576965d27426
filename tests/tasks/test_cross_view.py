"""Cross-view training: restricted views, and their training on the predictions of the full view."""

import copy
import dataclasses

import pytest
import torch
from tests.tasks.synthetic_examples import DIFFERENT, examples, tuned, tuned_together

from polyseme.batch import IGNORED
from polyseme.errors import ConfigError
from polyseme.layers.dropout import Dropout
from polyseme.tasks.cross_view import UNLABELLED, restrict
from polyseme.tasks.inputs.multitask import MultiTaskDataset, SemiSupervisedDataset
from polyseme.tasks.networks.features import run_bidirectional_lstm
from polyseme.training.optimization.gradient_learner import draw
from polyseme.training.optimization.optimizer_config import TrainingConfig
from polyseme.training.optimization.thread_parallel import ThreadReplicas

REST = examples("tag", 40, seed=2)


def source_of(model, num_rows=8):
    sets = {name: examples("tag")[: 12 + 12 * number] for number, name in enumerate(model.objective.tasks)}
    return model.objective.read(model.formatter, sets, REST, num_rows=num_rows)


def unlabelled_batch(model):
    batch = model.objective.batch(source_of(model), seed=0, step=1)
    assert set(batch.labels) == {UNLABELLED} and not batch.mask.all()
    return batch


def without_dropout(model):
    model.objective.drop = Dropout(0.0)
    return model


@pytest.mark.parametrize("family", DIFFERENT)
def test_layer_0_has_no_context(family):
    # Otherwise views could not be restricted.
    model = tuned(family, "tag", method="cvt")
    batch = unlabelled_batch(model)
    changed = batch.ids.clone()
    changed[:, 2] = changed[:, 3]
    assert not changed.equal(batch.ids)
    model.encoder.eval()
    before = model.encoder(batch).layers[0]
    after = model.encoder(dataclasses.replace(batch, ids=changed)).layers[0]
    others = torch.arange(batch.ids.shape[1]) != 2
    assert before[:, others].equal(after[:, others])


def scores_of_views(model, words, batch):
    states = restrict(run_bidirectional_lstm(model.objective.lower, words, batch.mask))
    return [head(state) for head, state in zip(model.objective.views["tag"], states, strict=True)]


def test_views_are_restricted():
    model = tuned("skipgram", "tag", method="cvt")
    batch = unlabelled_batch(model)
    words = model.encoder(batch).layers[0].detach().requires_grad_()
    views = scores_of_views(model, words, batch)
    row = int(batch.mask.sum(1).argmin())  # which has padding
    length = int(batch.mask[row].sum())
    assert length < batch.ids.shape[1]
    for place in range(length):
        may = [range(place + 1), range(place, length), range(place), range(place + 1, length)]
        for scores, positions in zip(views, may, strict=True):
            (gradient,) = torch.autograd.grad(scores[row, place].square().sum(), words, retain_graph=True)
            seen = gradient.abs().sum(-1)
            assert seen[row].nonzero().flatten().tolist() == list(positions)
            assert not seen[:row].any() and not seen[row + 1 :].any()


def test_views_at_sentence_boundaries_are_zero():
    forward, backward = torch.arange(1.0, 4.0), torch.tensor([3.0, 2.0, 0.0])  # the third is padding
    parts = restrict(torch.stack([forward, backward], -1)[None])
    assert [part[0, :, 0].tolist() for part in parts] == [[1, 2, 3], [3, 2, 0], [0, 1, 2], [2, 0, 0]]


def test_targets_get_no_gradient():
    model = tuned("elmo", "tag", method="cvt")
    model.objective.train()(model.encoder, unlabelled_batch(model)).losses[UNLABELLED].backward()
    touched = {name for name, weight in model.objective.named_parameters() if weight.grad is not None}
    assert touched == {name for name, _ in model.objective.named_parameters() if name.startswith(("lower.", "views."))}
    touched = {name for name, weight in model.encoder.named_parameters() if weight.grad is not None}
    assert touched == {f"tokens.{name}" for name, _ in model.encoder.tokens.named_parameters()}


def test_targets_are_computed_without_dropout():
    model = without_dropout(tuned("bert", "tag", method="cvt", dropout=0.5, sizes={"dropout": 0.5}))
    batch = unlabelled_batch(model)
    model.encoder.train()
    losses = [model.objective.train()(model.encoder, batch).losses[UNLABELLED].item() for _ in range(2)]
    assert losses[0] == losses[1]
    assert all(module.training for module in model.objective.modules())


def test_loss_is_the_divergence_from_the_full_view():
    model = without_dropout(tuned("skipgram", "tag", method="cvt"))
    batch = unlabelled_batch(model)
    encoded = model.encoder(batch)
    right = model.task.scores(model.encoder, encoded, batch).softmax(-1)
    views = scores_of_views(model, encoded.layers[0], batch)
    targets = batch.labels[UNLABELLED] != IGNORED
    by_hand = sum((right * (right.log() - scores.log_softmax(-1))).sum(-1)[targets].sum() for scores in views)
    loss = model.objective.train()(model.encoder, batch).losses[UNLABELLED]
    assert loss.item() == pytest.approx(by_hand.item(), rel=1e-4) and loss > 0


def test_padding_changes_nothing():
    model = without_dropout(tuned("bert", "tag", method="cvt"))
    (rest,) = source_of(model).unlabelled.sources.values()
    numbers = [0, 5, 11, 17]
    together = rest.batch(numbers, UNLABELLED)
    alone = [rest.batch([number], UNLABELLED) for number in numbers]
    assert not together.mask.all()
    loss, *losses = (
        model.objective.train()(model.encoder, batch).losses[UNLABELLED].item() for batch in (together, *alone)
    )
    assert loss == pytest.approx(sum(losses), rel=1e-5)
    assert together.counts[UNLABELLED] == sum(len(REST[number].words) for number in numbers)


def test_labelled_and_unlabelled_batches_alternate():
    model = tuned_together("skipgram", {"one": "tag", "other": "tag"}, method="cvt")
    source = source_of(model)
    labelled = MultiTaskDataset(sources=source.sources)
    assert isinstance(source, SemiSupervisedDataset) and labelled.num_batches == 2 + 3 and source.num_batches == 8
    config = TrainingConfig(steps=32, seed=1)
    targets = [(labelled, step) for step in range(8)]  # a quarter alone
    targets += [((labelled, 8 + turn), (source.unlabelled, turn))[odd] for turn in range(12) for odd in (0, 1)]
    for step, (part, number) in reversed(list(enumerate(targets))):
        batch, expected = draw(model.objective, source, config, step), part.draw(seed=1, step=number)
        assert batch.labels.keys() == expected.labels.keys() and batch.ids.equal(expected.ids)
    epoch = [source.unlabelled.draw(seed=1, step=turn).counts[UNLABELLED] for turn in range(5)]
    assert sum(epoch) == sum(len(example.words) for example in REST)


def test_training_without_unlabelled_data():
    with_rest, without = tuned("skipgram", "tag", method="cvt"), tuned("skipgram", "tag", method="cvt", consistency=0)
    assert type(source_of(without)) is MultiTaskDataset
    assert type(with_rest.objective.read(with_rest.formatter, {"tag": REST}, num_rows=8)) is MultiTaskDataset
    assert with_rest.objective.state_dict().keys() == without.objective.state_dict().keys()
    assert with_rest.objective.weights == {"tag": 1.0, UNLABELLED: 1.0}
    for _ in without.learner_of(source_of(without), learning_rate=5e-2).steps():
        pass
    assert without.task.score(without.predict(REST), REST)["f1"] > 0.5


def test_views_learn_to_agree():
    model = tuned("skipgram", "tag", method="cvt")
    losses = {"tag": [], UNLABELLED: []}
    for step in model.learner_of(source_of(model), steps=80, learning_rate=5e-2).steps():
        ((name, loss),) = step.losses.items()
        losses[name].append(loss)
    assert len(losses["tag"]) == 50 and len(losses[UNLABELLED]) == 30
    assert sum(losses["tag"][-4:]) < 0.7 * sum(losses["tag"][:4])
    assert sum(losses[UNLABELLED][-4:]) < 0.7 * max(losses[UNLABELLED]) * 4
    assert model.task.score(model.predict(REST), REST)["f1"] > 0.5


@pytest.mark.parametrize("family", ["bert", "gpt", "cove"])
def test_layers_above_layer_0_are_unchanged(family):
    model = tuned(family, "tag", method="cvt")
    before = copy.deepcopy(model.encoder.state_dict())
    for step in model.learner_of(source_of(model), steps=4).steps():
        assert set(step.losses) in ({"tag"}, {UNLABELLED})
    moved = {
        name.split(".")[0] for name, tensor in model.encoder.state_dict().items() if not tensor.equal(before[name])
    }
    assert (
        moved
        == {"bert": {"tokens", "positions", "segments", "norm"}, "gpt": {"tokens", "positions"}, "cove": set()}[family]
    )


def test_tasks_share_the_lstms():
    model = tuned_together("skipgram", {"one": "tag", "other": "tag"}, method="cvt")
    tuning = model.objective
    pointers = [tensor.data_ptr() for tensor in tuning.state_dict().values()]
    assert len(set(pointers)) == len(pointers)  # or it could not be saved
    assert sum(name.endswith("lower.weight_ih_l0") for name in tuning.state_dict()) == 1
    before = copy.deepcopy(tuning.state_dict())
    for _ in model.learner_of(source_of(model), steps=1).steps():  # of one of them
        pass
    moved = {name.split(".")[0] for name, tensor in tuning.state_dict().items() if not tensor.equal(before[name])}
    assert moved in ({"one", "lower", "upper"}, {"other", "lower", "upper"})
    tuning.train()(model.encoder, unlabelled_batch(model)).losses[UNLABELLED].backward()
    assert all(weight.grad is not None for weight in tuning.views.parameters())


def test_resume_is_exact_with_replicas():
    def learner():
        model = tuned_together("elmo", {"one": "tag", "other": "tag"}, method="cvt", dropout=0.3)
        learner = model.learner_of(source_of(model), steps=8)
        learner.replicas = ThreadReplicas(learner.encoder, learner.objective, 2)
        return learner

    def take(learner, number):
        steps = learner.steps()
        for _ in range(number):
            next(steps)
        steps.close()
        return learner.state()

    whole, half, resumed = take(learner(), 8), take(learner(), 5), learner()
    resumed.restore(copy.deepcopy(half))
    again = take(resumed, 3)
    for group, tensors in whole.tensors.items():
        assert tensors.keys() == again.tensors[group].keys()
        assert all(torch.equal(tensor, again.tensors[group][name]) for name, tensor in tensors.items())


@pytest.mark.parametrize("step", [0, 1])
def test_replicas_sum_to_the_gradient_of_the_batch(step):
    model = without_dropout(tuned("elmo", "tag", method="cvt"))
    learner = model.learner_of(source_of(model))
    batch = model.objective.batch(learner.source, seed=0, step=step)
    found = []
    for number in (1, 2):
        learner.replicas = ThreadReplicas(learner.encoder, learner.objective, number)
        with learner.replicas:
            losses = learner._accumulate_gradient(batch)
        found.append((losses, {name: weight.grad for name, weight in learner.weights.items()}))
        learner.replicas.clear_gradients()
    (losses, gradients), (other_losses, other_gradients) = found
    assert losses == pytest.approx(other_losses, rel=1e-5)
    for name, gradient in gradients.items():
        if gradient is None:
            assert other_gradients[name] is None
        else:
            torch.testing.assert_close(other_gradients[name], gradient, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("kind", ["classify", "span"])
def test_other_tasks_are_rejected(kind):
    with pytest.raises(ConfigError, match=r"^finetuning\.method: cvt is for tag tasks"):
        tuned("skipgram", kind, method="cvt")
