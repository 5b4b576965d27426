"""Scores of all families on one scale, with standard errors and a baseline.

The variance of a score is the variance of the mean over seeds plus the sampling variance of the test set, which all
seeds share: p (1 - p) / n for proportions of n items, and (1 - r²)² / (n - 1) for correlations (Bonett and Wright,
2000, without their correction for ranks). As all families are evaluated on the same items and seeds, the standard error
of a difference is that of the mean difference per item, and per seed. Where the outcomes of single items are not
recorded, it is computed from the errors of both scores, which overestimates it.
"""

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from polyseme.arrays import Doubles
from polyseme.comparison.report.labels import SCALES, SUITES, format_score, likelihood_name
from polyseme.comparison.report.results_view import ResultsView, get_number, get_text
from polyseme.comparison.rows import Row
from polyseme.system.formatting import enumerate_words

LOW_COVERAGE = "too few words in the vocabulary"
NO_TIME = "no time left for fine-tuning"
INCOMPLETE = "not evaluated on all datasets"

_CORRELATIONS = ("spearman", "pearson", "correlation", "matthews")
_BASELINES = {"words": 0.0, "senses": 0.5, "minimal-pairs": 0.5}
_MIN_COVERAGE = 0.5  # of the word pairs that the family with the largest vocabulary covers
_MIN_GAIN = 0.1  # of the way from the baseline to a perfect score


@dataclass(frozen=True, kw_only=True)
class FamilyScore:
    """The score of a family."""

    value: float
    standard_error: float | None = None
    method: str = ""  # linear_probe or fine_tuning
    count: float | None = None  # test items
    by_seed: Sequence[float] = ()
    outcomes: Sequence[float | None] = ()  # by test item; None for items without a score

    def __str__(self) -> str:
        return format_score(self.value, self.standard_error)

    @cached_property
    def deviations(self) -> Doubles:
        """The share of each item in the deviation of the score from its expectation; 0 for items without a score."""
        outcomes = np.array(self.outcomes, np.float64)
        known = ~np.isnan(outcomes)
        if not known.any():
            return np.zeros(len(outcomes))
        deviations: Doubles = np.where(known, outcomes - outcomes[known].mean(), 0.0) / known.sum()
        return deviations


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """The scores of all families on one scale; scores are only compared within a measurement."""

    name: str
    kind: str  # a suite (likelihood, words, analogies, senses, minimal-pairs) or the kind of a task
    scores: Mapping[str, FamilyScore]
    metric: str = ""
    sign: int = 1  # -1 if lower values are better
    baseline: float | None = None  # majority or chance
    num_labels: int = 0
    description: str = ""
    excluded: Sequence[str] = ()  # families without a comparable score
    why_excluded: str = ""
    parts: Sequence["Measurement"] = ()  # of which this is the mean

    def above_baseline(self, family: str) -> bool:
        """Whether a family is better than the baseline: significantly, and by a tenth of what a perfect score would."""
        score = self.scores[family]
        if self.baseline is None:
            return True
        gain = self.sign * (score.value - self.baseline)
        return gain > 2 * (score.standard_error or 0.0) and gain >= _MIN_GAIN * (1 - self.baseline)

    @cached_property
    def gains(self) -> dict[str, float]:
        """The score of each family, negated if lower values are better."""
        return {family: self.sign * score.value for family, score in self.scores.items()}

    def lead(self, family: str, other: str) -> float:
        """By how much a family is better than another."""
        return self.gains[family] - self.gains[other]

    @property
    def baseline_name(self) -> str:
        """The kind of the baseline."""
        if self.kind in ("senses", "minimal-pairs"):
            return "chance level"
        return "majority baseline" if self.baseline else "baseline"

    def ranked(self) -> list[str]:
        """Families from best to worst."""
        return sorted(self.gains, key=lambda family: self.gains[family], reverse=True)

    def significantly_best(self) -> str | None:
        """The family that is significantly better than every other."""
        first, *others = self.ranked() or [""]
        return first if others and all(self.significantly_better(first, other) for other in others) else None

    def significantly_better(self, family: str, other: str) -> bool:
        """Whether a family leads another by more than two standard errors of the difference."""
        return self.lead(family, other) > 2 * self.standard_error_of_difference(family, other)

    def standard_error_of_difference(self, family: str, other: str) -> float:
        """The standard error of a difference; unknown standard errors count as zero."""
        if self.parts:
            return math.hypot(*(one.standard_error_of_difference(family, other) for one in self.parts)) / len(
                self.parts
            )
        return _paired_error(self.scores[family], self.scores[other])


def _paired_error(first: FamilyScore, second: FamilyScore) -> float:
    """The standard error of the difference of two scores on the same items."""
    number = len(first.outcomes)
    if number < 2 or number != len(second.outcomes):
        return math.hypot(first.standard_error or 0.0, second.standard_error or 0.0)
    over_items = math.sqrt(((first.deviations - second.deviations) ** 2).sum() * number / (number - 1))
    seeds = len(first.by_seed)
    if seeds < 2 or seeds != len(second.by_seed):
        return over_items
    differences = [one - other for one, other in zip(first.by_seed, second.by_seed, strict=True)]
    return math.hypot(over_items, statistics.stdev(differences) / math.sqrt(seeds))


