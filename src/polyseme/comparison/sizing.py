"""Which size of a family fits a budget.

The more parameters, the more text they take to be worth it: Hoffmann et al. (2022) find twenty tokens for each best,
for models of a hundred million and more. Among ours, whose vectors of words are most of them, small is better than tiny
once it reads about as many tokens as it has parameters outside its embeddings (docs/decisions/0006: GPT-2, 45 seconds
on two cores), so that is asked of networks. Of tables of vectors, each of which only its own word moves, twelve tokens
are asked for each number, by one look at Chinese Wikipedia: a skip-gram of 6.5M numbers agreed with people about as
well as one of 0.5M, and knew 260 of 297 pairs of words for 158; one of 13M agreed less. Their budgets were not the same
(four minutes of a core, and ten for the smallest). Text that is read again counts up to sixteen times,
beyond which it hardly teaches any more (Muennighoff et al., 2023).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from polyseme.comparison.pacing import Pace, inner_parameters
from polyseme.comparison.settings import ComparisonConfig
from polyseme.errors import DataError
from polyseme.models import FAMILIES
from polyseme.train.plan import SIZES
from polyseme.train.recipe import Recipe

_NETWORK, _TABLE = 1, 12  # tokens for each parameter
_REPEATS = 16
_MOST_EPOCHS = 400  # of a network

Paces = Callable[[str], Pace]  # by size


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """A size, why it is this one, and what the budget comes to."""

    size: str
    rule: str
    steps: int  # 0 where the budget says it in other words
    pace: Pace | None
    seconds: float = 0.0  # of processors, which the steps are fitted to on the way; 0: to nothing
    marks: tuple[int, ...] = ()  # how they were fitted before


def choose(family: str, settings: ComparisonConfig, pace_of: Paces, recipe_of: Callable[[str], Recipe]) -> Chosen:
    """The size of a family, and the number of its steps."""
    seconds = settings.processor_seconds
    if settings.size != "auto":
        size, rule = settings.size, f"{settings.size}, as --size says"
    elif settings.num_parameters:
        counts = {size: count_parameters(recipe_of(size)) for size in SIZES}
        wanted = settings.num_parameters
        size = min(SIZES, key=lambda size: abs(counts[size] - wanted))
        rule = f"{size}, whose {_short(counts[size])} parameters are nearest to --params {settings.params}"
    elif family == "onehot":
        size, rule = "small", "small: a one-hot vector has no parameters, so there is nothing to choose by"
    elif seconds is None:
        size, rule = "small", f"small, because a budget of {settings.budget} is no time to choose by"
    else:
        size, rule = _by_rule(seconds, pace_of, recipe_of)
    if seconds is None:
        return Chosen(size=size, rule=rule, steps=0, pace=None)
    pace = pace_of(size)
    steps = pace.steps_in(seconds)
    epochs = steps * pace.step_tokens / max(1, pace.corpus_tokens)
    if pace.inner_parameters and epochs > _MOST_EPOCHS:
        fitting = seconds / settings.cores * _MOST_EPOCHS / epochs
        raise DataError(
            f"{family} would read the corpus {epochs:,.0f} times in {settings.budget}, which teaches nothing new; give "
            f"more text, or a budget of {max(1, int(fitting))}s or less"
        )
    return Chosen(size=size, rule=rule, steps=steps, pace=pace, seconds=0.0 if steps == pace.own_steps else seconds)


def _by_rule(seconds: float, pace_of: Paces, recipe_of: Callable[[str], Recipe]) -> tuple[str, str]:
    size, beyond = "tiny", ""
    for larger in SIZES[1:]:
        below = pace_of(size) if size != "tiny" else None
        # A larger model is slower, so what a smaller one reads is the most that it could.
        if below and not _enough(below.tokens_in(seconds), below, _needed(below, recipe_of(larger))):
            tokens, parameters = below.tokens_in(seconds), _needed(below, recipe_of(larger))
            beyond = f"; {larger} has {_short(parameters)}, too many even for as much text"
            break
        pace = pace_of(larger)
        tokens, parameters = pace.tokens_in(seconds), pace.inner_parameters or pace.parameters
        if not _enough(tokens, pace, parameters):
            beyond = f"; {larger} would read {_short(tokens)} for {_short(parameters)}"
            break
        size = larger
    pace = pace_of(size)
    parameters = pace.inner_parameters or pace.parameters
    where = "outside its embeddings" if pace.inner_parameters else "in its vectors"
    told = f"{size}: it reads {_short(pace.tokens_in(seconds))} tokens for {_short(parameters)} parameters {where}"
    ratio = _NETWORK if pace.inner_parameters else _TABLE
    asked = f" ({ratio} for each is asked for)" if size != "tiny" else ", and is the smallest there is"
    return size, told + asked + beyond


def _enough(tokens: int, pace: Pace, parameters: int) -> bool:
    if pace.own_steps:  # what counts reads all of the text, once
        tokens = _REPEATS * pace.corpus_tokens
    ratio = _NETWORK if pace.inner_parameters else _TABLE
    return min(tokens, _REPEATS * pace.corpus_tokens) >= ratio * parameters


def _needed(below: Pace, recipe: Recipe) -> int:
    """Parameters of a larger size, as far as they can be known without its vocabulary."""
    if below.inner_parameters:
        return count_parameters(recipe, inner=True)
    width = getattr(recipe.model, "width", 0)
    return min(recipe.model.vocab_size, below.vocab_size) * width


def count_parameters(recipe: Recipe, *, inner: bool = False) -> int:
    """All of them, or those outside embeddings; counted without building."""
    with torch.device("meta"):
        encoder = FAMILIES[recipe.family](recipe.model)
    return inner_parameters(encoder) if inner else sum(weight.numel() for weight in encoder.parameters())


def _short(number: float) -> str:
    for unit in ("", "k", "M"):
        if number < 999.5:
            return f"{number:.3g}{unit}" if unit else f"{number:.0f}"
        number /= 1000
    return f"{number:.3g}G"
