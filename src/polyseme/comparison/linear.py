"""Linear probes: what a task can read off frozen vectors by weights alone.

Labels by multinomial logistic regression, scores by ridge regression, on vectors of texts (means of their tokens), of
words (means of their pieces), or of pairs as [u; v; |u - v|; u v] (Conneau et al., 2017). The layer and how strongly
weights are held back are chosen on the dev set, and the figure is that of the test set.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from polyseme.comparison.labelled import Task
from polyseme.inside.kept import pieces
from polyseme.pretrained import Pretrained
from polyseme.tasks.metrics import Counts, accuracy, entity_counts, marks_entities, spearman, tag_accuracy

KINDS = ("classify", "pair", "similarity", "tag")

_AT_ONCE = 128  # texts whose layers are held together
_STRENGTHS = (1e-3, 1e-1)  # by which the squares of weights count, against the mean loss
_ITERATIONS = 60
_MOST_WORDS = 6_000  # of tagged sentences that are learnt from
_MOST_TURNED = 2_000  # rows whose coordinates among themselves take less time to find than they save

Layers = list[NDArray[np.float32]]  # each (N, D)


@dataclass(frozen=True, kw_only=True)
class Vectors:
    """The examples of one side as a model sees them, layer by layer."""

    layers: Layers  # a row an example, or a word of one
    lengths: list[int]  # rows of each example


@dataclass(frozen=True, kw_only=True)
class Fitted:
    """What a probe came to."""

    value: float | None
    layer: int


def read_sides(model: Pretrained, task: Task) -> dict[str, Vectors]:
    """All examples of a task, each read once however often they are learnt from."""
    return {side: _read(model, task.kind, examples) for side, examples in task.sides.items()}


def _read(model: Pretrained, kind: str, examples: Sequence[Any]) -> Vectors:
    if kind == "tag":
        return _read_words(model, examples)
    if kind == "classify":
        layers = _read_texts(model, [example.text for example in examples])
    else:
        first, second = (_read_texts(model, [getattr(one, name) for one in examples]) for name in ("text_a", "text_b"))
        layers = [np.concatenate([u, v, np.abs(u - v), u * v], axis=1) for u, v in zip(first, second, strict=True)]
    return Vectors(layers=layers, lengths=[1] * len(examples))


def _read_texts(model: Pretrained, texts: Sequence[str]) -> Layers:
    parts = [
        [np.stack([encoding.layers[layer].mean(0) for encoding in encodings]) for layer in range(_depth(model))]
        for start in range(0, len(texts), _AT_ONCE)
        if (encodings := model.encode(texts[start : start + _AT_ONCE]))
    ]
    return [np.concatenate(layer) for layer in zip(*parts, strict=True)]


def _read_words(model: Pretrained, examples: Sequence[Any]) -> Vectors:
    """A row for each word; zeros where the tokenizer passes a word over."""
    layers: list[list[NDArray[np.float32]]] = [[] for _ in range(_depth(model))]
    for start in range(0, len(examples), _AT_ONCE):
        some = examples[start : start + _AT_ONCE]
        for example, encoding in zip(some, model.encode([one.text for one in some]), strict=True):
            first, behind = pieces(encoding.offsets, [(begin, end) for _, begin, end in example.spans])
            for layer, kept in zip(encoding.layers, layers, strict=True):
                sums = np.concatenate([np.zeros((1, layer.shape[1]), np.float32), np.cumsum(layer, axis=0)])
                kept.append((sums[behind] - sums[first]) / np.maximum(behind - first, 1)[:, None])
    return Vectors(layers=[np.concatenate(kept) for kept in layers], lengths=[len(one.words) for one in examples])


def _depth(model: Pretrained) -> int:
    return len(model.encoder.widths)


def probe(task: Task, vectors: Mapping[str, Vectors], numbers: Sequence[int]) -> Fitted:
    """What some of the examples to learn from teach: the score on the test set, in the layer that dev prefers."""
    chosen = {"train": np.asarray(sorted(numbers)), "dev": None, "test": None}
    rows = {side: _rows(vectors[side].lengths, which) for side, which in chosen.items()}
    rows["train"] = rows["train"][:_MOST_WORDS]
    examples = {
        side: task.sides[side] if which is None else [task.sides[side][n] for n in which]
        for side, which in chosen.items()
    }
    labels = _labels(task)
    target = _targets(task, labels, task.sides["train"], vectors["train"].lengths)[rows["train"]]
    best: tuple[float, int, Tensor] | None = None
    for layer in range(len(vectors["train"].layers)):
        read = {side: vectors[side].layers[layer][rows[side]] for side in rows}
        fitted = _turned(_even(read))
        for strength in _STRENGTHS:
            predict = _fit(task.kind, fitted["train"], target, len(labels), strength)
            found = _score(task, labels, predict(fitted["dev"]), examples["dev"])
            merit = -np.inf if found is None else found
            if best is None or merit > best[0]:
                best = merit, layer, predict(fitted["test"])
    assert best is not None
    return Fitted(value=_score(task, labels, best[2], examples["test"]), layer=best[1])


def _rows(lengths: Sequence[int], chosen: NDArray[np.int64] | None) -> NDArray[np.int64]:
    """The rows of some examples, or of all."""
    ends = np.cumsum([0, *lengths])
    if chosen is None:
        return np.arange(ends[-1])
    return np.concatenate([np.arange(ends[number], ends[number + 1]) for number in chosen])


def _labels(task: Task) -> list[str]:
    return sorted({label for example in task.sides["train"] for label in example.labels})


def _targets(task: Task, labels: Sequence[str], examples: Sequence[Any], lengths: Sequence[int]) -> Tensor:
    if task.kind == "similarity":
        return torch.tensor([example.score for example in examples])
    number = {label: place for place, label in enumerate(labels)}
    return torch.tensor([number[label] for example in examples for label in example.labels])


def _even(sides: Mapping[str, NDArray[np.float32]]) -> dict[str, Tensor]:
    """Without columns that are the same in all rows to learn from, and with mean 0 and deviation 1 there."""
    train = sides["train"]
    mean, deviation = train.mean(0), train.std(0)
    kept = deviation > 1e-6
    return {
        side: torch.from_numpy(((rows[:, kept] - mean[kept]) / deviation[kept]).astype(np.float32))
        for side, rows in sides.items()
    }


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
