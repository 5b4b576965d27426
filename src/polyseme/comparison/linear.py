"""Linear probes: what a task can read off frozen vectors by weights alone.

Labels by multinomial logistic regression, scores by ridge regression, on vectors of texts (means of their tokens), of
words (means of their pieces), or of pairs as [u; v; |u - v|; u v] (Conneau et al., 2017). The layer and how strongly
weights are held back are chosen on the dev set, and the figure is that of the test set. Of rows that are nearly all
zeros, as one-hot vectors are, only the others are held.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from polyseme.comparison.labelled import Task
from polyseme.inside.kept import pieces
from polyseme.pretrained import Pretrained
from polyseme.tasks.metrics import Counts, accuracy, entity_counts, marks_entities, spearman, tag_accuracy

KINDS = ("classify", "pair", "similarity", "tag")

_AT_ONCE = 128  # texts whose layers are held together
_STRENGTHS = (1e-3, 1e-1)  # by which the squares of weights count, against the mean loss
_ITERATIONS = 60
_MOST_WORDS = 10_000  # of tagged sentences that are learnt from
_SPARSE = 0.1  # the share of numbers that are not zero, below which only they are held
_MOST_TURNED = 2_000  # rows whose coordinates among themselves take less time to find than they save

Rows = Any  # (N, D), an array or a matrix of scipy that holds only what is not zero
Numbers = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Vectors:
    """The examples of one side as a model sees them, layer by layer."""

    layers: list[Rows]  # a row an example, or a word of one
    places: Numbers  # which of all rows these are; of words that are never learnt from there are none


@dataclass(frozen=True, kw_only=True)
class Fitted:
    """What a probe came to."""

    value: float | None
    layer: int


def read_sides(model: Pretrained, task: Task, draws: Iterable[Sequence[int]]) -> dict[str, Vectors]:
    """The examples of a task, each read once however often they are drawn to be learnt from."""
    learnt = np.unique(np.concatenate([_learnt(task, numbers) for numbers in draws]))
    return {side: _read(model, task, side, learnt if side == "train" else None) for side in task.sides}


def _ends(task: Task, side: str) -> Numbers:
    """Where the rows of examples begin and end: a word is one, or a text, or a pair of them."""
    return np.cumsum([0, *(len(one.words) if task.kind == "tag" else 1 for one in task.sides[side])])


def _learnt(task: Task, numbers: Sequence[int]) -> Numbers:
    """The rows of some examples; of more words than are learnt from, as many as are, from all sentences alike."""
    ends = _ends(task, "train")
    rows = np.concatenate([np.arange(ends[number], ends[number + 1]) for number in sorted(numbers)])
    if task.kind != "tag" or len(rows) <= _MOST_WORDS:
        return rows
    return rows[np.arange(_MOST_WORDS) * len(rows) // _MOST_WORDS]


def _read(model: Pretrained, task: Task, side: str, places: Numbers | None = None) -> Vectors:
    """Some rows of a side, or all of them."""
    examples, ends, parts = task.sides[side], _ends(task, side), []
    places = np.arange(ends[-1]) if places is None else places
    for start in range(0, len(examples), _AT_ONCE):
        some = examples[start : start + _AT_ONCE]
        first, last = ends[start], ends[start + len(some)]
        wanted = places[(places >= first) & (places < last)] - first
        if len(wanted):
            parts.append([_packed(layer[wanted]) for layer in _read_rows(model, task.kind, some)])
    return Vectors(layers=[_stacked(layer) for layer in zip(*parts, strict=True)], places=places)


def _read_rows(model: Pretrained, kind: str, examples: Sequence[Any]) -> list[NDArray[np.float32]]:
    if kind == "tag":
        return _read_words(model, examples)
    if kind == "classify":
        return _read_texts(model, [example.text for example in examples])
    first, second = (_read_texts(model, [getattr(one, name) for one in examples]) for name in ("text_a", "text_b"))
    return [np.concatenate([u, v, np.abs(u - v), u * v], axis=1) for u, v in zip(first, second, strict=True)]


def _read_texts(model: Pretrained, texts: Sequence[str]) -> list[NDArray[np.float32]]:
    encodings = model.encode(texts)
    return [np.stack([encoding.layers[layer].mean(0) for encoding in encodings]) for layer in range(_depth(model))]


def _read_words(model: Pretrained, examples: Sequence[Any]) -> list[NDArray[np.float32]]:
    """A row for each word; zeros where the tokenizer passes a word over."""
    layers: list[list[NDArray[np.float32]]] = [[] for _ in range(_depth(model))]
    for example, encoding in zip(examples, model.encode([one.text for one in examples]), strict=True):
        means = _means(
            *pieces(encoding.offsets, [(begin, end) for _, begin, end in example.spans]), len(encoding.offsets)
        )
        for layer, kept in zip(encoding.layers, layers, strict=True):
            kept.append(means @ layer)
    return [np.concatenate(kept) for kept in layers]


def _means(first: Numbers, behind: Numbers, num_tokens: int) -> Any:
    """What makes the mean of its tokens of each word, (words, tokens)."""
    numbers = behind - first
    ends = np.cumsum([0, *numbers])
    tokens = np.arange(ends[-1]) + np.repeat(first - ends[:-1], numbers)
    shares = np.repeat(1 / np.maximum(numbers, 1), numbers).astype(np.float32)
    return sparse.csr_array((shares, tokens, ends), shape=(len(first), num_tokens))


def _packed(rows: NDArray[np.float32]) -> Rows:
    return sparse.csr_array(rows) if np.count_nonzero(rows) < _SPARSE * rows.size else rows


def _stacked(parts: Sequence[Rows]) -> Rows:
    return sparse.vstack(parts, format="csr") if any(map(sparse.issparse, parts)) else np.concatenate(parts)


def _depth(model: Pretrained) -> int:
    return len(model.encoder.widths)


def probe(task: Task, vectors: Mapping[str, Vectors], numbers: Sequence[int]) -> Fitted:
    """What some of the examples to learn from teach: the score on the test set, in the layer that dev prefers."""
    rows = _learnt(task, numbers)
    labels = _labels(task)
    target = _targets(task, labels)[rows]
    drawn = np.searchsorted(vectors["train"].places, rows)
    best: tuple[float, int, Tensor] | None = None
    for layer in range(len(vectors["train"].layers)):
        read = {side: of_side.layers[layer] for side, of_side in vectors.items()}
        fitted = _turned(_even({**read, "train": read["train"][drawn]}))
        for strength in _STRENGTHS:
            predict = _fit(task.kind, fitted["train"], target, len(labels), strength)
            found = _score(task, labels, predict(fitted["dev"]), task.sides["dev"])
            merit = -np.inf if found is None else found
            if best is None or merit > best[0]:
                best = merit, layer, predict(fitted["test"])
    assert best is not None
    return Fitted(value=_score(task, labels, best[2], task.sides["test"]), layer=best[1])


def _labels(task: Task) -> list[str]:
    return sorted({label for example in task.sides["train"] for label in example.labels})


def _targets(task: Task, labels: Sequence[str]) -> Tensor:
    examples = task.sides["train"]
    if task.kind == "similarity":
        return torch.tensor([example.score for example in examples])
    number = {label: place for place, label in enumerate(labels)}
    return torch.tensor([number[label] for example in examples for label in example.labels])


def _even(sides: Mapping[str, Rows]) -> dict[str, Tensor]:
    """Without columns that are the same in all rows to learn from, and with mean 0 and deviation 1 there."""
    mean, deviation = _moments(sides["train"])
    kept = np.flatnonzero(deviation > 1e-6)
    mean, deviation = mean[kept], deviation[kept]
    found = {}
    for side, rows in sides.items():
        columns = rows[:, kept]
        columns = columns.toarray() if sparse.issparse(columns) else columns
        columns -= mean
        columns /= deviation
        found[side] = torch.from_numpy(columns)
    return found


def _moments(rows: Rows) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Mean and deviation of columns."""
    if not sparse.issparse(rows):
        return rows.mean(0), rows.std(0)
    rows = rows.astype(np.float64)
    mean, squares = rows.mean(0), rows.multiply(rows).mean(0)
    return mean.astype(np.float32), np.sqrt(np.maximum(squares - mean**2, 0)).astype(np.float32)


