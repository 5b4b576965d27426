"""What was measured on one scale: the scores of families, how sure they are, and what is to be had for nothing.

The variance of a score is that over seeds, of their mean, and that of a test set of its size, which all seeds share:
p (1 - p) / n for shares of n items, and (1 - r²)² / (n - 1) for correlations (Bonett and Wright, 2000, without their
correction for ranks). As all families answer the same questions, the difference of two is rather surer than this says.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from polyseme.comparison.report_rows import Row, Rows, is_number, number_in, text_in
from polyseme.comparison.report_words import MEASURES, SCALES, likelihood, listed, name

_CORRELATIONS = ("spearman", "pearson", "correlation", "matthews")
_OF_NO_KNOWLEDGE = {"words": 0.0, "senses": 0.5, "minimal-pairs": 0.5}
_KNOWN = 0.5  # of the words that another family was asked; with fewer it was asked something else


@dataclass(frozen=True, kw_only=True)
class Score:
    """Of a family; the error is a standard error, if anything is known of it."""

    value: float
    error: float | None = None
    method: str = ""  # how it learnt from labels, if it did
    count: float | None = None  # items it rests on


@dataclass(frozen=True, kw_only=True)
class Measured:
    """The scores of families on one scale; only these are ever compared."""

    key: str
    name: str
    kind: str  # likelihood, words, analogies, senses, minimal-pairs, or that of a task
    scores: Mapping[str, Score]
    metric: str = ""
    higher: bool = True  # whether that is better
    baseline: float | None = None  # without having learnt anything
    labels: int = 0
    about: str = ""
    left_out: Sequence[str] = field(default=())

    def beats_nothing(self, family: str) -> bool:
        """Whether a family has learnt anything, beyond noise."""
        score = self.scores[family]
        return self.baseline is None or self.gain(score.value, self.baseline) > 2 * (score.error or 0.0)

    def gain(self, value: float, other: float) -> float:
        """By how much one value is better than another."""
        return value - other if self.higher else other - value

    def best(self) -> str | None:
        """The family that is better than all others beyond noise."""
        order = sorted(self.scores, key=lambda family: self.gain(self.scores[family].value, 0.0), reverse=True)
        if len(order) < 2:
            return None
        first = order[0]
        return first if all(self.beyond_noise(first, other) for other in order[1:]) else None

    def beyond_noise(self, family: str, other: str) -> bool:
        """Whether a family is better than another by more than two standard errors of their difference."""
        mine, theirs = self.scores[family], self.scores[other]
        return self.gain(mine.value, theirs.value) > 2 * noise(mine, theirs)


def noise(mine: Score, theirs: Score) -> float:
    """The standard error of the difference of two scores; what is not known of it counts as nothing."""
    return math.hypot(mine.error or 0.0, theirs.error or 0.0)


def measure_figures(rows: Rows) -> list[Measured]:
    """Likelihoods by scale, words, analogies, senses and minimal pairs, each set on its own."""
    groups: dict[tuple[str, str, str], dict[str, Row]] = {}
    for row in rows.of["figure"]:
        if number_in(row, "value") is not None:
            key = (row["measure"], text_in(row, "scale"), text_in(row, "name"))
            groups.setdefault(key, {})[row["family"]] = row
    order = ["likelihood", *MEASURES, *SCALES]  # whatever else there is comes behind
    places = {key: [order.index(part) if part in order else len(order) for part in key] for key in groups}
    found = []
    for measure, scale, called in sorted(groups, key=lambda key: (places[key], key)):
        some = groups[measure, scale, called]
        scores = {family: _figure_score(measure, some[family]) for family in rows.families if family in some}
        scores, left_out = _asked_alike(scores) if measure in ("words", "analogies") else (scores, [])
        if measure == "likelihood":
            title = likelihood(scale, called)
        else:
            title = " · ".join(filter(None, [MEASURES.get(measure, measure), called]))
        found.append(
            Measured(
                key=" ".join(filter(None, [measure, scale, called])),
                name=title,
                kind=measure,
                metric=scale,
                higher=all(text_in(row, "better") != "lower" for row in some.values()) and measure != "likelihood",
                scores=scores,
                baseline=_baseline(rows, measure, some),
                about=called,
                left_out=left_out,
            )
        )
    return found


def measure_tasks(rows: Rows, *, fewest: bool = False, method: str = "") -> list[Measured]:
    """Each task at its largest number of labels, or at its fewest; by its best method there, or a given one."""
    found = []
    for task, told in rows.tasks().items():
        learnt = [
            (row, score)
            for row in rows.of["task"]
            if row["task"] == task
            and method in ("", row.get("method"))
            and (score := task_score(rows, row)) is not None
        ]
        if not learnt:
            continue
        counts = sorted({_labels(row) for row, _ in learnt})
        if fewest and len(counts) < 2:
            continue
        labels = counts[0] if fewest else counts[-1]
        metric = text_in(told, "metric") or text_in(learnt[0][0], "metric")
        scores: dict[str, Score] = {}
        for family in rows.families:
            some = [score for row, score in learnt if row["family"] == family and _labels(row) == labels]
            if some:
                scores[family] = max(some, key=lambda score: score.value)
        failed = {row["family"] for row in rows.of["failure"]}
        late = [name(family) for family in rows.trained if family not in scores and family not in failed]
        majority = number_in(told, "majority")
        if majority is None and metric in (*_CORRELATIONS, "f1"):
            majority = 0.0
        kind = text_in(told, "kind") or text_in(learnt[0][0], "kind")
        about = text_in(told, "about")
        found.append(
            Measured(
                key=f"task {task}",
                name=task,
                kind=kind,
                metric=metric,
                scores=scores,
                baseline=majority,
                labels=labels,
                about=about,
                left_out=[f"{listed(late)} had too little time"] if late and not (fewest or method) else [],
            )
        )
    return found


def task_score(rows: Rows, row: Row) -> Score | None:
    """What a row of a task says, from its values where it has them."""
    given = row.get("values")
    values = [float(value) for value in given if is_number(value)] if isinstance(given, list) else []
    mean = statistics.fmean(values) if values else number_in(row, "mean")
    if mean is None:
        return None
    deviation = statistics.stdev(values) if len(values) > 1 else None if values else number_in(row, "deviation")
    num_seeds = len(values) or number_in(rows.comparison, "seeds") or 1
    told = rows.tasks().get(row["task"], {})
    metric = text_in(row, "metric") or text_in(told, "metric")
    count = number_in(told, "test")
    sampled = sampling_error(metric, mean, count)
    parts = [part for part in (None if deviation is None else deviation / math.sqrt(num_seeds), sampled) if part]
    return Score(value=mean, error=math.hypot(*parts) if parts else None, method=text_in(row, "method"), count=count)


def sampling_error(metric: str, value: float, count: float | None) -> float | None:
    """The standard error that comes of a test set of some size, if that can be said."""
    if count is None or count < 2 or abs(value) > 1:
        return None
    if metric in _CORRELATIONS:
        return (1 - value * value) / math.sqrt(count - 1)
    if value < 0:
        return None
    share = (value * count + 1) / (count + 2)  # so that nobody is quite sure of never or of always
    return math.sqrt(share * (1 - share) / count)


def together(some: Sequence[Measured]) -> Measured:
    """The mean of several measurements, of the families that have them all; or the one, as it is."""
    if len(some) == 1:
        return some[0]
    families = [family for family in some[0].scores if all(family in one.scores for one in some)]
    scores = {}
    for family in families:
        parts = [one.scores[family] for one in some]
        errors = [part.error for part in parts if part.error is not None]
        methods = list(dict.fromkeys(part.method for part in parts))
        scores[family] = Score(
            value=statistics.fmean(part.value for part in parts),
            error=math.hypot(*errors) / len(parts) if errors else None,
            method=methods[0] if len(methods) == 1 else "",
        )
    baselines = [one.baseline for one in some if one.baseline is not None]
    return Measured(
        key="mean",
        name=f"mean of {listed([one.about or one.name if one.kind in MEASURES else one.name for one in some])}",
        kind=some[0].kind,
        metric="score",
        higher=some[0].higher,
        scores=scores,
        baseline=statistics.fmean(baselines) if len(baselines) == len(some) else None,
        labels=max(one.labels for one in some),
        left_out=[
            f"{name(family)} was not measured on all of them"
            for family in dict.fromkeys(family for one in some for family in one.scores)
            if family not in families
        ],
    )


def _labels(row: Row) -> int:
    return int(number_in(row, "labels") or 0)


def _figure_score(measure: str, row: Row) -> Score:
    value, error, count = number_in(row, "value") or 0.0, number_in(row, "error"), number_in(row, "count")
    if error is None and measure != "likelihood":
        error = sampling_error("spearman" if measure == "words" else "accuracy", value, count)
    return Score(value=value, error=error, count=count)


def _asked_alike(scores: Mapping[str, Score]) -> tuple[dict[str, Score], list[str]]:
    """Without families that know too few of the words to be compared."""
    most = max((score.count or 0.0 for score in scores.values()), default=0.0)
    kept = {family: score for family, score in scores.items() if (score.count or most) >= _KNOWN * most}
    return kept, [f"{name(family)} knows too few of its words" for family in scores if family not in kept]


def _baseline(rows: Rows, measure: str, some: Mapping[str, Row]) -> float | None:
    chance = _mean(number_in(row, "chance") for row in some.values())
    if chance is None and measure == "senses":  # a vector that is the same everywhere tells no senses
        chance = _mean(number_in(row, "value") for family, row in some.items() if rows.context(family) == "none")
    return _OF_NO_KNOWLEDGE.get(measure) if chance is None else chance


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None
