"""Decision rule: which family to use for which purpose, as a pure function of the results.

For each use, the best family is the one with the highest mean score at the largest number of labels. Families that are
not significantly worse (two standard errors of the difference, paired by test item) are tied with it, and among these
the cheapest one to run is recommended; costs within 25 % of each other count as equal. No family is recommended for a
use if even the best one is barely above the baseline.

Static families, whose vectors do not depend on context, are ruled out where a contextual family is significantly
better. They are also ruled out where only the network fine-tuned on top of them provides the context: the linear
probes of all static families are significantly worse, and none is significantly better after fine-tuning.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Self

from polyseme.comparison.report.results_view import ResultsView, get_number
from polyseme.comparison.report.scores import FamilyScore, Measurement, average, suite_measurements, task_measurements
from polyseme.tasks import TASKS

_COSTS = ("embedding_seconds", "disk_bytes", "parameters")  # of inference, the most important first
_SIMILAR_COST = 1.25  # timings of the same program differ by more than a few percent


@dataclass(frozen=True, kw_only=True)
class Use:
    """A purpose that representations serve, and the measurements that are evidence for it."""

    key: str
    name: str
    phrase: str  # follows "for"
    suite: str = ""  # besides the tasks whose spec names this use
    scales: tuple[str, ...] = ()  # of likelihoods, in order of preference

    def includes(self, measurement: Measurement) -> bool:
        """Whether a measurement is evidence for this use."""
        if measurement.kind in TASKS:
            return TASKS[measurement.kind].use == self.key
        return measurement.metric in self.scales if measurement.kind == "likelihood" else measurement.kind == self.suite


USES = (
    Use(key="similarity", name="Semantic similarity and search", phrase="semantic search", suite="words"),
    Use(key="classification", name="Text classification", phrase="text classification"),
    Use(key="sequence_labelling", name="Sequence labelling", phrase="sequence labelling"),
    Use(key="pair_classification", name="Sentence-pair classification", phrase="sentence-pair classification"),
    Use(key="question_answering", name="Question answering", phrase="question answering"),
    Use(key="generation", name="Text generation", phrase="text generation", scales=("causal", "bidirectional")),
    Use(key="masked_prediction", name="Masked-token prediction", phrase="masked-token prediction", scales=("masked",)),
    Use(key="senses", name="Word sense disambiguation", phrase="word sense disambiguation", suite="senses"),
)


@dataclass(frozen=True, kw_only=True)
class Decision:
    """The recommended family for a use, and the evidence."""

    use: Use
    measurements: Sequence[Measurement]  # all evidence; empty if there is none
    overall: Measurement | None = None  # the mean that decides
    family: str | None = None  # recommended; none if no family is above the baseline
    best: str | None = None  # by mean score
    tied: Sequence[str] = ()  # families that are not significantly worse than the best, the recommended one included
    runner_up: str | None = None
    significant: bool = False  # whether the recommended family is significantly better than the runner-up
    margin: float = 0.0  # two standard errors of the difference from the runner-up
    worse_without_context: frozenset[str] = frozenset()  # static families, ruled out
    context_from_labels: frozenset[str] = frozenset()  # static families, ruled out by their linear probes
    context_required: bool = False  # whether all static families are significantly worse
    at_baseline: Sequence[Measurement] = ()  # measurements in which no family is above the baseline
    other_scales: Sequence[Measurement] = ()  # likelihoods on scales that cannot be compared
    few_labels: Self | None = None  # the decision at the smallest number of labels

    @property
    def score(self) -> FamilyScore | None:
        """The score of the recommended family."""
        return self.overall.scores[self.family] if self.overall and self.family else None


def decide_all(results: ResultsView) -> list[Decision]:
    """A decision for each use, in order; those without evidence have no measurements."""
    measurements = [*suite_measurements(results), *task_measurements(results)]
    few = list(task_measurements(results, fewest=True))
    return [_decide_use(use, measurements, few, results) for use in USES]


def decide(use: Use, measurements: Sequence[Measurement], results: ResultsView) -> Decision:
    """Choose the family for a use from its measurements."""
    informative = [one for one in measurements if any(map(one.above_baseline, one.scores))]
    if not informative:
        return Decision(use=use, measurements=measurements, overall=measurements[0], at_baseline=measurements)
    at_baseline = [one for one in measurements if one not in informative]
    informative = _comparable(informative, results)
    overall = average(informative)
    eligible = [family for family in overall.scores if overall.above_baseline(family)]
    static = frozenset(family for family in overall.scores if results.is_static(family))
    worse = frozenset(_worse_without_context(informative, results))
    if use.key == "senses" and any(map(results.is_contextual, eligible)):
        worse |= static
    from_labels = frozenset(_context_from_labels(overall, informative, results))
    ruled_out = worse | from_labels
    eligible = [one for one in eligible if one not in ruled_out] or [
        one for one in overall.scores if one not in ruled_out
    ]
    best = max(eligible, key=_quality_then_cost(overall, results))
    tied = [family for family in eligible if _is_tied(best, family, overall, informative)]
    family = _cheapest(tied, overall, results)
    others = [other for other in overall.scores if other != family]
    runner_up = max(others, key=_quality_then_cost(overall, results), default=None)
    return Decision(
        use=use,
        measurements=measurements,
        overall=overall,
        family=family,
        best=best,
        tied=tied,
        runner_up=runner_up,
        significant=runner_up is not None and overall.significantly_better(family, runner_up),
        margin=0.0 if runner_up is None else 2 * overall.standard_error_of_difference(family, runner_up),
        worse_without_context=worse,
        context_from_labels=from_labels,
        context_required=bool(worse) and worse >= static,
        at_baseline=at_baseline,
    )


def _decide_use(
    use: Use, measurements: Sequence[Measurement], few: Sequence[Measurement], results: ResultsView
) -> Decision:
    evidence = [one for one in measurements if use.includes(one) and one.scores]
    others: list[Measurement] = []
    if use.scales:  # scales are never mixed: the preferred one decides, and of it the text with the most families
        others = sorted(evidence, key=lambda one: (use.scales.index(one.metric), -len(one.scores)))
        evidence = [others.pop(0)] if others else []
    if not evidence:
        return Decision(use=use, measurements=())
    decision = decide(use, evidence, results)
    incomparable = [one for one in others if not set(one.scores) & set(evidence[0].scores)]
    with_few = [one for one in few if use.includes(one) and one.scores]
    return replace(decision, other_scales=incomparable, few_labels=decide(use, with_few, results) if with_few else None)


def _comparable(measurements: Sequence[Measurement], results: ResultsView) -> list[Measurement]:
    """Measurements that several families share; if too few share all of them, the one with the most families."""
    shared = {family for family in measurements[0].scores if all(family in one.scores for one in measurements)}
    largest = max(measurements, key=lambda one: len(one.scores))
    enough = len(shared) >= min(2, len(largest.scores)) and shared - _worse_without_context(measurements, results)
    return list(measurements) if enough else [largest]


def _worse_without_context(measurements: Sequence[Measurement], results: ResultsView) -> set[str]:
    """Static families that a contextual family beats significantly in any measurement."""
    return {
        family
        for one in measurements
        for family in filter(results.is_static, one.scores)
        if any(one.significantly_better(other, family) for other in filter(results.is_contextual, one.scores))
    }


def _context_from_labels(overall: Measurement, measurements: Sequence[Measurement], results: ResultsView) -> set[str]:
    """Static families where linear probes need context, unless one of them is significantly better than the rest.

    The network fine-tuned on top of a static family is contextual, but has to learn that from the labels.
    """
    tasks = {one.name for one in measurements if one.kind in TASKS}
    probes = [probe for probe in task_measurements(results, method="linear_probe") if probe.name in tasks]
    static = set(filter(results.is_static, overall.scores))
    contextual = [*filter(results.is_contextual, overall.scores)]
    required = any(static & probe.scores.keys() <= _worse_without_context([probe], results) for probe in probes)
    better = any(all(overall.significantly_better(family, other) for other in contextual) for family in static)
    return static if required and not better else set()


def _is_tied(best: str, family: str, overall: Measurement, measurements: Sequence[Measurement]) -> bool:
    """Whether a family is not significantly worse than the best: overall, and in no part unless it leads in another."""
    behind = any(one.significantly_better(best, family) for one in measurements)
    ahead = any(one.significantly_better(family, best) for one in measurements)
    return not overall.significantly_better(best, family) and (ahead or not behind)


def _quality_then_cost(overall: Measurement, results: ResultsView) -> Callable[[str], tuple[float, ...]]:
    """Sort key: by score, then by lower cost."""
    return lambda family: (overall.gains[family], *(-cost for cost in _costs(results, family)))


def _cheapest(families: Sequence[str], overall: Measurement, results: ResultsView) -> str:
    """The cheapest family to run: by time, then by size; if these are similar, the best one."""
    costs = {family: _costs(results, family) for family in families}
    for number in range(len(_COSTS)):
        least = min(costs[family][number] for family in families)
        families = [family for family in families if costs[family][number] <= _SIMILAR_COST * least]
    return max(families, key=_quality_then_cost(overall, results))


def _costs(results: ResultsView, family: str) -> tuple[float, ...]:
    """The inference costs of a family; unknown ones are infinite."""
    costs = (get_number(results.families[family], key) for key in _COSTS)
    return tuple(math.inf if cost is None or cost < 0 else cost for cost in costs)