def suite_measurements(results: ResultsView) -> Iterator[Measurement]:
    """Likelihoods by scale, word similarity, analogies, word senses and minimal pairs, one measurement per dataset."""
    groups = results.group("metric", "suite", "scale", "name")
    order = ["likelihood", *SUITES, *SCALES]  # unknown ones come last
    ranks = {key: [order.index(part) if part in order else len(order) for part in key] for key in groups}
    for suite, scale, name in sorted(groups, key=lambda key: (ranks[key], key)):
        scores = {family: _suite_score(suite, row) for family, row in groups[suite, scale, name].items()}
        # Families whose vocabulary covers too few items are not comparable.
        most = max(score.count or 0.0 for score in scores.values()) if suite in ("words", "analogies") else 0.0
        rare = [family for family, score in scores.items() if (score.count or most) < _MIN_COVERAGE * most]
        title = " · ".join(filter(None, [SUITES.get(suite, suite), name]))
        yield Measurement(
            name=likelihood_name(scale, name) if suite == "likelihood" else title,
            kind=suite,
            metric=scale,
            sign=-1 if suite == "likelihood" else 1,
            scores={family: score for family, score in scores.items() if family not in rare},
            baseline=_suite_baseline(results, suite, scores),
            description=name,
            excluded=rare,
            why_excluded=LOW_COVERAGE,
        )


def task_measurements(results: ResultsView, *, fewest: bool = False, method: str = "") -> Iterator[Measurement]:
    """Each task at its largest (or smallest) number of labels, by the best method or by a given one."""
    for task, description in results.tasks.items():
        rows = [row for row in results.of["task"] if row["task"] == task and method in ("", get_text(row, "method"))]
        counts = sorted({row["num_labels"] for row in rows})
        if len(counts) < 1 + fewest:
            continue
        num_labels = counts[0 if fewest else -1]
        metric = get_text(description, "metric")
        scores: dict[str, FamilyScore] = {}
        for row in rows:
            if row["num_labels"] == num_labels:
                score = task_score(results, row)
                scores[row["family"]] = max(scores.get(row["family"], score), score, key=lambda score: score.value)
        failed = {row["family"] for row in results.of["failure"]}
        skipped = [family for family in results.trained if family not in scores and family not in failed]
        baseline = get_number(description, "majority_baseline")
        if baseline is None and metric in (*_CORRELATIONS, "f1"):
            baseline = 0.0
        yield Measurement(
            name=task,
            kind=get_text(description, "kind"),
            metric=metric,
            scores=scores,
            baseline=baseline,
            num_labels=num_labels,
            description=get_text(description, "about"),
            excluded=() if fewest or method else skipped,
            why_excluded=NO_TIME,
        )


def task_score(results: ResultsView, row: Row) -> FamilyScore:
    """The score of a task row: the mean over seeds."""
    values, description = row["values"], results.tasks[row["task"]]
    mean, count = statistics.fmean(values), get_number(description, "test")
    over_seeds = statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else 0.0
    metric = get_text(row, "metric") or get_text(description, "metric")
    return FamilyScore(
        value=mean,
        standard_error=math.hypot(over_seeds, sampling_error(metric, mean, count) or 0.0) or None,
        method=get_text(row, "method"),
        count=count,
        by_seed=values,
        outcomes=row.get("outcomes", ()),
    )


def sampling_error(metric: str, value: float, count: float | None) -> float | None:
    """The standard error due to the size of the test set, where it can be estimated."""
    if count is None or count < 2 or abs(value) > 1:
        return None
    if metric in _CORRELATIONS:
        return (1 - value * value) / math.sqrt(count - 1)
    if value < 0:
        return None
    share = (value * count + 1) / (count + 2)  # add-one smoothing: 0 % and 100 % are not certain either
    return math.sqrt(share * (1 - share) / count)


def average(measurements: Sequence[Measurement]) -> Measurement:
    """The mean of several measurements over the families that have all of them; a single one is returned unchanged."""
    if len(measurements) == 1:
        return measurements[0]
    every = list(dict.fromkeys(family for one in measurements for family in one.scores))
    families = [family for family in every if all(family in one.scores for one in measurements)]
    scores = {}
    for family in families:
        parts = [one.scores[family] for one in measurements]
        errors = [part.standard_error for part in parts if part.standard_error is not None]
        methods = list(dict.fromkeys(part.method for part in parts))
        scores[family] = FamilyScore(
            value=statistics.fmean(part.value for part in parts),
            standard_error=math.hypot(*errors) / len(parts) if errors else None,
            method=methods[0] if len(methods) == 1 else "",
        )
    baselines = [one.baseline for one in measurements if one.baseline is not None]
    names = [one.description or one.name if one.kind in SUITES else one.name for one in measurements]
    return Measurement(
        name=f"mean of {enumerate_words(names)}",
        kind=measurements[0].kind,
        sign=measurements[0].sign,
        scores=scores,
        baseline=statistics.fmean(baselines) if len(baselines) == len(measurements) else None,
        num_labels=max(one.num_labels for one in measurements),
        excluded=[family for family in every if family not in families],
        why_excluded=INCOMPLETE,
        parts=measurements,
    )


def _suite_score(suite: str, row: Row) -> FamilyScore:
    value, error, count = get_number(row, "value") or 0.0, get_number(row, "standard_error"), get_number(row, "count")
    if error is None and suite != "likelihood":
        error = sampling_error("spearman" if suite == "words" else "accuracy", value, count)
    return FamilyScore(value=value, standard_error=error, count=count, outcomes=row.get("outcomes", ()))


def _suite_baseline(results: ResultsView, suite: str, scores: Mapping[str, FamilyScore]) -> float | None:
    static = [score.value for family, score in scores.items() if results.is_static(family)]
    # Context-independent vectors cannot distinguish senses.
    return statistics.fmean(static) if static and suite == "senses" else _BASELINES.get(suite)
