"""Outcomes of single test items: their mean is the metric, whatever the task."""

import random
import statistics
from types import SimpleNamespace

import pytest

from polyseme.comparison.measure.datasets import find_datasets
from polyseme.comparison.measure.outcomes import compact_outcomes, mean_outcomes, prediction_outcomes
from polyseme.tasks.metrics import accuracy, entity_counts, score_answers, spearman

KINDS = ["classify", "pair", "choice", "tag", "similarity", "span"]


@pytest.fixture(scope="module")
def datasets(town):
    return {dataset.kind: dataset for dataset in find_datasets(str(town), seed=0).datasets}


def noisy_answers(examples, kind):
    """The right answers to most examples, those of another one to the rest."""
    rng = random.Random(0)
    for example in examples:
        other = rng.choice(examples)
        source = example if rng.random() < 0.7 else other
        if kind == "tag":
            yield SimpleNamespace(tags=tuple(tag if rng.random() < 0.8 else "O" for tag in example.tags))
        elif kind == "similarity":
            yield SimpleNamespace(score=source.score + rng.gauss(0, 0.5))
        elif kind == "span":
            yield SimpleNamespace(text=source.answers[0].text if source.answers else "")
        elif kind == "choice":
            yield SimpleNamespace(choice=source.answer)
        else:
            yield SimpleNamespace(label=source.label)


def metric(gold, predicted, kind):
    if kind == "tag":
        return entity_counts([one.tags for one in gold], [one.tags for one in predicted]).f1
    if kind == "similarity":
        return spearman([one.score for one in gold], [one.score for one in predicted])
    if kind == "span":
        texts = [[answer.text for answer in one.answers] for one in gold]
        return score_answers(texts, [one.text for one in predicted]).f1
    if kind == "choice":
        return accuracy([one.answer for one in gold], [one.choice for one in predicted])
    return accuracy([one.label for one in gold], [one.label for one in predicted])


@pytest.mark.parametrize("kind", KINDS)
def test_the_mean_of_the_outcomes_is_the_metric(datasets, kind):
    gold = datasets[kind].splits["test"]
    predicted = list(noisy_answers(gold, kind))
    outcomes = prediction_outcomes(datasets[kind], predicted)
    value = metric(gold, predicted, kind)
    assert len(outcomes) == len(gold) and 0.3 < value < 1
    assert statistics.fmean(outcomes) == pytest.approx(value, abs=0.02 if kind == "similarity" else 1e-9)


def test_tasks_that_are_not_known_have_no_outcomes(datasets):
    other = SimpleNamespace(kind="multilabel", metric="micro_f1", splits=datasets["classify"].splits)
    assert prediction_outcomes(other, [SimpleNamespace()] * 3) == []


def test_outcomes_are_averaged_over_seeds():
    assert mean_outcomes([[1, 0, 1], [1, 1, 0]]) == [1, 0.5, 0.5]
    assert mean_outcomes([[1, 0], []]) == mean_outcomes([]) == []


def test_outcomes_are_stored_with_few_digits():
    assert compact_outcomes([1.0, 0.0, 1 / 3, None]) == [1, 0, 0.3333, None]
    assert all(isinstance(value, int) for value in compact_outcomes([1.0, 0.0]))
