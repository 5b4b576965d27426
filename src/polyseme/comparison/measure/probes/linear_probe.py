"""Linear probes: what can be read off frozen vectors by a linear model.

Multinomial logistic regression for labels and ridge regression for scores, on vectors of texts (mean of their tokens),
of words (mean of their pieces), or of pairs as [u; v; |u - v|; u v] (Conneau et al., 2017). The regularization strength
and the features, those of one layer or of all layers, are chosen on the dev set, and the score is that of the test set.
Mostly-zero features, such as one-hot vectors, are sparse matrices.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from scipy import sparse
from torch import Tensor

from polyseme.arrays import Floats, Ids
from polyseme.baselines.linear_model import LinearModel
from polyseme.comparison.measure.datasets import LabelledDataset
from polyseme.comparison.measure.outcomes import task_outcomes
from polyseme.comparison.measure.probes.text_features import Features, TextEncoder, join_columns
from polyseme.pretrained import Pretrained
from polyseme.tasks.metrics import accuracy, entity_counts, spearman, tag_accuracy
from polyseme.tasks.spec import LinearProbe

_BATCH_SIZE = 128  # examples encoded at once
_STRENGTHS = (1e-3, 1e-2, 1e-1, 1.0)  # of L2 regularization, relative to the mean loss
_ITERATIONS = 60
_MAX_TRAIN_WORDS = 10_000  # of sequence labelling
_MAX_DENSITY = 0.1  # of features stored as a sparse matrix
_MAX_ROW_SPACE = 2_000  # training rows up to which the projection to their row space pays off

Inputs = Any  # features with scaled columns: a tensor, or a sparse matrix
Layers = tuple[int, ...]  # whose features are concatenated
Predict = Callable[[Inputs], Tensor]


@dataclass(frozen=True, kw_only=True)
class SplitFeatures:
    """The features of a split by layer; a row is a text, a pair or a word."""

    layers: list[Features]
    rows: Ids  # row numbers within the split; words that are never trained on are omitted


@dataclass(frozen=True, kw_only=True)
class ProbeScore:
    """The test score of a probe with the outcomes of the test examples, and the layers chosen on the dev set."""

    value: float | None
    layers: Layers
    outcomes: list[float]
    dev: float  # score


def extract_features(
    model: Pretrained, dataset: LabelledDataset, samples: Iterable[Sequence[int]]
) -> dict[str, SplitFeatures]:
    """The features of all splits; of the training split, of all examples that occur in any sample."""
    encoder = TextEncoder.of(model, dataset)
    rows = {split: np.arange(_row_offsets(dataset, split)[-1]) for split in dataset.splits}
    rows["train"] = np.unique(np.concatenate([_train_rows(dataset, numbers) for numbers in samples]))
    return {split: _extract_split(encoder, dataset, split, rows[split]) for split in dataset.splits}


def _probe(dataset: LabelledDataset) -> LinearProbe:
    assert dataset.spec.probe is not None
    return dataset.spec.probe


def _row_offsets(dataset: LabelledDataset, split: str) -> Ids:
    """The first row of each example, and the end: sequence labelling has a row per word."""
    return np.cumsum(
        [0, *(len(one.words) if _probe(dataset).inputs == "words" else 1 for one in dataset.splits[split])]
    )


def _train_rows(dataset: LabelledDataset, numbers: Sequence[int]) -> Ids:
    """The rows of some training examples; of too many words, evenly spaced ones."""
    offsets = _row_offsets(dataset, "train")
    rows = np.concatenate([np.arange(offsets[number], offsets[number + 1]) for number in sorted(numbers)])
    if _probe(dataset).inputs != "words" or len(rows) <= _MAX_TRAIN_WORDS:
        return rows
    return rows[np.arange(_MAX_TRAIN_WORDS) * len(rows) // _MAX_TRAIN_WORDS]


def _extract_split(encoder: TextEncoder, dataset: LabelledDataset, split: str, rows: Ids) -> SplitFeatures:
    """The features of some rows of a split."""
    examples, offsets, parts = dataset.splits[split], _row_offsets(dataset, split), []
    for start in range(0, len(examples), _BATCH_SIZE):
        batch = examples[start : start + _BATCH_SIZE]
        first, last = offsets[start], offsets[start + len(batch)]
        selected = rows[(rows >= first) & (rows < last)] - first
        if len(selected):
            parts.append([_to_sparse(layer[selected]) for layer in encoder.encode(batch)])
    return SplitFeatures(layers=[_concatenate(layer) for layer in zip(*parts, strict=True)], rows=rows)


def _to_sparse(rows: Features) -> Features:
    if sparse.issparse(rows):
        return rows
    return sparse.csr_array(rows) if np.count_nonzero(rows) < _MAX_DENSITY * rows.size else rows


def _concatenate(parts: Sequence[Features]) -> Features:
    return sparse.vstack(parts, format="csr") if any(map(sparse.issparse, parts)) else np.concatenate(parts)


def fit_probe(dataset: LabelledDataset, features: Mapping[str, SplitFeatures], numbers: Sequence[int]) -> ProbeScore:
    """Fit probes to some of the training examples, on each layer and on all, and score the best on the dev set."""
    rows, layers = _train_rows(dataset, numbers), range(len(features["train"].layers))
    choices = dict.fromkeys([*((layer,) for layer in layers), tuple(layers)])
    candidates = (
        (choice, _project_to_row_space(standardize(select_rows(features, choice, rows)))) for choice in choices
    )
    return fit_best(dataset, rows, candidates, strengths=_STRENGTHS)


def fit_best(
    dataset: LabelledDataset,
    rows: Ids,
    candidates: Iterable[tuple[Layers, Mapping[str, Inputs]]],
    *,
    strengths: Sequence[float],
) -> ProbeScore:
    """Fit a linear model to each candidate with each regularization strength, and score the best on the dev set.

    Args:
        dataset: The dataset.
        rows: The rows of the training split that the candidates have.
        candidates: The layers of some inputs, and the inputs of each split.
        strengths: Strengths of L2 regularization relative to the mean loss.
    """
    labels = sorted({label for example in dataset.splits["train"] for label in example.labels})
    target = _targets(dataset, labels)[rows]
    fit = _fit_ridge if _probe(dataset).regression else _fit_logistic
    best: tuple[float, Layers, Tensor] | None = None
    for layers, inputs in candidates:
        for strength in strengths:
            predict = fit(inputs["train"], target, len(labels), strength)
            score = _score(dataset, _answers(dataset, labels, predict(inputs["dev"]), "dev"), "dev")
            dev_score = -1.0 if score is None else score  # the lowest correlation
            if best is None or dev_score > best[0]:
                best = dev_score, layers, predict(inputs["test"])
    assert best is not None
    dev_score, layers, predicted = best
    answers = _answers(dataset, labels, predicted, "test")
    value, outcomes = _score(dataset, answers, "test"), task_outcomes(dataset, answers)
    return ProbeScore(value=value, layers=layers, outcomes=outcomes, dev=dev_score)


def select_rows(features: Mapping[str, SplitFeatures], layers: Layers, rows: Ids) -> dict[str, Features]:
    """The features of some layers, of some rows of the training split and all rows of the others."""
    selected = {"train": np.searchsorted(features["train"].rows, rows)}
    splits = {}
    for split, one in features.items():
        parts = [one.layers[layer] for layer in layers]
        parts = [part[selected[split]] for part in parts] if split in selected else parts
        splits[split] = parts[0] if len(parts) == 1 else join_columns(parts)
    return splits


def _targets(dataset: LabelledDataset, labels: Sequence[str]) -> Tensor:
    examples = dataset.splits["train"]
    if _probe(dataset).regression:
        return torch.tensor([example.score for example in examples])
    ids = {label: id for id, label in enumerate(labels)}
    return torch.tensor([ids[label] for example in examples for label in example.labels])


def standardize(splits: Mapping[str, Features]) -> dict[str, Inputs]:
    """Scale columns to mean 0 and deviation 1 on the training rows, and drop constant ones.

    The mean of sparse columns remains: the bias of a linear model, which is not regularized, makes up for it.
    """
    mean, deviation = _mean_and_deviation(splits["train"])
    columns = np.flatnonzero(deviation > 1e-6)
    mean, deviation = mean[columns], deviation[columns]
    standardized: dict[str, Inputs] = {}
    for split, rows in splits.items():
        selected = rows[:, columns]
        if sparse.issparse(splits["train"]):
            standardized[split] = sparse.csr_array(selected) @ sparse.diags_array(1 / deviation)
        else:
            dense = selected.toarray() if sparse.issparse(selected) else selected
            standardized[split] = torch.from_numpy((dense - mean) / deviation)
    return standardized


def _mean_and_deviation(rows: Features) -> tuple[Floats, Floats]:
    if not sparse.issparse(rows):
        return rows.mean(0), rows.std(0)
    rows = rows.astype(np.float64)
    mean, squares = rows.mean(0), rows.multiply(rows).mean(0)
    return mean.astype(np.float32), np.sqrt(np.maximum(squares - mean**2, 0)).astype(np.float32)


def _project_to_row_space(splits: Mapping[str, Inputs]) -> dict[str, Inputs]:
    """Coordinates in the row space of the training rows, if these are few and fewer than the columns.

    The optimum of an L2-regularized linear model lies in this space, so nothing is lost.
    """
    train = splits["train"]
    if sparse.issparse(train) or train.shape[0] >= min(train.shape[1], _MAX_ROW_SPACE):
        return dict(splits)
    values, axes = torch.linalg.eigh((train @ train.T).double())
    positive = values > 1e-6 * values.max()
    basis = (train.T.double() @ axes[:, positive] / values[positive].sqrt()).float()  # (D, rank), orthonormal
    return {split: rows @ basis for split, rows in splits.items()}


def _fit_logistic(train: Inputs, target: Tensor, num_labels: int, strength: float) -> Predict:
    """Fit a multinomial logistic regression, and return its prediction function."""
    if sparse.issparse(train):
        model = LinearModel.fit_classes(train, target.numpy(), inverse_regularization=1 / (strength * len(target)))
        return lambda rows: torch.from_numpy(model.probabilities(rows, num_labels)).argmax(-1)
    weights = torch.zeros(train.shape[1], num_labels, requires_grad=True)
    bias = torch.zeros(num_labels, requires_grad=True)
    optimizer = torch.optim.LBFGS([weights, bias], max_iter=_ITERATIONS, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(train @ weights + bias, target) + strength / 2 * weights.square().sum()
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    optimizer.step(closure)  # type: ignore[no-untyped-call]
    fitted, offset = weights.detach(), bias.detach()
    return lambda rows: (rows @ fitted + offset).argmax(-1)


def _fit_ridge(train: Inputs, target: Tensor, num_labels: int, strength: float) -> Predict:
    """Solve (X'X + n s I) w = X'y or, with more columns than rows, w = X'(XX' + n s I)⁻¹ y."""
    if sparse.issparse(train):
        model = LinearModel.fit_scores(train, target.numpy(), inverse_regularization=1 / (strength * len(target)))
        return lambda rows: torch.from_numpy(model.scores(rows)[:, 0])
    x, mean = train.double(), target.double().mean()
    y, wide = target.double() - mean, x.shape[1] > x.shape[0]
    gram = x @ x.T if wide else x.T @ x
    gram.diagonal().add_(strength * len(x))
    weights = x.T @ torch.linalg.solve(gram, y) if wide else torch.linalg.solve(gram, x.T @ y)
    return lambda rows: rows.double() @ weights + mean


def _answers(dataset: LabelledDataset, labels: Sequence[str], predicted: Tensor, split: str) -> list[Any]:
    """The predicted score, label or tags of each example."""
    if _probe(dataset).regression:
        return list(predicted.tolist())
    names = [labels[id] for id in predicted.tolist()]
    if _probe(dataset).inputs != "words":
        return names
    return [names[begin:end] for begin, end in pairwise(_row_offsets(dataset, split))]


def _score(dataset: LabelledDataset, answers: Sequence[Any], split: str) -> float | None:
    gold: Sequence[Any] = dataset.splits[split]
    if _probe(dataset).regression:
        return spearman([example.score for example in gold], answers)
    if _probe(dataset).inputs != "words":
        return accuracy([example.label for example in gold], answers)
    gold_tags = [example.tags for example in gold]
    if dataset.metric == "f1":
        return entity_counts(gold_tags, answers).f1
    return tag_accuracy(gold_tags, answers)
