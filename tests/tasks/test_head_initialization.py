"""Fine-tuning starts at the solution of a linear probe."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from tests.tasks.synthetic_examples import examples, tuned

from polyseme.batch import IGNORED
from polyseme.tasks.head_initialization import (
    ProbeData,
    collect_inputs,
    fit_probes,
    has_linear_output,
    initialize_head,
    load_solution,
)
from polyseme.tasks.networks.heads import BatchNormHead, MaxoutHead

HEADS = [
    # On the pooled vector of a family: with a bias, without, and above a dense layer.
    ("bert", "classify", {}),
    ("gpt", "classify", {}),
    ("roberta", "classify", {}),
    ("gpt2", "tag", {}),
    ("bert", "similarity", {}),
    # Beside an LSTM, a biattentive network with a maxout head, batch normalization, and a scalar mix.
    ("skipgram", "classify", {"linear_path": True}),
    ("skipgram", "tag", {"linear_path": True}),
    ("onehot", "pair", {"linear_path": True}),
    ("cove", "classify", {"linear_path": True}),
    ("ulmfit", "classify", {"linear_path": True, "method": "gradual"}),
    ("elmo", "pair", {"linear_path": True, "method": "mix"}),
    ("elmo", "similarity", {"linear_path": True}),
    ("bert", "similarity", {"linear_path": True, "text_pairs": "bi_encoder"}),
]


def labelled_scores(model, source):
    """Scores and targets of all labelled positions, in the order of `collect_inputs`."""
    task, found, targets = model.task.eval(), [], []
    with torch.inference_mode():
        for step in range(source.num_batches):
            batch = source.draw(task.name, seed=0, step=step)
            scores = task.scores(model.encoder.eval(), model.encoder(batch), batch).flatten(0, -2)
            labels = batch.labels[task.name][:: batch.rows_per_example].flatten()
            found.append(scores[labels != IGNORED].double().numpy())
            targets.append(labels[labels != IGNORED].double().numpy())
    return np.concatenate(found), np.concatenate(targets)


@pytest.mark.parametrize(("family", "kind", "settings"), HEADS)
def test_scores_are_those_of_the_probe(family, kind, settings):
    model = tuned(family, kind, **settings)
    source, regression = model.read(examples(kind)), kind == "similarity"
    data = collect_inputs(model.task, model.encoder, source)
    strong, weak = fit_probes(model.task, data, regression=regression, strengths=(10.0, 1e-2))
    for probe in (strong, weak, strong):  # a solution replaces the one before
        load_solution(model.task, probe)
        scores, targets = labelled_scores(model, source)
        expected = (data.rows - probe.mean) / probe.deviation @ probe.weight.T + probe.bias
        np.testing.assert_allclose(scores, expected, atol=1e-4)
        np.testing.assert_array_equal(targets, data.targets)
    load_solution(model.task, weak)
    weakly, _ = labelled_scores(model, source)
    errors = [
        np.mean((found[:, 0] - targets) ** 2) if regression else np.mean(found.argmax(1) != targets)
        for found in (scores, weakly)
    ]
    assert errors[1] <= errors[0] and errors[1] < (0.6 if regression else 0.45)


def test_probe_is_the_logistic_regression_of_scikit_learn():
    model = tuned("elmo", "classify", linear_path=True)
    source = model.read(examples("classify"))
    (probe,) = fit_probes(
        model.task, collect_inputs(model.task, model.encoder, source), regression=False, strengths=(1e-2,)
    )
    load_solution(model.task, probe)
    rows, targets = [], []
    for step in range(source.num_batches):
        batch = source.draw("classify", seed=0, step=step)
        layers = torch.cat(model.encoder(batch).layers, -1).double()
        rows += [layers[n, batch.mask[n]].mean(0).detach().numpy() for n in range(len(batch.ids))]
        targets += batch.labels["classify"].tolist()
    rows = np.stack(rows)
    spread = np.maximum(rows.std(0), 0.1 * math.sqrt((rows**2).mean()))
    rows = (rows - rows.mean(0)) / spread
    theirs = LogisticRegression(C=100 / len(rows), max_iter=1000, tol=1e-8).fit(rows, targets).predict_proba(rows)
    ours = torch.from_numpy(labelled_scores(model, source)[0]).softmax(-1).numpy()
    np.testing.assert_allclose(ours, theirs, atol=5e-3)


def test_sparse_inputs():
    """Columns of sparse inputs are not centred; the bias makes up for it."""
    model = tuned("onehot", "pair", linear_path=True)
    dense = collect_inputs(model.task, model.encoder, model.read(examples("pair")))
    rows = sparse.csr_array(dense.rows)
    solutions = [
        next(fit_probes(model.task, dataclasses.replace(dense, rows=some), regression=False, strengths=(1e-1,)))
        for some in (dense.rows, rows)
    ]
    scores = [(dense.rows - one.mean) / one.deviation @ one.weight.T + one.bias for one in solutions]
    assert not solutions[1].mean.any() and solutions[0].mean.any()
    np.testing.assert_allclose(scores[0], scores[1], atol=1e-2)


def test_nearly_constant_inputs_are_not_scaled_up():
    """Large weights would make the scores depend on small changes of the encoder."""
    model = tuned("bert", "classify")
    rows = 0.5 + 1e-3 * np.random.default_rng(0).standard_normal((40, 32)).astype(np.float32)
    data = ProbeData(rows=rows, targets=(rows[:, 0] > 0.5).astype(np.float64))
    (probe,) = fit_probes(model.task, data, regression=False, strengths=(1e-3,))
    load_solution(model.task, probe)
    assert model.task.head.output.weight.abs().max() < 200


def test_networks_beside_the_linear_path_are_trained():
    """Nothing is symmetric or without a gradient, although the network contributes nothing at the start."""
    for family, settings, head in (("cove", {}, MaxoutHead), ("ulmfit", {"method": "gradual"}, BatchNormHead)):
        model = tuned(family, "classify", linear_path=True, **settings)
        assert isinstance(model.task.head, head)
        initialize_head(model.task, model.encoder, model.read(examples("classify")), regression=False, score=None)
        before = {name: weight.clone() for name, weight in model.task.named_parameters()}
        for _ in model.learner(examples("classify"), steps=8).steps():
            pass
        constants = {"linear_path.mean", "linear_path.deviation"}
        assert {n for n, w in model.task.named_parameters() if torch.equal(w, before[n])} == constants
        output = model.task.head.output.weight
        assert len(torch.unique(output, dim=0)) == len(output)


def test_best_strength_on_dev_data_is_loaded():
    model, source = tuned("elmo", "classify", linear_path=True), None
    source = model.read(examples("classify"))
    tried = []

    def score():
        tried.append(model.task.linear_path.output.weight.detach().clone())
        return (0.1, 0.7, 0.7, 0.2)[len(tried) - 1]

    initialize_head(model.task, model.encoder, source, regression=False, score=score)
    assert len(tried) == 4 and torch.equal(model.task.linear_path.output.weight, tried[1])


def test_classes_without_examples_are_improbable():
    model = tuned("elmo", "classify", linear_path=True, labels=("animal", "colour", "other"))
    source = model.read(examples("classify"))
    initialize_head(model.task, model.encoder, source, regression=False, score=None)
    assert labelled_scores(model, source)[0].argmax(1).max() == 1
    few = model.read([example for example in examples("classify") if example.label == "colour"])
    initialize_head(model.task, model.encoder, few, regression=False, score=None)
    assert set(labelled_scores(model, few)[0].argmax(1)) == {1}


def test_class_weights_count():
    some = [one for one in examples("classify", 48) if one.label == "colour"][:3]
    some += [one for one in examples("classify", 48) if one.label == "animal"]
    probabilities = []
    for weights in ((), (1.0, 50.0)):
        model = tuned("elmo", "classify", linear_path=True, weights=weights)
        source = model.read(some)
        data = collect_inputs(model.task, model.encoder, source)
        (probe,) = fit_probes(model.task, data, regression=False, strengths=(10.0,))
        load_solution(model.task, probe)
        probabilities.append(torch.from_numpy(labelled_scores(model, source)[0]).softmax(-1)[:, 1].mean().item())
    assert probabilities[1] > probabilities[0] + 0.2


def test_tasks_and_inputs_without_a_probe():
    assert not has_linear_output(tuned("cove", "classify").task)
    assert tuned("bert", "pair", linear_path=True).task.linear_path is None, "two texts in one sequence"
    assert tuned("skipgram", "choice", linear_path=True).task.linear_path is None
    model = tuned("skipgram", "classify", linear_path=True)
    with torch.no_grad():
        model.encoder.tokens.weight.fill_(float("nan"))
    before = model.task.linear_path.output.weight.clone()
    source = model.read(examples("classify"))
    initialize_head(model.task, model.encoder, source, regression=False, score=None)
    assert torch.equal(model.task.linear_path.output.weight, before)
