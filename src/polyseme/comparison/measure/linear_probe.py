"""Linear probes: what can be read off frozen vectors by a linear model.

Multinomial logistic regression for labels and ridge regression for scores, on vectors of texts (mean of their tokens),
of words (mean of their pieces), or of pairs as [u; v; |u - v|; u v] (Conneau et al., 2017). The layer and the
regularization strength are chosen on the dev set, and the score is that of the test set. Mostly-zero features, such as
one-hot vectors, are stored as sparse matrices.
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

from polyseme.analysis.span_activations import spans_to_tokens
from polyseme.arrays import Floats, Ids
from polyseme.comparison.measure.datasets import LabelledDataset
from polyseme.comparison.measure.outcomes import task_outcomes
from polyseme.pretrained import Pretrained
from polyseme.tasks.metrics import accuracy, entity_counts, spearman, tag_accuracy
from polyseme.tasks.spec import LinearProbe

_BATCH_SIZE = 128  # texts encoded at once
_STRENGTHS = (1e-3, 1e-1)  # of L2 regularization, relative to the mean loss
_ITERATIONS = 60
_MAX_TRAIN_WORDS = 10_000  # of sequence labelling
_MAX_DENSITY = 0.1  # of features stored as a sparse matrix
_MAX_ROW_SPACE = 2_000  # training rows up to which the projection to their row space pays off

Features = Any  # (N, D), dense or sparse
Predict = Callable[[Tensor], Tensor]


@dataclass(frozen=True, kw_only=True)
class SplitFeatures:
    """The features of a split by layer; a row is a text, a pair or a word."""

    layers: list[Features]
    rows: Ids  # row numbers within the split; words that are never trained on are omitted


@dataclass(frozen=True, kw_only=True)
class ProbeScore:
    """The test score of a probe with the outcomes of the test examples, and the layer chosen on the dev set."""

    value: float | None
    layer: int
    outcomes: list[float]


def extract_features(
    model: Pretrained, dataset: LabelledDataset, samples: Iterable[Sequence[int]]
) -> dict[str, SplitFeatures]:
    """The features of all splits; of the training split, of all examples that occur in any sample."""
    rows = {split: np.arange(_row_offsets(dataset, split)[-1]) for split in dataset.splits}
    rows["train"] = np.unique(np.concatenate([_train_rows(dataset, numbers) for numbers in samples]))
    return {split: _extract_split(model, dataset, split, rows[split]) for split in dataset.splits}


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


def _extract_split(model: Pretrained, dataset: LabelledDataset, split: str, rows: Ids) -> SplitFeatures:
    """The features of some rows of a split."""
    examples, offsets, parts = dataset.splits[split], _row_offsets(dataset, split), []
    for start in range(0, len(examples), _BATCH_SIZE):
        batch = examples[start : start + _BATCH_SIZE]
        first, last = offsets[start], offsets[start + len(batch)]
        selected = rows[(rows >= first) & (rows < last)] - first
        if len(selected):
            parts.append([_to_sparse(layer[selected]) for layer in _encode(model, _probe(dataset).inputs, batch)])
    return SplitFeatures(layers=[_concatenate(layer) for layer in zip(*parts, strict=True)], rows=rows)


def _encode(model: Pretrained, inputs: str, examples: Sequence[Any]) -> list[Floats]:
    if inputs == "words":
        return _encode_words(model, examples)
    if inputs == "text":
        return _encode_texts(model, [example.text for example in examples])
    first, second = (_encode_texts(model, [getattr(one, name) for one in examples]) for name in ("text_a", "text_b"))
    return [np.concatenate([u, v, np.abs(u - v), u * v], axis=1) for u, v in zip(first, second, strict=True)]


def _encode_texts(model: Pretrained, texts: Sequence[str]) -> list[Floats]:
    layers = zip(*(encoding.layers for encoding in model.encode(texts)), strict=True)
    return [np.stack([tokens.mean(0) for tokens in layer]) for layer in layers]


def _encode_words(model: Pretrained, examples: Sequence[Any]) -> list[Floats]:
    """A row per word; zeros where the tokenizer drops a word."""
    layers: list[list[Floats]] = [[] for _ in model.encoder.widths]
    for example, encoding in zip(examples, model.encode([one.text for one in examples]), strict=True):
        first, end = spans_to_tokens(encoding.offsets, [(begin, end) for _, begin, end in example.spans])
        pooling = _mean_pooling(first, end, len(encoding.offsets))
        for layer, rows in zip(encoding.layers, layers, strict=True):
            rows.append(pooling @ layer)
    return [np.concatenate(rows) for rows in layers]


def _mean_pooling(first: Ids, end: Ids, num_tokens: int) -> Any:
    """The matrix that averages the tokens of each word, (words, tokens)."""
    lengths = end - first
    offsets = np.cumsum([0, *lengths])
    tokens = np.arange(offsets[-1]) + np.repeat(first - offsets[:-1], lengths)
    weights = np.repeat(1 / np.maximum(lengths, 1), lengths).astype(np.float32)
    return sparse.csr_array((weights, tokens, offsets), shape=(len(first), num_tokens))


def _to_sparse(rows: Floats) -> Features:
    return sparse.csr_array(rows) if np.count_nonzero(rows) < _MAX_DENSITY * rows.size else rows


def _concatenate(parts: Sequence[Features]) -> Features:
    return sparse.vstack(parts, format="csr") if any(map(sparse.issparse, parts)) else np.concatenate(parts)


def fit_probe(dataset: LabelledDataset, features: Mapping[str, SplitFeatures], numbers: Sequence[int]) -> ProbeScore:
    """Fit probes to some of the training examples, on each layer, and score the one that is best on the dev set."""
    rows = _train_rows(dataset, numbers)
    labels = sorted({label for example in dataset.splits["train"] for label in example.labels})
    target = _targets(dataset, labels)[rows]
    selected = np.searchsorted(features["train"].rows, rows)
    fit = _fit_ridge if _probe(dataset).regression else _fit_logistic
    best: tuple[float, int, Tensor] | None = None
    for layer in range(len(features["train"].layers)):
        by_split = {split: one.layers[layer] for split, one in features.items()}
        inputs = _project_to_row_space(_standardize({**by_split, "train": by_split["train"][selected]}))
        for strength in _STRENGTHS:
            predict = fit(inputs["train"], target, len(labels), strength)
            score = _score(dataset, _answers(dataset, labels, predict(inputs["dev"]), "dev"), "dev")
            dev_score = -np.inf if score is None else score
            if best is None or dev_score > best[0]:
                best = dev_score, layer, predict(inputs["test"])
    assert best is not None
    answers = _answers(dataset, labels, best[2], "test")
    value = _score(dataset, answers, "test")
    return ProbeScore(value=value, layer=best[1], outcomes=task_outcomes(dataset, answers))


def _targets(dataset: LabelledDataset, labels: Sequence[str]) -> Tensor:
    examples = dataset.splits["train"]
    if _probe(dataset).regression:
        return torch.tensor([example.score for example in examples])
    ids = {label: id for id, label in enumerate(labels)}
    return torch.tensor([ids[label] for example in examples for label in example.labels])


def _standardize(splits: Mapping[str, Features]) -> dict[str, Tensor]:
    """Scale columns to mean 0 and deviation 1 on the training rows, and drop constant ones."""
    mean, deviation = _mean_and_deviation(splits["train"])
    columns = np.flatnonzero(deviation > 1e-6)
    mean, deviation = mean[columns], deviation[columns]
    standardized = {}
    for split, rows in splits.items():
        dense = rows[:, columns]
        dense = dense.toarray() if sparse.issparse(dense) else dense
        dense -= mean
        dense /= deviation
        standardized[split] = torch.from_numpy(dense)
    return standardized


def _mean_and_deviation(rows: Features) -> tuple[Floats, Floats]:
    if not sparse.issparse(rows):
        return rows.mean(0), rows.std(0)
    rows = rows.astype(np.float64)
    mean, squares = rows.mean(0), rows.multiply(rows).mean(0)
    return mean.astype(np.float32), np.sqrt(np.maximum(squares - mean**2, 0)).astype(np.float32)


def _project_to_row_space(splits: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Coordinates in the row space of the training rows, if these are few and fewer than the columns.

    The optimum of an L2-regularized linear model lies in this space, so nothing is lost.
    """
    train = splits["train"]
    if train.shape[0] >= min(train.shape[1], _MAX_ROW_SPACE):
        return dict(splits)
    values, axes = torch.linalg.eigh((train @ train.T).double())
    positive = values > 1e-6 * values.max()
    basis = (train.T.double() @ axes[:, positive] / values[positive].sqrt()).float()  # (D, rank), orthonormal
    return {split: rows @ basis for split, rows in splits.items()}


def _fit_logistic(train: Tensor, target: Tensor, num_labels: int, strength: float) -> Predict:
    """Fit a multinomial logistic regression, and return its prediction function."""
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


def _fit_ridge(train: Tensor, target: Tensor, num_labels: int, strength: float) -> Predict:
    """Solve (X'X + n s I) w = X'y or, with more columns than rows, w = X'(XX' + n s I)⁻¹ y."""
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
