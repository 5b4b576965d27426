"""The result of an evaluation: a metric, its standard error, and the number of items behind it."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from polyseme.inference.scores import perplexity
from polyseme.tasks.metrics import jackknife_strata


@dataclass(frozen=True, kw_only=True)
class MetricResult:
    """A metric on a test set, or on a section of it."""

    name: str  # of the test set
    section: str = ""  # empty: the whole set
    metric: str  # spearman, accuracy, bleu, bits per character
    value: float | None  # None if too few items could be scored
    standard_error: float | None = None
    num_scored: int  # items without OOV words, or that fit into the context
    num_items: int
    # Jackknife pseudo-values of the items (of a mean: the values), for paired tests; None for items without a score.
    outcomes: Sequence[float | None] = field(default=(), repr=False)


def mean_result(
    name: str, values: Sequence[float], *, metric: str, num_items: int | None = None, section: str = ""
) -> MetricResult:
    """Average per-item scores and compute the standard error of the mean; by default all items have a score."""
    count = len(values)
    return MetricResult(
        name=name,
        section=section,
        metric=metric,
        value=statistics.fmean(values) if values else None,
        standard_error=statistics.stdev(values) / math.sqrt(count) if count > 1 else None,
        num_scored=count,
        num_items=count if num_items is None else num_items,
        outcomes=values,
    )


def macro_average(name: str, results: Sequence[MetricResult], *, section: str = "") -> MetricResult:
    """Average the sets that have a value; the standard error is that of independent samples within fixed sets."""
    scored = [(result.value, result.standard_error) for result in results if result.value is not None]
    errors = [error for _, error in scored if error is not None]
    outcomes = [[value for value in result.outcomes if value is not None] for result in results]
    return MetricResult(
        name=name,
        section=section,
        metric=results[0].metric,
        value=statistics.fmean(value for value, _ in scored) if scored else None,
        standard_error=math.hypot(*errors) / len(scored) if len(errors) == len(scored) > 0 else None,
        num_scored=sum(result.num_scored for result in results),
        num_items=sum(result.num_items for result in results),
        outcomes=jackknife_strata([(1 / len(results), values) for values in outcomes]) if all(outcomes) else [],
    )


def perplexity_result(mean: MetricResult) -> MetricResult:
    """Turn mean nats into perplexity, with the standard error of the delta method; None on overflow."""
    value = None if mean.value is None else perplexity(mean.value, 1)
    if value is None or not math.isfinite(value):
        return replace(mean, value=None, standard_error=None, outcomes=())
    return replace(mean, value=value, standard_error=mean.standard_error and value * mean.standard_error, outcomes=())
