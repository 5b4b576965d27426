"""The measurements of a comparison: the scores of all options on each dataset, with standard errors and baselines.

The score of an option is its mean over trainings and label samples. Its variance is that of the mean over trainings,
that of the mean over label samples, and the sampling variance of the test set: p (1 - p) / n for proportions of n
items, and (1 - r²)² / (n - 1) for correlations (Bonett and Wright, 2000, without their correction for ranks).
"""

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence

from polyseme.comparison.report.labels import SCALES, SUITES, likelihood_name
from polyseme.comparison.report.results_view import ResultsView, get_number, get_text
from polyseme.comparison.report.scores import Measurement, Option, Score
from polyseme.comparison.rows import Row

LOW_COVERAGE = "too few words in the vocabulary"
NO_TIME = "no time left for fine-tuning"

_CORRELATIONS = ("spearman", "pearson", "correlation", "matthews")
_BASELINES = {"words": 0.0, "senses": 0.5, "minimal-pairs": 0.5, "retrieval": 0.0}
_MIN_COVERAGE = 0.5  # of the word pairs that the family with the largest vocabulary covers


def suite_measurements(results: ResultsView) -> Iterator[Measurement]:
    """Likelihoods by scale, word similarity, analogies, word senses, minimal pairs and retrieval, one per dataset."""
    groups = results.group_trainings("metric", "suite", "scale", "name")
    order = ["likelihood", *SUITES, *SCALES]  # unknown ones come last
    ranks = {key: [order.index(part) if part in order else len(order) for part in key] for key in groups}
    for suite, scale, name in sorted(groups, key=lambda key: (ranks[key], key)):
        scores = {Option(family): _suite_score(suite, rows) for family, rows in groups[suite, scale, name].items()}
        # Families whose vocabulary covers too few items are not comparable.
        most = max(score.count or 0.0 for score in scores.values()) if suite in ("words", "analogies") else 0.0
        rare = [option for option, score in scores.items() if (score.count or most) < _MIN_COVERAGE * most]
        likelihood = suite == "likelihood"
        title = " · ".join(filter(None, [SUITES.get(suite, suite), name]))
        yield Measurement(
            name=likelihood_name(scale, name) if likelihood else title,
            kind=suite,
            metric=scale,
            sign=-1 if likelihood else 1,
            scores={option: score for option, score in scores.items() if option not in rare},
            baseline=_suite_baseline(results, suite, scores),
            description=name,
            excluded=[option.family for option in rare],
            why_excluded=LOW_COVERAGE,
        )


def task_measurements(results: ResultsView, *, place: int = -1) -> Iterator[Measurement]:
    """Each task at its largest number of labels, or at another place among the numbers in ascending order."""
    for task, description in results.tasks.items():
        groups = results.task_options(task)
        counts = sorted({num_labels for _, _, num_labels in groups})
        if not counts or (place != -1 and len(counts) < 2):
            continue
        num_labels, metric = counts[place], get_text(description, "metric")
        scores: dict[Option, Score] = {}
        unconverged: dict[Option, Score] = {}
        for (family, method, number), rows in groups.items():
            if number == num_labels:
                converged = all(row.get("converged", True) for row in rows)
                (scores if converged else unconverged)[Option(family, method)] = task_score(results, rows)
        measured = {option.family for option in (*scores, *unconverged)}
        failed = {row["family"] for row in results.of["failure"]}
        skipped = [one for one in results.pretrained if one not in measured and one not in failed]
        baseline = get_number(description, "majority_baseline")
        if baseline is None and metric in (*_CORRELATIONS, "f1"):
            baseline = 0.0
        yield Measurement(
            name=task,
            kind=get_text(description, "kind"),
            metric=metric,
            scores=scores,
            unconverged=unconverged,
            baseline=baseline,
            num_labels=num_labels,
            description=get_text(description, "about"),
            excluded=skipped if place == -1 else (),
            why_excluded=NO_TIME,
        )


def task_score(results: ResultsView, rows: Sequence[Row]) -> Score:
    """The score of the rows of an option, one per training: the mean over trainings and label samples."""
    description, first = results.tasks[rows[0]["task"]], rows[0]
    trainings = [statistics.fmean(row["values"]) for row in rows]
    num_seeds = min(len(row["values"]) for row in rows)
    seeds = [statistics.fmean(row["values"][seed] for row in rows) for seed in range(num_seeds)]
    value, count = statistics.fmean(trainings), get_number(description, "test")
    sampling = sampling_error(get_text(first, "metric") or get_text(description, "metric"), value, count)
    costs = [cost for row in rows if (cost := get_number(row, "inference_seconds")) is not None]
    devs = [dev for row in rows if (dev := get_number(row, "dev")) is not None]
    return Score(
        value=value,
        standard_error=math.hypot(sampling or 0.0, _error_of_mean(seeds), _error_of_mean(trainings)) or None,
        sampling_error=sampling,
        count=count,
        by_training=trainings,
        by_seed=seeds,
        outcomes=_mean_outcomes(rows),
        dev=statistics.fmean(devs) if len(devs) == len(rows) else None,
        inference_seconds=statistics.fmean(costs) if costs else None,
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


def _error_of_mean(values: Sequence[float]) -> float:
    return statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else 0.0


def _mean_outcomes(rows: Iterable[Row]) -> list[float | None]:
    """The mean outcome of each item over trainings; none if a training has none."""
    every = [row.get("outcomes", ()) for row in rows]
    if len({len(outcomes) for outcomes in every}) != 1:
        return []
    return [None if None in values else statistics.fmean(values) for values in zip(*every, strict=True)]


def _suite_score(suite: str, rows: Sequence[Row]) -> Score:
    trainings = [get_number(row, "value") or 0.0 for row in rows]
    value = statistics.fmean(trainings)
    errors = [error for row in rows if (error := get_number(row, "standard_error")) is not None]
    count = get_number(rows[0], "count")
    error = statistics.fmean(errors) if errors else None
    if error is None and suite != "likelihood":
        error = sampling_error("spearman" if suite == "words" else "accuracy", value, count)
    spread = _error_of_mean(trainings)
    costs = [cost for row in rows if (cost := get_number(row, "inference_seconds")) is not None]
    return Score(
        value=value,
        standard_error=math.hypot(error or 0.0, spread) if error is not None or spread else None,
        sampling_error=error,
        count=count,
        by_training=trainings,
        outcomes=_mean_outcomes(rows),
        inference_seconds=statistics.fmean(costs) if costs else None,
    )


def _suite_baseline(results: ResultsView, suite: str, scores: Mapping[Option, Score]) -> float | None:
    static = [score.value for option, score in scores.items() if results.is_static(option.family)]
    # Context-independent vectors cannot distinguish senses.
    return statistics.fmean(static) if static and suite == "senses" else _BASELINES.get(suite)
