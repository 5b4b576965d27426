"""Scores of all options on one scale, and tests of their differences.

An option is a family and, on labelled datasets, a method. Options are compared on the same test items (`significance`).
Where the outcomes of single items are not recorded, the sampling errors of two scores count as independent, which
overestimates that of their difference.
"""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, get_args

import numpy as np

from polyseme.arrays import Doubles
from polyseme.comparison.report.labels import BASELINES, METHODS, SUITES, family_name, format_score
from polyseme.comparison.rows import Method
from polyseme.comparison.significance import (
    LEVEL,
    NUM_RESAMPLES,
    Difference,
    compare,
    draw_errors,
    draw_means,
    interval,
    resample_items,
)
from polyseme.system.formatting import enumerate_words

INCOMPLETE = "not evaluated on all datasets"

_MIN_GAIN = 0.1  # of the way from the baseline to a perfect score


class Option(NamedTuple):
    """What may be recommended: a family and, for labelled datasets, the method that predicts labels with it."""

    family: str
    method: str = ""

    @property
    def name(self) -> str:
        """The display name."""
        method = "" if self.family in BASELINES else METHODS.get(self.method, "")
        return f"{family_name(self.family)} ({method})" if method else family_name(self.family)


@dataclass(frozen=True, kw_only=True)
class Score:
    """The score of an option."""

    value: float
    standard_error: float | None = None
    sampling_error: float | None = None  # of the test items
    count: float | None = None  # test items
    by_training: Sequence[float] = ()
    by_seed: Sequence[float] = ()  # label samples
    outcomes: Sequence[float | None] = ()  # by test item; None for items without a score
    dev: float | None = None
    inference_seconds: float | None = None  # for 1,000 texts; None: as long as the family embeds them

    def __str__(self) -> str:
        return format_score(self.value, self.standard_error)

    @cached_property
    def deviations(self) -> Doubles | None:
        """The share of each item in the deviation of the score from its expectation; 0 for items without a score."""
        outcomes = np.array(self.outcomes, np.float64)
        known = ~np.isnan(outcomes)
        if known.sum() < 2:
            return None
        deviations: Doubles = np.where(known, outcomes - outcomes[known].mean(), 0.0) / known.sum()
        return deviations


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """The scores of all options on one scale; scores are only compared within a measurement."""

    name: str
    kind: str  # a suite (likelihood, words, analogies, senses, minimal-pairs, retrieval) or the kind of a task
    scores: Mapping[Option, Score]
    unconverged: Mapping[Option, Score] = field(default_factory=dict)  # shown, but not compared
    metric: str = ""
    sign: int = 1  # -1 if lower values are better
    baseline: float | None = None  # majority or chance
    num_labels: int = 0
    description: str = ""
    excluded: Sequence[str] = ()  # families without a comparable score
    why_excluded: str = ""
    parts: Sequence["Measurement"] = ()  # of which this is the mean

    @cached_property
    def gains(self) -> dict[Option, float]:
        """The score of each option, negated if lower values are better."""
        return {option: self.sign * score.value for option, score in self.scores.items()}

    @property
    def baseline_name(self) -> str:
        """The kind of the baseline."""
        if self.kind in ("senses", "minimal-pairs"):
            return "chance level"
        return "majority baseline" if self.baseline else "baseline"

    def ranked(self) -> list[Option]:
        """Options from best to worst; of equal ones, the simplest method first."""
        return sorted(self.gains, key=lambda option: (-self.gains[option], complexity(option)))

    def by_family(self, *, unconverged: bool = False) -> dict[str, tuple[Option, Score]]:
        """The option of each family that is best on the dev set, or else on the test set."""
        options: dict[str, list[tuple[Option, Score]]] = {}
        for option, score in self.scores.items():
            options.setdefault(option.family, []).append((option, score))
        for option, score in self.unconverged.items() if unconverged else ():
            if not any(other.family == option.family for other in self.scores):
                options.setdefault(option.family, []).append((option, score))
        return {family: max(some, key=self._selection_key(some)) for family, some in options.items()}

    def _selection_key(self, options: Sequence[tuple[Option, Score]]) -> Callable[[tuple[Option, Score]], float]:
        by_dev = all(score.dev is not None for _, score in options)
        return lambda one: (one[1].dev or 0.0) if by_dev else self.sign * one[1].value

    # Significance.

    def above_baseline(self, option: Option) -> bool:
        """Whether an option is better than the baseline: significantly, by a tenth of the way to a perfect score."""
        if self.baseline is None:
            return True
        gain = self.gains[option] - self.sign * self.baseline
        return gain >= _MIN_GAIN * (1 - self.baseline) and self._differs_from_baseline[option]

    def lead(self, option: Option, other: Option) -> float:
        """By how much an option is better than another."""
        return self.gains[option] - self.gains[other]

    def difference(self, option: Option, other: Option) -> Difference:
        """The difference from another option, tested against all others at once."""
        lead = self.lead(option, other)
        low, high = interval(lead, self.deviations(option, other))
        return Difference(lead=lead, low=low, high=high, p_value=float(self._p_values(option)[self._index[other]]))

    def deviations(self, option: Option, other: Option) -> Doubles:
        """The deviations of the lead over another option in the resamples."""
        deviations: Doubles = self.draws[:, self._index[option]] - self.draws[:, self._index[other]]
        return self.sign * deviations

    def effect_size(self, option: Option, other: Option) -> float | None:
        """The share of the errors (or of the bits) of another option that an option avoids."""
        errors = self.scores[other].value if self.sign < 0 else 1 - self.scores[other].value
        return self.lead(option, other) / errors if errors > 0 else None

    def significantly_better(self, option: Option, other: Option) -> bool:
        """Whether an option is significantly better than another, given that it is compared with all others."""
        return self.lead(option, other) > 0 and self._p_values(option)[self._index[other]] < LEVEL

    def significantly_worse(self, option: Option) -> list[Option]:
        """The options that an option is significantly worse than, best first."""
        p_values = self._p_values(option)
        return [
            other for other in self.ranked() if self.lead(other, option) > 0 and p_values[self._index[other]] < LEVEL
        ]

    def significantly_best(self) -> Option | None:
        """The option that is significantly better than every one of another family."""
        first, *others = self.ranked() or [Option("")]
        others = [other for other in others if other.family != first.family]
        return first if others and all(self.significantly_better(first, other) for other in others) else None

    @cached_property
    def draws(self) -> Doubles:
        """Deviations of all scores from their expectations in the resamples, (resamples, options)."""
        scores, key = self.scores.values(), (self.name, self.num_labels)
        trainings = draw_means([score.by_training for score in scores], ("trainings", *key))
        seeds = draw_means([score.by_seed for score in scores], ("seeds", *key), paired=True)
        return self._item_draws + trainings + seeds

    @cached_property
    def _item_draws(self) -> Doubles:
        if self.parts:
            columns = [[part._index[option] for option in self.scores] for part in self.parts]
            every = [part._item_draws[:, column] for part, column in zip(self.parts, columns, strict=True)]
            mean: Doubles = np.mean(every, axis=0)
            return mean
        drawn = np.zeros((NUM_RESAMPLES, len(self.scores)))
        paired: dict[int, list[tuple[int, Doubles]]] = {}  # by number of items
        unknown: list[tuple[int, float]] = []
        for column, score in enumerate(self.scores.values()):
            if score.deviations is not None:
                paired.setdefault(len(score.deviations), []).append((column, score.deviations))
            else:
                unknown.append((column, score.sampling_error or 0.0))
        for some in paired.values():
            drawn[:, [column for column, _ in some]] = resample_items(np.array([one for _, one in some]).T, self.name)
        if unknown:
            drawn[:, [column for column, _ in unknown]] = draw_errors(
                [error for _, error in unknown], (self.name, self.num_labels)
            )
        return drawn

    @cached_property
    def _index(self) -> dict[Option, int]:
        return {option: number for number, option in enumerate(self.scores)}

    @cached_property
    def _values(self) -> Doubles:
        return np.array([score.value for score in self.scores.values()])

    def _p_values(self, option: Option) -> Doubles:
        if option not in self._cache:
            self._cache[option] = compare(self._values, self.draws, self._index[option])
        return self._cache[option]

    @cached_property
    def _cache(self) -> dict[Option, Doubles]:
        return {}

    @cached_property
    def _differs_from_baseline(self) -> dict[Option, bool]:
        values = np.append(self._values, self.baseline or 0.0)
        draws = np.column_stack([self.draws, np.zeros(NUM_RESAMPLES)])
        p_values = compare(values, draws, len(values) - 1)
        return {option: p_values[number] < LEVEL for option, number in self._index.items()}


