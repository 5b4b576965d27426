"""Rows of linear models on TF-IDF features, on vectors, and on both."""

from dataclasses import replace

import numpy as np
import pytest

import polyseme as ps
from polyseme.comparison.measure.datasets import LabelledDataset
from polyseme.comparison.measure.label_curves import sample_examples
from polyseme.comparison.measure.probes import probe_rows
from polyseme.comparison.measure.probes.linear_probe import SplitFeatures
from polyseme.comparison.measure.probes.tfidf_probe import fit_tfidf, fit_with_tfidf
from polyseme.comparison.rows import TaskRow
from polyseme.datasets.task_schemas import ChoiceExample, ClassifyExample, SimilarityExample, TagExample

SOURCE = {"file": "x", "row": 1}
SPLITS = ("train", "dev", "test")


def classified(number, seed):
    """Texts whose label is the word that they have, in half of the cases, and vectors that have the other half."""
    rng = np.random.default_rng(seed)
    labels, informative = rng.integers(2, size=number), rng.random(number) < 0.5
    texts = [
        f"a text about {['rivers', 'money'][label] if known else 'nothing'}"
        for label, known in zip(labels, informative, strict=True)
    ]
    examples = [
        ClassifyExample(text=text, label="ab"[label], **SOURCE) for text, label in zip(texts, labels, strict=True)
    ]
    signal = (2 * labels - 1) * ~informative + 0.01 * rng.standard_normal(number)
    vectors = np.stack([signal, rng.standard_normal(number)], axis=1).astype(np.float32)
    return examples, SplitFeatures(layers=[vectors], rows=np.arange(number))


@pytest.fixture
def halves():
    found = {split: classified(120, seed) for seed, split in enumerate(SPLITS)}
    dataset = LabelledDataset(name="halves", kind="classify", splits={name: one for name, (one, _) in found.items()})
    return dataset, {name: features for name, (_, features) in found.items()}


def test_vectors_and_terms_complement_each_other(halves):
    dataset, features = halves
    numbers = sample_examples(dataset, 80, 0)
    both = fit_with_tfidf(dataset, features, numbers, (0,))
    task, _ = fit_tfidf(dataset, numbers)
    alone = task.score(task.predict(dataset.splits["test"]), dataset.splits["test"])["accuracy"]
    assert both.value > 0.95 and both.dev > 0.95 and alone < 0.9
    assert np.mean(both.outcomes) == pytest.approx(both.value)


def test_the_baseline_has_rows_for_each_number_of_labels(halves):
    dataset, _ = halves
    rows = list(probe_rows.tfidf_rows(dataset, [20, 0], seeds=range(2)))
    assert [row["num_labels"] for row in rows] == [20, 120]
    for row in rows:
        TaskRow.model_validate({**row, "family": "tfidf"})
        assert row["method"] == "linear_probe" and len(row["values"]) == 2 and len(row["outcomes"]) == 120
        assert row["mean"] == pytest.approx(np.mean(row["outcomes"]), abs=1e-3) and row["inference_seconds"] > 0
    assert rows[1]["values"][0] == rows[1]["values"][1]  # the same examples
    expected, _ = fit_tfidf(dataset, sample_examples(dataset, 20, 1))
    test = dataset.splits["test"]
    assert rows[0]["values"][1] == expected.score(expected.predict(test), test)["accuracy"]


def test_the_strength_is_chosen_on_the_dev_set(halves):
    dataset, _ = halves
    numbers = sample_examples(dataset, 20, 0)
    chosen, dev = fit_tfidf(dataset, numbers)
    assert dev == chosen.score(chosen.predict(dataset.splits["dev"]), dataset.splits["dev"])["accuracy"]
    other = replace(dataset, splits={**dataset.splits, "test": dataset.splits["test"][:5]})
    assert fit_tfidf(other, numbers)[0].inverse_regularization == chosen.inverse_regularization


@pytest.mark.parametrize("kind", ["similarity", "choice", "tag"])
def test_other_tasks(kind):
    texts = ["a dog runs", "a cat sleeps", "the river bank", "money of a bank"]
    if kind == "similarity":
        examples = [
            SimilarityExample(text_a=a, text_b=b, score=float(len({*a.split()} & {*b.split()})), **SOURCE)
            for a in texts
            for b in texts
        ]
    elif kind == "choice":
        examples = [ChoiceExample(context=text, choices=(text, "none of it"), answer=0, **SOURCE) for text in texts * 2]
    else:
        examples = [TagExample(words=("a", "b"), tags=("O", "B-X"), **SOURCE)] * 4
    dataset = LabelledDataset(name="x", kind=kind, splits=dict.fromkeys(SPLITS, examples))
    rows = list(probe_rows.tfidf_rows(dataset, [0], seeds=[0]))
    assert [row["mean"] > 0.8 for row in rows] == ([] if kind == "tag" else [True])


def test_a_model_has_rows_with_and_without_tfidf(halves, corpus_file, tmp_path):
    dataset, _ = halves
    small = replace(dataset, splits={split: examples[:40] for split, examples in dataset.splits.items()})
    options = {"size": "tiny", "settings": ["training.threads=1", "model.width=8"], "out": tmp_path / "svd"}
    model = ps.pretrain("svd", corpus=corpus_file, **options)
    rows = list(probe_rows.linear_probe_rows(model, small, [10, 0], range(2)))
    assert [(row["method"], row["num_labels"]) for row in rows] == [
        (method, number) for number in (10, 40) for method in ("linear_probe", "linear_probe_with_tfidf")
    ]
    for row in rows:
        TaskRow.model_validate({**row, "family": "svd"})
        assert row["layer"] == 0 and len(row["outcomes"]) == 40
