"""Rebuild the training batch of any step, without the model."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

from polyseme.batch import Batch
from polyseme.errors import ConfigError
from polyseme.families import FAMILIES, build_objective
from polyseme.objectives.joint import JointObjective
from polyseme.tokenization.tokenizer import Tokenizer
from polyseme.training.data_pipeline import open_corpora, reopen_store, token_source
from polyseme.training.optimization.gradient_learner import draw
from polyseme.training.recipe import Recipe
from polyseme.training.session import Watch
from polyseme.training.storage.model_dir import meta_device


def draw_batch(out: Path, step: int, *, watch: Watch = nullcontext) -> tuple[Batch, Tokenizer, JointObjective]:
    """Return the batch of a step of a run, counted from 0, with its tokenizer and objective."""
    recipe, tokenizer = Recipe.load(out), Tokenizer.load(out)
    if not recipe.objective.by_gradient:
        raise ConfigError(f"{recipe.family} is trained on running text, without batches; give a run of another family")
    total_steps = recipe.training.step_schedule.total_steps
    if step >= total_steps:
        raise ConfigError(f"{out} has {total_steps:,} steps, counted from 0; choose a --step below that")
    corpus, _ = open_corpora(recipe)
    with watch(corpus):
        store = reopen_store(out, recipe, corpus, tokenizer)
    with meta_device():
        objective = build_objective(recipe.objective, FAMILIES[recipe.family](recipe.model), tokenizer.specials)
    return draw(objective, token_source(recipe, tokenizer, store), recipe.training, step), tokenizer, objective
