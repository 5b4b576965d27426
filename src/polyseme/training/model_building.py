"""Build what a recipe describes: encoder, objective and learner."""

import numpy as np
import torch

from polyseme.baselines.ngram import NgramLm, NgramLmConfig, NgramTrainer
from polyseme.datasets.token_store import TokenStore
from polyseme.families import FAMILIES, build_objective
from polyseme.learner import Learner
from polyseme.models.base import Encoder
from polyseme.models.initialization.initializers import initialize_from_cooccurrence, initialize_from_parallel_text
from polyseme.models.seq2seq import Decoder, Seq2SeqEncoder
from polyseme.objectives.joint import JointObjective
from polyseme.objectives.sources import TokenSource
from polyseme.objectives.translation import Translation
from polyseme.static_embeddings.base import TrainingInputs
from polyseme.static_embeddings.fasttext.encoder import FastText
from polyseme.system.hardware import num_cores
from polyseme.tokenization.tokenizer import Tokenizer
from polyseme.training.optimization.gradient_learner import GradientLearner
from polyseme.training.recipes.recipe import Recipe


def build_encoder(recipe: Recipe, tokenizer: Tokenizer, store: TokenStore) -> tuple[Encoder, JointObjective]:
    """Build and initialize a model; its weights depend on the seed and, with `initialization=fast`, on the text."""
    torch.manual_seed(recipe.training.seed)
    encoder = FAMILIES[recipe.family](recipe.model)
    encoder.set_tokenizer(tokenizer)
    fast, translates = recipe.training.initialization == "fast", isinstance(encoder, Seq2SeqEncoder)
    if fast and not translates:
        initialize_from_cooccurrence(encoder, store.tokens)
    objective = build_objective(recipe.objective, encoder, tokenizer.specials)
    if fast and translates and not hasattr(recipe.model, "vectors"):
        initialize_from_parallel_text(encoder, decoder_of(objective), store)
    return encoder, objective


def decoder_of(objective: JointObjective) -> Decoder:
    """Return the decoder of a translation objective."""
    (translation,) = objective.parts
    assert isinstance(translation, Translation)
    return translation.decoder


def build_learner(
    recipe: Recipe, encoder: Encoder, objective: JointObjective, source: TokenSource, tokenizer: Tokenizer
) -> Learner:
    """Build a learner: gradient descent for networks, compiled trainers for static embeddings."""
    config = recipe.training
    if recipe.objective.by_gradient:
        return GradientLearner(encoder, objective, source, config)
    is_word = np.ones(recipe.model.vocab_size, np.bool_)
    is_word[list(tokenizer.special_ids)] = False
    inputs = TrainingInputs(
        vectors=encoder.tokens.weight.detach().numpy(),
        subwords=encoder.subwords(tokenizer) if isinstance(encoder, FastText) else None,
        is_word=is_word,
        source=source,
        schedule=config.step_schedule,
        learning_rate=config.learning_rate,
        seed=config.seed,
        num_threads=config.threads or num_cores(),
    )
    if isinstance(recipe.objective, NgramLmConfig):
        (head,) = objective.parts
        assert isinstance(head, NgramLm)
        return NgramTrainer(recipe.objective, inputs, encoder, head)
    trainer: Learner = recipe.objective.build_trainer(inputs)
    return trainer
