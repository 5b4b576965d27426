"""Tiny learners of the families that transformers has."""

import pytest
import torch

from polyseme.datasets.token_store import TokenStore
from polyseme.families import FAMILIES, build_objective
from polyseme.objectives.sources import TokenSource
from polyseme.tokenization.masking_units import MaskingUnits, MaskingUnitsConfig
from polyseme.tokenization.tokenizer import Tokenizer
from polyseme.training.optimization.gradient_learner import GradientLearner
from polyseme.training.recipes.recipe import Recipe

SMALL = [
    "model.vocab_size=400",
    "model.width=32",
    "model.max_length=64",
    "data.sequence_length=32",
    "training.batch_tokens=256",
]
SMALL += ["training.short_sequence_fraction=0"]  # rows of one length, which can be counted


TRANSFORMERS = [name for name, family in FAMILIES.items() if family.hf_mapping]


class TinyModel:
    """Recipe, data and model of a family."""

    def __init__(self, family: str, documents: list[str]) -> None:
        self.family = family
        self.recipe = Recipe.preset(
            family, "tiny", [*SMALL, "training.steps=20", "training.learning_rate=1e-3", "training.save_every=5"]
        )
        self.tokenizer = Tokenizer.train(self.recipe.tokenizer, documents, vocab_size=400)
        self.store = TokenStore.from_documents(
            documents, self.tokenizer, MaskingUnits(MaskingUnitsConfig(segmenter="none"))
        )
        length = self.recipe.data.sequence_length
        self.source = TokenSource(self.store, length, self.recipe.training.batch_tokens // length)

    def learner(self, **training) -> GradientLearner:
        torch.manual_seed(0)
        encoder = FAMILIES[self.family](self.recipe.model.replace(vocab_size=self.tokenizer.vocab_size))
        objective = build_objective(self.recipe.objective, encoder, self.tokenizer.specials)
        return GradientLearner(encoder, objective, self.source, self.recipe.training.replace(**training))


@pytest.fixture(scope="session")
def tiny_models(documents):
    return {family: TinyModel(family, documents) for family in TRANSFORMERS}


@pytest.fixture(params=TRANSFORMERS)
def tiny(request, tiny_models):
    return tiny_models[request.param]


@pytest.fixture
def any_tiny(tiny_models):
    """Any family."""
    return tiny_models["gpt2"]
