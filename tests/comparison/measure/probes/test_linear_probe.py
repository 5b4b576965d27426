"""Linear probes on synthetic features."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import sparse

from polyseme.comparison.measure.datasets import LabelledDataset
from polyseme.comparison.measure.label_curves import sample_examples
from polyseme.comparison.measure.probes import linear_probe
from polyseme.comparison.measure.probes.linear_probe import SplitFeatures, fit_probe
from polyseme.datasets.task_schemas import ClassifyExample, SimilarityExample, TagExample

SPLITS = ("train", "dev", "test")


def separable_examples(kind, number, seed):
    """Examples whose targets are linear in the second layer, and independent of the first."""
    rng = np.random.default_rng(seed)
    signal = rng.standard_normal((number, 6)).astype(np.float32)
    random = rng.standard_normal((number, 6)).astype(np.float32)
    source = {"file": "x", "row": 1}
    if kind == "classify":
        examples = [ClassifyExample(text="", label="ab"[int(row[0] > 0)], **source) for row in signal]
    elif kind == "similarity":
        examples = [SimilarityExample(text_a="", text_b="", score=float(row[:2].sum()), **source) for row in signal]
    else:
        examples = [
            TagExample(words=("a", "b"), tags=tuple("O" if row[0] > 0 else "B-X" for row in pair), **source)
            for pair in signal.reshape(-1, 2, 6)
        ]
    return examples, SplitFeatures(layers=[random, signal], rows=np.arange(number))


def separable_dataset(kind):
    splits = {split: separable_examples(kind, 200, seed) for seed, split in enumerate(SPLITS)}
    examples = {split: examples for split, (examples, _) in splits.items()}
    dataset = LabelledDataset(name="synthetic", kind=kind, splits=examples)
    return dataset, {split: features for split, (_, features) in splits.items()}


def test_ridge_regression_in_primal_and_dual_form():
    """The weights solve (X'X + n s I) w = X'y, whether there are more rows or more columns."""
    for shape in ((40, 7), (7, 40)):
        rng = torch.Generator().manual_seed(0)
        rows, others = (torch.randn(number, shape[1], generator=rng) for number in (shape[0], 5))
        target = torch.randn(shape[0], generator=rng)
        x, y = rows.double(), target.double()
        weights = torch.linalg.solve(x.T @ x + 0.1 * len(x) * torch.eye(shape[1]), x.T @ (y - y.mean()))
        predicted = linear_probe._fit_ridge(rows, target, 0, 0.1)(others)
        torch.testing.assert_close(predicted, others.double() @ weights + y.mean())


def test_projection_to_the_row_space_does_not_change_predictions(monkeypatch):
    rng = torch.Generator().manual_seed(0)
    splits = {split: torch.randn(number, 50, generator=rng) for split, number in (("train", 20), ("test", 9))}
    target = (splits["train"][:, 0] > 0).long()

    def predict():
        projected = linear_probe._project_to_row_space(splits)
        fitted = linear_probe._fit_logistic(projected["train"], target, 2, 0.1)
        return fitted(projected["test"]), projected["train"].shape[1]

    narrow = predict()
    monkeypatch.setattr(linear_probe, "_MAX_ROW_SPACE", 10)
    wide = predict()
    assert (narrow[1], wide[1]) == (20, 50) and narrow[0].equal(wide[0])


@pytest.mark.parametrize("kind", ["classify", "similarity", "tag"])
def test_probes_find_the_informative_layer(kind):
    dataset, features = separable_dataset(kind)
    score = fit_probe(dataset, features, sample_examples(dataset, 100, 0))
    assert 1 in score.layers and score.value > 0.9 and score.dev > 0.9
    assert np.mean(score.outcomes) == pytest.approx(score.value, abs=0.02)
    assert len(score.outcomes) == len(dataset.splits["test"])
    few = fit_probe(dataset, features, sample_examples(dataset, 4, 0))  # fewer rows than columns
    assert few.value < score.value


def test_training_words_are_subsampled_evenly(monkeypatch):
    monkeypatch.setattr(linear_probe, "_MAX_TRAIN_WORDS", 30)
    (examples, features), (texts, _) = separable_examples("tag", 200, 0), separable_examples("classify", 200, 0)
    tagged, classified = (
        LabelledDataset(name="synthetic", kind=kind, splits=dict.fromkeys(SPLITS, some))
        for kind, some in (("tag", examples), ("classify", texts))
    )
    few, every = linear_probe._train_rows(tagged, [3, 1]), linear_probe._train_rows(tagged, range(100))
    assert few.tolist() == [2, 3, 6, 7]
    assert len(every) == 30 and every[0] == 0 and np.all(np.diff(every) // 6 == 1)
    assert len(linear_probe._train_rows(classified, range(200))) == 200
    subset = SplitFeatures(layers=[layer[every] for layer in features.layers], rows=every)
    others = dict.fromkeys(("dev", "test"), features)
    from_subset = fit_probe(tagged, {**others, "train": subset}, range(100))
    assert from_subset == fit_probe(tagged, {**others, "train": features}, range(100))


def test_sparse_features_give_the_same_scores():
    dataset, features = separable_dataset("classify")
    dense = {}
    for split, one in features.items():
        layers = [np.pad(layer * (np.abs(layer) > 0.5), ((0, 0), (0, 94))) for layer in one.layers]
        dense[split] = replace(one, layers=layers)
    packed = {
        split: replace(one, layers=[linear_probe._to_sparse(layer) for layer in one.layers])
        for split, one in dense.items()
    }
    assert all(layer.nnz < 0.1 * 200 * 100 for one in packed.values() for layer in one.layers)
    stacked = linear_probe._concatenate([packed["dev"].layers[0], dense["test"].layers[0]])
    assert np.array_equal(stacked.toarray(), np.concatenate([dense[split].layers[0] for split in ("dev", "test")]))
    score = fit_probe(dataset, packed, range(200))
    assert score.value == pytest.approx(fit_probe(dataset, dense, range(200)).value, abs=0.011) and score.value > 0.7


@pytest.mark.parametrize("kind", ["classify", "similarity"])
def test_sparse_and_dense_models_are_the_same(kind):
    """The mean of a column, which remains in sparse inputs, changes the bias only."""
    rng = np.random.default_rng(0)
    rows = (rng.random((60, 20)) * (rng.random((60, 20)) < 0.3)).astype(np.float32)
    splits = {split: rows[start : start + 30] for split, start in (("train", 0), ("test", 30))}
    target = torch.from_numpy(rows[:30, 0] + rows[:30, 1] - rows[:30, 2])
    target, fit = (target > 0, linear_probe._fit_logistic) if kind == "classify" else (target, linear_probe._fit_ridge)
    target = target.long() if kind == "classify" else target
    dense = linear_probe.standardize(splits)
    packed = linear_probe.standardize({split: sparse.csr_array(one) for split, one in splits.items()})
    assert sparse.issparse(packed["train"]) and not sparse.issparse(dense["train"])
    found, expected = (fit(one["train"], target, 2, 0.1)(one["test"]) for one in (packed, dense))
    torch.testing.assert_close(found.double(), expected.double(), rtol=0, atol=1e-3)  # an iterative solver


def test_layers_can_be_concatenated():
    """A target that depends on two layers needs both."""
    splits = {split: separable_examples("classify", 300, seed)[1] for seed, split in enumerate(SPLITS)}
    examples = {
        split: [
            ClassifyExample(
                text="", label="ab"[int(one.layers[0][row, 0] + one.layers[1][row, 0] > 0)], file="x", row=1
            )
            for row in range(300)
        ]
        for split, one in splits.items()
    }
    dataset = LabelledDataset(name="synthetic", kind="classify", splits=examples)
    score = fit_probe(dataset, splits, range(300))
    assert score.layers == (0, 1) and score.value > 0.9
    alone = {split: replace(one, layers=one.layers[:1]) for split, one in splits.items()}
    assert fit_probe(dataset, alone, range(300)).value < 0.85
