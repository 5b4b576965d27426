"""Choice of model size and number of steps for a budget.

Larger models need more text to pay off. Hoffmann et al. (2022) find 20 tokens per parameter optimal for models of 100M
parameters and more. Here, where most parameters are embeddings, `small` beats `tiny` once there are as many training
tokens as non-embedding parameters (docs/decisions/0006: GPT-2, 45 seconds on two cores); this is required of neural
networks. Static embeddings, of which each token updates only its own vector, require 12 tokens per parameter. This is
based on one experiment on Chinese Wikipedia: a skip-gram model of 6.5M parameters agreed with human similarity
judgements about as well as one of 0.5M, and covered 260 of 297 word pairs instead of 158; one of 13M agreed less. Their
budgets were not equal (four minutes of one core, ten for the smallest). Repeated text counts up to 16 times, beyond
which it contributes little (Muennighoff et al., 2023).
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from polyseme.comparison.config import ComparisonConfig
from polyseme.comparison.train.throughput import TrialRun, count_non_embedding
from polyseme.errors import DataError
from polyseme.families import FAMILIES
from polyseme.system.formatting import format_count
from polyseme.training.optimization.budget import SIZES
from polyseme.training.recipes.recipe import Recipe

_NETWORK_RATIO, _STATIC_RATIO = 1, 12  # tokens per parameter
_MAX_REPETITIONS = 16  # of the text that count
_MAX_EPOCHS = 400  # of a neural network


@dataclass(frozen=True, kw_only=True)
class TrainingPlan:
    """The size of a model, the reason for it, and the length of its training."""

    size: str
    reason: str
    steps: int  # 0 if the budget is given in other units
    trial: TrialRun | None
    seconds: float = 0.0  # of processor time that the number of steps is adapted to; 0: fixed
    milestones: tuple[int, ...] = ()  # of an earlier run with the same budget


def plan_training(
    family: str, settings: ComparisonConfig, trial_of: Callable[[str], TrialRun], recipe_of: Callable[[str], Recipe]
) -> TrainingPlan:
    """Choose the size of a family and its number of steps; `trial_of` and `recipe_of` take a size."""
    seconds = settings.processor_seconds
    if settings.size != "auto":
        size, reason = settings.size, f"{settings.size}, set by --size"
    elif settings.num_parameters:
        counts = {size: count_parameters(recipe_of(size)) for size in SIZES}
        target = settings.num_parameters
        size = min(SIZES, key=lambda size: abs(counts[size] - target))
        reason = f"{size}: {format_count(counts[size])} parameters are closest to --params {settings.params}"
    elif not count_parameters(recipe_of("small")):
        size, reason = "small", "small: the family has no parameters"
    elif seconds is None:
        size, reason = "small", f"small: the default for a budget that is not a time ({settings.budget})"
    else:
        size, reason = _largest_sufficient(seconds, trial_of, recipe_of)
    if seconds is None:
        return TrainingPlan(size=size, reason=reason, steps=0, trial=None)
    trial = trial_of(size)
    steps = trial.steps_in(seconds)
    epochs = steps * trial.step_tokens / max(1, trial.corpus_tokens)
    if trial.non_embedding_parameters and epochs > _MAX_EPOCHS:
        sensible = seconds / settings.cores * _MAX_EPOCHS / epochs
        raise DataError(
            f"{family} would make {epochs:,.0f} passes over the corpus in {settings.budget}, more than are useful; use "
            f"more text, or a budget of at most {max(1, int(sensible))}s"
        )
    fixed = steps == trial.max_steps
    return TrainingPlan(size=size, reason=reason, steps=steps, trial=trial, seconds=0.0 if fixed else seconds)


def _largest_sufficient(
    seconds: float, trial_of: Callable[[str], TrialRun], recipe_of: Callable[[str], Recipe]
) -> tuple[str, str]:
    """The largest size whose training tokens suffice for its parameters, and the reason."""
    size, beyond = "tiny", ""
    for larger in SIZES[1:]:
        smaller = trial_of(size) if size != "tiny" else None
        # A larger model is slower, so the tokens of a smaller one are an upper bound.
        if smaller and not _suffice(smaller, seconds, count := _estimate_parameters(smaller, recipe_of(larger))):
            beyond = f"; {larger} has {format_count(count)}, too many even at this speed"
            break
        trial = trial_of(larger)
        if not _suffice(trial, seconds, trial.relevant_parameters):
            tokens, parameters = format_count(trial.tokens_in(seconds)), format_count(trial.relevant_parameters)
            beyond = f"; {larger} would see {tokens} tokens for {parameters}"
            break
        size = larger
    trial = trial_of(size)
    tokens, parameters = format_count(trial.tokens_in(seconds)), format_count(trial.relevant_parameters)
    kind = "non-embedding parameters" if trial.non_embedding_parameters else "parameters"
    ratio = _NETWORK_RATIO if trial.non_embedding_parameters else _STATIC_RATIO
    minimum = f" (at least {ratio} per parameter required)" if size != "tiny" else ", and is the smallest size"
    return size, f"{size}: sees {tokens} tokens for {parameters} {kind}{minimum}{beyond}"


def _suffice(trial: TrialRun, seconds: float, parameters: int) -> bool:
    """Whether the training tokens of a budget suffice for a number of parameters."""
    tokens = _MAX_REPETITIONS * trial.corpus_tokens
    if not trial.max_steps:  # otherwise, a fixed number of passes over the text
        tokens = min(tokens, trial.tokens_in(seconds))
    return tokens >= (_NETWORK_RATIO if trial.non_embedding_parameters else _STATIC_RATIO) * parameters


def _estimate_parameters(smaller: TrialRun, recipe: Recipe) -> int:
    """Parameters of a larger size, as far as they are known without its vocabulary."""
    if smaller.non_embedding_parameters:
        return count_parameters(recipe, non_embedding=True)
    width = getattr(recipe.model, "width", 0)
    return min(recipe.model.vocab_size, smaller.vocab_size) * width


def count_parameters(recipe: Recipe, *, non_embedding: bool = False) -> int:
    """All parameters, or those outside of embeddings, without allocating the model."""
    with torch.device("meta"):
        encoder = FAMILIES[recipe.family](recipe.model)
    return count_non_embedding(encoder) if non_embedding else sum(weight.numel() for weight in encoder.parameters())