def _turned(sides: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The same rows by their coordinates among those to learn from, where these are few and fewer than the columns.

    Weights that are held back lie among these rows, so that nothing else of others is ever seen.
    """
    train = sides["train"]
    if train.shape[0] >= min(train.shape[1], _MOST_TURNED):
        return dict(sides)
    values, axes = torch.linalg.eigh((train @ train.T).double())
    kept = values > 1e-6 * values.max()
    turn = (train.T.double() @ axes[:, kept] / values[kept].sqrt()).float()  # (D, rank), of length 1 each
    return {side: rows @ turn for side, rows in sides.items()}


def _fit(kind: str, train: Tensor, target: Tensor, num_labels: int, strength: float) -> Any:
    """What says of other rows what it has learnt from these."""
    if kind == "similarity":
        return _ridge(train, target, strength)
    weights = torch.zeros(train.shape[1], num_labels, requires_grad=True)
    bias = torch.zeros(num_labels, requires_grad=True)
    optimizer = torch.optim.LBFGS([weights, bias], max_iter=_ITERATIONS, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(train @ weights + bias, target) + strength / 2 * weights.square().sum()
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    optimizer.step(closure)  # type: ignore[no-untyped-call]
    learnt, offset = weights.detach(), bias.detach()
    return lambda rows: (rows @ learnt + offset).argmax(-1)


def _ridge(train: Tensor, target: Tensor, strength: float) -> Any:
    """The weights that solve (X'X + n s I) w = X'y; with more columns than rows, w = X'(XX' + n s I)⁻¹ y."""
    rows, mean = train.double(), target.double().mean()
    wanted, wide = target.double() - mean, rows.shape[1] > rows.shape[0]
    table = rows @ rows.T if wide else rows.T @ rows
    table.diagonal().add_(strength * len(rows))
    weights = rows.T @ torch.linalg.solve(table, wanted) if wide else torch.linalg.solve(table, rows.T @ wanted)
    return lambda others: others.double() @ weights + mean


def _score(task: Task, labels: Sequence[str], predicted: Tensor, gold: Sequence[Any]) -> float | None:
    if task.kind == "similarity":
        return spearman([example.score for example in gold], predicted.numpy())
    said = [labels[number] for number in predicted.tolist()]
    if task.kind != "tag":
        return accuracy([example.label for example in gold], said)
    ends = np.cumsum([0, *(len(example.words) for example in gold)])
    mine = [said[begin:end] for begin, end in pairwise(ends)]
    theirs = [example.tags for example in gold]
    if marks_entities(labels):
        return sum(entity_counts(theirs, mine).values(), Counts()).f1
    return tag_accuracy(theirs, mine)