def complexity(option: Option) -> int:
    """The place of a method among all, the simplest first."""
    return get_args(Method).index(option.method) if option.method in get_args(Method) else 0


def average(measurements: Sequence[Measurement]) -> Measurement:
    """The mean of several measurements over the options that have all of them; a single one is returned unchanged."""
    if len(measurements) == 1:
        return measurements[0]
    every = list(dict.fromkeys(option for one in measurements for option in one.scores))
    options = [option for option in every if all(option in one.scores for one in measurements)]
    baselines = [one.baseline for one in measurements if one.baseline is not None]
    names = [one.description or one.name if one.kind in SUITES else one.name for one in measurements]
    families = {option.family for option in options}
    return Measurement(
        name=f"mean of {enumerate_words(names)}",
        kind=measurements[0].kind,
        sign=measurements[0].sign,
        scores={option: _mean_score([one.scores[option] for one in measurements]) for option in options},
        baseline=statistics.fmean(baselines) if len(baselines) == len(measurements) else None,
        num_labels=max(one.num_labels for one in measurements),
        excluded=list(dict.fromkeys(option.family for option in every if option.family not in families)),
        why_excluded=INCOMPLETE,
        parts=measurements,
    )


def _mean_score(parts: Sequence[Score]) -> Score:
    errors = [part.standard_error for part in parts if part.standard_error is not None]
    costs = [part.inference_seconds for part in parts if part.inference_seconds is not None]
    return Score(
        value=statistics.fmean(part.value for part in parts),
        standard_error=math.hypot(*errors) / len(parts) if errors else None,
        by_training=_mean_by_place([part.by_training for part in parts]),
        by_seed=_mean_by_place([part.by_seed for part in parts]),
        inference_seconds=statistics.fmean(costs) if len(costs) == len(parts) else None,
    )


def _mean_by_place(lists: Sequence[Sequence[float]]) -> list[float]:
    """The mean of the first values, of the second values and so on."""
    return [statistics.fmean(values) for values in zip(*lists, strict=False)]
