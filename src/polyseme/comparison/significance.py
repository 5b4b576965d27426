"""Significance of differences between scores that were measured on the same test items: a hierarchical bootstrap.

A score varies with the test items, the seed of the training and the sample of labels. Test items are resampled with
replacement, the same ones for all options, so that differences are paired (Efron and Tibshirani, 1993). Trainings and
label samples are too few for that: resampling three of them understates the variance by a third, and has no tails.
Their mean is drawn instead from a t distribution around the observed one, with a variance that is shrunk towards the
median of all options (moderated t statistics; Smyth, 2004).

The two-sided p-value of a difference is the share of resamples that deviate from it by at least its size, adjusted for
the number of options that are compared (Holm, 1979).
"""

import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from polyseme.arrays import Doubles

NUM_RESAMPLES = 2000
LEVEL = 0.05  # of significance

_MAX_COUNTS = 2**22  # resampled items at once, for bounded memory
_TAIL = 100  # resamples, 5 %
_PRIOR_FREEDOM = 4  # degrees of freedom of the median variance of all options, at most


@dataclass(frozen=True, kw_only=True)
class Difference:
    """By how much an option is better than another."""

    lead: float
    low: float  # of the 95 % interval
    high: float
    p_value: float  # adjusted

    @property
    def significant(self) -> bool:
        """Whether the options differ."""
        return self.p_value < LEVEL

    def __str__(self) -> str:
        return f"{abs(self.lead):.3f} (95 % interval {_interval(self)}; adjusted p {_format_p(self.p_value)})"


def resample_items(deviations: Doubles, key: object) -> Doubles:
    """Deviations of the mean over resampled items, (resamples, options), from those of the single items.

    Deviations of (items, options) sum to zero over the items. The same key and number of items give the same resamples.
    """
    number, rng, parts = len(deviations), _generator("items", key), []
    size = max(1, _MAX_COUNTS // number)
    for start in range(0, NUM_RESAMPLES, size):
        rows = min(size, NUM_RESAMPLES - start)
        items = rng.integers(number, size=(rows, number)) + number * np.arange(rows)[:, None]
        counts = np.bincount(items.ravel(), minlength=rows * number).reshape(rows, number)
        parts.append(counts.astype(np.float64) @ deviations)
    resampled: Doubles = np.concatenate(parts) * math.sqrt(number / (number - 1))
    return resampled


def draw_errors(errors: Sequence[float], key: object) -> Doubles:
    """Normal deviations with given standard errors, (resamples, options), independent of each other."""
    drawn: Doubles = _generator("errors", key).standard_normal((NUM_RESAMPLES, len(errors))) * np.array(errors)
    return drawn


def draw_means(repetitions: Sequence[Sequence[float]], key: object, *, paired: bool = False) -> Doubles:
    """Deviations of the means over the repetitions of each option, (resamples, options).

    Paired repetitions of different options have the same conditions, whose effect does not count.
    """
    counts = np.array([len(values) for values in repetitions])
    variances = np.array([np.var(values, ddof=1) if len(values) > 1 else 0.0 for values in repetitions])
    varying = (variances > 0) & (counts == counts.max(initial=0)) if paired else variances > 0
    if paired and varying.sum() > 1:
        values = np.array([values for values, varies in zip(repetitions, varying, strict=True) if varies])
        residuals = values - values.mean(0)
        variances[varying] = residuals.var(1, ddof=1) * len(values) / (len(values) - 1)
    freedom = np.maximum(counts - 1.0, 1.0)
    others = (variances > 0).sum() - 1 - paired  # options whose variances are independent of each one's
    if others > 0:
        prior = np.minimum(_PRIOR_FREEDOM, others * freedom)
        shrunk = (freedom * variances + prior * np.median(variances[variances > 0])) / (freedom + prior)
        variances, freedom = np.where(variances > 0, shrunk, 0.0), freedom + prior
    scale = np.sqrt(variances / np.maximum(counts, 1))
    drawn: Doubles = _generator("means", key).standard_t(freedom, size=(NUM_RESAMPLES, len(counts))) * scale
    return drawn


def compare(values: Doubles, draws: Doubles, reference: int) -> Doubles:
    """The adjusted p-values of the differences between an option and each other; 1 for the option itself."""
    leads = np.abs(values[reference] - values) * (1 - 1e-9)  # whatever the rounding
    p_values = tail_probabilities(leads, np.abs(draws[:, [reference]] - draws))
    others = np.arange(len(values)) != reference
    adjusted = np.ones(len(values))
    adjusted[others] = adjust(p_values[others])
    return adjusted


def tail_probabilities(leads: Doubles, deviations: Doubles) -> Doubles:
    """The probabilities of deviations, (resamples, options), of at least the size of a lead.

    Beyond the largest deviations, an exponential tail is fitted to them, so that probabilities below that of a single
    resample differ from each other (Knijnenburg et al., 2009, who fit generalized Pareto distributions).
    """
    shares = (1 + (deviations >= leads).sum(0)) / (NUM_RESAMPLES + 1)
    largest = np.sort(np.partition(deviations, -_TAIL, axis=0)[-_TAIL:], axis=0)
    scales = np.maximum((largest - largest[0]).mean(0), 1e-12)
    tails = _TAIL / NUM_RESAMPLES * np.exp(-np.maximum(leads - largest[0], 0.0) / scales)
    probabilities: Doubles = np.where(leads > largest[0], tails, shares)
    return probabilities


def adjust(p_values: Doubles) -> Doubles:
    """p-values adjusted for their number (Holm, 1979)."""
    order = np.argsort(p_values)
    factors = np.arange(len(p_values), 0, -1)
    adjusted = np.empty(len(p_values))
    adjusted[order] = np.minimum(np.maximum.accumulate(p_values[order] * factors), 1.0)
    return adjusted


def interval(lead: float, deviations: Doubles) -> tuple[float, float]:
    """The 95 % interval of a difference, given its deviations in the resamples."""
    low, high = np.quantile(deviations, [1 - LEVEL / 2, LEVEL / 2])
    return lead - float(low), lead - float(high)


def _interval(difference: Difference) -> str:
    """The bounds of the absolute difference."""
    bounds = (difference.low, difference.high) if difference.lead >= 0 else (-difference.high, -difference.low)
    return " to ".join(f"{bound:.3f}" for bound in bounds)


def _format_p(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"= {value:.3f}" if value < 0.0995 else f"= {value:.2f}"


def _generator(*key: object) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32(repr(key).encode("utf-8", "backslashreplace")))
