"""Outcomes of single test items, so that families are compared on the same items.

An outcome is the jackknife pseudo-value of an item (Efron and Tibshirani, 1993, chapter 11): of a mean such as
accuracy, the score of the item itself. Whatever the metric, the mean of the outcomes is about its value, and the
standard error of a difference between two families is that of the mean difference of their outcomes.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from polyseme.comparison.measure.datasets import LabelledDataset
from polyseme.tasks.metrics import entity_counts, jackknife_ratio, jackknife_spearman, score_answer

Outcomes = Sequence[float | None]

# What of a prediction is compared with the test example, by the kind of the task.
_ANSWERS = {
    "classify": "label",
    "pair": "label",
    "choice": "choice",
    "tag": "tags",
    "similarity": "score",
    "span": "text",
}


def prediction_outcomes(dataset: LabelledDataset, predictions: Sequence[Any], *, language: Any = "en") -> list[float]:
    """The outcomes of the predictions of a fine-tuned model; none for a task that is not known here."""
    name = _ANSWERS.get(dataset.kind)
    answers = [getattr(prediction, name) for prediction in predictions] if name else []
    return task_outcomes(dataset, answers, language=language) if answers else []


def task_outcomes(dataset: LabelledDataset, answers: Sequence[Any], *, language: Any = "en") -> list[float]:
    """The outcomes of the test examples, given an answer to each: a label, tags, a score, a choice or a text."""
    gold: Sequence[Any] = dataset.splits["test"]
    if dataset.kind == "similarity":
        return jackknife_spearman([example.score for example in gold], answers)
    if dataset.kind == "tag":
        pairs = [_tag_counts(dataset, example.tags, tags) for example, tags in zip(gold, answers, strict=True)]
        return jackknife_ratio(*zip(*pairs, strict=True))
    if dataset.kind == "span":
        texts = ([one.text for one in example.answers] for example in gold)
        return [score_answer(expected, found, language).f1 for expected, found in zip(texts, answers, strict=True)]
    expected = (example.answer if dataset.kind == "choice" else example.label for example in gold)
    return [float(label == found) for label, found in zip(expected, answers, strict=True)]


def _tag_counts(dataset: LabelledDataset, gold: Sequence[str], predicted: Sequence[str]) -> tuple[int, int]:
    """What a sentence adds to the numerator and to the denominator of the metric."""
    if dataset.metric == "f1":
        counts = entity_counts([gold], [predicted])
        return 2 * counts.num_correct, counts.num_predicted + counts.num_gold
    return sum(tag == found for tag, found in zip(gold, predicted, strict=True)), len(gold)


def mean_outcomes(by_seed: Sequence[Sequence[float]]) -> list[float]:
    """The mean outcome of each item over seeds; none if a seed has none."""
    return list(np.mean(by_seed, axis=0).tolist()) if by_seed and all(by_seed) else []


def compact_outcomes(outcomes: Iterable[float | None]) -> list[float | None]:
    """Outcomes with few digits, as they are stored."""
    return [None if value is None else int(value) if value == int(value) else round(value, 4) for value in outcomes]
