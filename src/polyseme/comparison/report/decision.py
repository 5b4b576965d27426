"""Decision rule: which option to use for which purpose, as a pure function of the results.

An option is a family, for labelled datasets with a method. For each use, the options are compared at the largest number
of labels, by their mean over the datasets of the use. The rule recommends the simplest option that is not significantly
worse than any other, in the mean and on each dataset. Baselines are the simplest, then the option with the least time
to process 1,000 texts; times within 25 % of each other count as equal, and then the simpler method, the smaller model
and the higher score decide. Nothing is recommended for a use if no option is clearly better than the majority or
chance baseline. Fine-tuning that did not converge is not considered.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from polyseme.comparison.report.labels import BASELINES
from polyseme.comparison.report.measurements import suite_measurements, task_measurements
from polyseme.comparison.report.results_view import ResultsView, get_number
from polyseme.comparison.report.scores import Measurement, Option, Score, average, complexity
from polyseme.comparison.significance import LEVEL, Difference, adjust, interval, tail_probabilities
from polyseme.tasks import TASKS

SIMILAR_COST = 1.25  # timings of the same program differ by more than a few percent
_LAST_PART = 0.8  # of a training, after which the dev loss counts as falling or not
_MIN_FALL = 0.01  # of the dev loss


@dataclass(frozen=True, kw_only=True)
class Use:
    """A purpose that representations serve, and the measurements that are evidence for it."""

    key: str
    name: str
    phrase: str  # follows "for"
    suite: str = ""  # if no task names this use
    metric: str = ""  # of the suite; others are not evidence
    scales: tuple[str, ...] = ()  # of likelihoods, in order of preference

    def includes(self, measurement: Measurement) -> bool:
        """Whether a measurement is evidence for this use."""
        if measurement.kind in TASKS:
            return TASKS[measurement.kind].use == self.key
        if measurement.kind == "likelihood":
            return measurement.metric in self.scales
        return measurement.kind == self.suite and self.metric in measurement.metric.lower()


USES = (
    Use(key="similarity", name="Semantic similarity", phrase="semantic similarity", suite="words"),
    Use(key="search", name="Search", phrase="search", suite="retrieval", metric="ndcg"),
    Use(key="classification", name="Text classification", phrase="text classification"),
    Use(key="sequence_labelling", name="Sequence labelling", phrase="sequence labelling"),
    Use(key="pair_classification", name="Sentence-pair classification", phrase="sentence-pair classification"),
    Use(key="question_answering", name="Question answering", phrase="question answering"),
    Use(key="generation", name="Text generation", phrase="text generation", scales=("causal", "bidirectional")),
    Use(key="masked_prediction", name="Masked-token prediction", phrase="masked-token prediction", scales=("masked",)),
    Use(key="senses", name="Word sense disambiguation", phrase="word sense disambiguation", suite="senses"),
)


@dataclass(frozen=True, kw_only=True)
class Rise:
    """An option that gains significantly more from additional labels than the recommended one."""

    option: Option
    fewer: int  # labels
    more: int
    difference: Difference  # of the gains


@dataclass(frozen=True, kw_only=True)
class DevLoss:
    """The dev loss of a family at the end of its training."""

    family: str
    fall: float  # share, in the last part of the training
    epochs: float | None

    @property
    def falling(self) -> bool:
        """Whether longer training would lower it further."""
        return self.fall >= _MIN_FALL


@dataclass(frozen=True, kw_only=True)
class Decision:
    """The recommended option for a use, and the evidence."""

    use: Use
    measurements: Sequence[Measurement]  # all evidence; empty if there is none
    overall: Measurement | None = None  # the mean that decides
    option: Option | None = None  # recommended; none if no option is above the baseline
    best: Option | None = None  # by mean score
    tied: Sequence[Option] = ()  # options that are not significantly worse than any other, the recommended one included
    runner_up: Option | None = None  # the best option of another family
    baseline: Option | None = None  # the best of the baselines that take part
    at_baseline: Sequence[Measurement] = ()  # measurements in which no option is above the baseline
    other_scales: Sequence[Measurement] = ()  # likelihoods on scales that cannot be compared
    by_dataset: Sequence[Self] = ()  # if there are several
    few_labels: Self | None = None  # the decision at the smallest number of labels
    rises: Sequence[Rise] = ()
    dev_losses: Sequence[DevLoss] = ()

    @property
    def family(self) -> str | None:
        """The recommended family."""
        return self.option.family if self.option else None

    @property
    def score(self) -> Score | None:
        """The score of the recommended option."""
        return self.overall.scores[self.option] if self.overall and self.option else None

    @property
    def significant(self) -> bool:
        """Whether the recommended option is significantly better than the runner-up."""
        if self.overall is None or self.option is None or self.runner_up is None:
            return False
        return self.overall.significantly_better(self.option, self.runner_up)


def decide_all(results: ResultsView) -> list[Decision]:
    """A decision for each use, in order; those without evidence have no measurements."""
    measurements = [*suite_measurements(results), *task_measurements(results)]
    few, fewer = (list(task_measurements(results, place=place)) for place in (0, -2))
    return [_decide_use(use, measurements, few, fewer, results) for use in USES]


def decide(use: Use, measurements: Sequence[Measurement], results: ResultsView) -> Decision:
    """Choose the option for a use from its measurements."""
    informative = [one for one in measurements if any(map(one.above_baseline, one.scores))]
    if not informative:
        return Decision(use=use, measurements=measurements, overall=measurements[0], at_baseline=measurements)
    at_baseline = [one for one in measurements if one not in informative]
    informative = _comparable(informative)
    overall = average(informative)
    eligible = [option for option in overall.scores if overall.above_baseline(option)] or [*overall.scores]
    order = overall.ranked()
    best = next(option for option in order if option in eligible)
    tied = [option for option in eligible if not _is_worse(option, overall, informative)] or [best]
    option = _simplest(tied, overall, results)
    return Decision(
        use=use,
        measurements=measurements,
        overall=overall,
        option=option,
        best=best,
        tied=tied,
        runner_up=next((other for other in order if other.family != option.family), None),
        baseline=next((other for other in order if other.family in BASELINES), None),
        at_baseline=at_baseline,
        dev_losses=_dev_losses(overall, results),
    )


def inference_seconds(option: Option, overall: Measurement, results: ResultsView) -> float | None:
    """The time to process 1,000 texts with an option."""
    measured, row = overall.scores[option].inference_seconds, results.families[option.family]
    return get_number(row, "embedding_seconds") if measured is None and "context" in row else measured


def _decide_use(
    use: Use,
    measurements: Sequence[Measurement],
    few: Sequence[Measurement],
    fewer: Sequence[Measurement],
    results: ResultsView,
) -> Decision:
    evidence = [one for one in measurements if use.includes(one) and one.scores]
    if any(one.kind in TASKS for one in evidence):  # labelled datasets, in which the baselines take part
        evidence = [one for one in evidence if one.kind in TASKS]
    others: list[Measurement] = []
    if (
        use.scales
    ):  # scales are never mixed: the preferred one decides, and of it the text with baseline and most families
        others = sorted(
            evidence, key=lambda one: (use.scales.index(one.metric), not _has_baseline(one), -len(one.scores))
        )
        evidence = [others.pop(0)] if others else []
    if not evidence:
        return Decision(use=use, measurements=())
    decision = decide(use, evidence, results)
    with_few = [one for one in few if use.includes(one) and one.scores]
    return replace(
        decision,
        other_scales=[one for one in others if not set(one.scores) & set(evidence[0].scores)],
        by_dataset=[decide(use, [one], results) for one in evidence] if len(evidence) > 1 else [],
        few_labels=decide(use, with_few, results) if with_few else None,
        rises=_rises(decision, {one.name: one for one in fewer if one.scores}),
    )


def _comparable(measurements: Sequence[Measurement]) -> list[Measurement]:
    """Measurements that several options share, with a baseline if one takes part in any; or else the largest one."""
    measurements = [*filter(_has_baseline, measurements)] or measurements
    shared = {option for option in measurements[0].scores if all(option in one.scores for one in measurements)}
    largest = max(measurements, key=lambda one: len(one.scores))
    return list(measurements) if len(shared) >= min(2, len(largest.scores)) else [largest]


def _has_baseline(measurement: Measurement) -> bool:
    return any(option.family in BASELINES for option in measurement.scores)


def _is_worse(option: Option, overall: Measurement, measurements: Sequence[Measurement]) -> bool:
    """Whether any other option is significantly better, in the mean or on a dataset without being worse on another."""
    if overall.significantly_worse(option):
        return True
    better = [{other for other in one.significantly_worse(option) if other in overall.scores} for one in measurements]
    return any(
        not any(one.significantly_better(option, other) for one in measurements) for some in better for other in some
    )


def _simplest(options: Sequence[Option], overall: Measurement, results: ResultsView) -> Option:
    """The simplest of several options: a baseline, the cheapest to run, the simplest method, the smallest model."""
    costs = {option: _costs(option, overall, results) for option in options}
    for number in range(len(costs[options[0]])):
        least = min(costs[option][number] for option in options)
        options = [option for option in options if costs[option][number] <= SIMILAR_COST * least]
    return next(option for option in overall.ranked() if option in options)


def _costs(option: Option, overall: Measurement, results: ResultsView) -> tuple[float, ...]:
    """The costs of an option, the most important first; unknown ones are infinite."""
    row = results.families[option.family]
    known = (inference_seconds(option, overall, results), complexity(option) + 1.0)
    costs = (*known, *(get_number(row, key) for key in ("disk_bytes", "parameters")))
    is_model = float(option.family not in BASELINES)
    return (is_model, *(math.inf if cost is None or cost < 0 else cost for cost in costs))


# What would change the answer.


def _rises(decision: Decision, fewer: dict[str, Measurement]) -> list[Rise]:
    """Options that gain more between the two largest numbers of labels than the recommended one, the largest first.

    They are limited to those that as large a gain again would put ahead.
    """
    overall, recommended = decision.overall, decision.option
    if overall is None or recommended is None:
        return []
    parts = [fewer[one.name] for one in overall.parts or [overall] if one.name in fewer]
    if len(parts) < len(overall.parts or [overall]):
        return []
    before = average(parts)
    shared = [option for option in overall.scores if option in before.scores and option != recommended]
    if recommended not in before.scores or not shared:
        return []
    rises = []
    for option in shared:
        lead = overall.lead(option, recommended) - before.lead(option, recommended)
        deviations = overall.deviations(option, recommended) - before.deviations(option, recommended)
        low, high = interval(lead, deviations)
        p_value = tail_probabilities(np.array([abs(lead)]), np.abs(deviations)[:, None])[0]
        rises.append((option, lead, low, high, float(p_value)))
    adjusted = adjust(np.array([p_value for *_, p_value in rises]))
    found = [
        Rise(
            option=option,
            fewer=before.num_labels,
            more=overall.num_labels,
            difference=Difference(lead=lead, low=low, high=high, p_value=float(p_value)),
        )
        for (option, lead, low, high, _), p_value in zip(rises, adjusted, strict=True)
        if lead > 0 and p_value < LEVEL and overall.lead(option, recommended) + lead > 0
    ]
    return sorted(found, key=lambda rise: -rise.difference.lead)


def _dev_losses(overall: Measurement, results: ResultsView) -> list[DevLoss]:
    """How far the dev losses of the compared families fell at the end of their training, the best family first."""
    compared = dict.fromkeys(option.family for option in overall.ranked())
    losses: dict[str, DevLoss] = {}
    for row in results.of["learning_curve"]:
        points = sorted((point["processor_seconds"], point["bits_per_character"]) for point in row["points"])
        earlier = [bits for seconds, bits in points if seconds <= _LAST_PART * points[-1][0] * (1 + 1e-6)]
        if row["family"] in compared and earlier and earlier[-1] > 0 and len(points) > 2:
            epochs = get_number(results.families[row["family"]], "epochs")
            fall = 1 - points[-1][1] / earlier[-1]
            losses.setdefault(row["family"], DevLoss(family=row["family"], fall=fall, epochs=epochs))
    return [losses[family] for family in compared if family in losses]
