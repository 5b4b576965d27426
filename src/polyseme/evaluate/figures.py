"""What a suite finds: a figure, how sure it is, and how many items it rests on."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from polyseme.scoring import exponential


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One figure of a set, or of a section of it."""

    name: str  # of the set
    section: str = ""  # a part of the set; all of it where there is none
    measure: str  # spearman, accuracy, bleu, bits per character
    value: float | None  # none where too little is known
    error: float | None = None  # its standard error, where it has one
    num_found: int  # items that the model can be asked; of sentences and prompts, those that it knows or reads whole
    num_items: int


def mean_figure(name: str, values: Sequence[float], *, measure: str, num_items: int, section: str = "") -> Figure:
    """The mean of what was found for each item, with its standard error."""
    found = len(values)
    value = statistics.fmean(values) if values else None
    error = statistics.stdev(values) / math.sqrt(found) if found > 1 else None
    return Figure(
        name=name, section=section, measure=measure, value=value, error=error, num_found=found, num_items=num_items
    )


def exponential_figure(mean: Figure) -> Figure:
    """The perplexity of mean nats, whose error grows with its slope; none where it is no number any more."""
    value = None if mean.value is None else exponential(mean.value, 1)
    if value is None or not math.isfinite(value):
        return replace(mean, value=None, error=None)
    return replace(mean, value=value, error=None if mean.error is None else value * mean.error)
