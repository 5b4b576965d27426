"""A tiny learner of each family that the transformers library knows, and runs for it."""

import pytest
import torch

from polyseme.models import FAMILIES
from polyseme.objectives import Source, build_objective
from polyseme.text.store import Store
from polyseme.text.tokenizer import Tokenizer
from polyseme.text.units import Units, UnitsConfig
from polyseme.train.learner import GradientLearner
from polyseme.train.recipe import Recipe

SMALL = ["model.vocab_size=400", "model.width=32", "model.max_length=64", "data.length=32", "plan.batch_tokens=256"]
SMALL += ["plan.short_rows=0"]  # rows of one length, which can be counted


TRANSFORMERS = [name for name, family in FAMILIES.items() if family.foreign]


class Workshop:
    """Everything that a learner and its run are made of."""

    def __init__(self, family: str, documents: list[str]) -> None:
        self.family = family
        self.recipe = Recipe.preset(family, "tiny", [*SMALL, "plan.steps=20", "plan.rate=1e-3", "plan.save_every=5"])
        self.tokenizer = Tokenizer.train(self.recipe.tokenizer, documents, vocab_size=400)
        self.store = Store.from_documents(documents, self.tokenizer, Units(UnitsConfig(segmenter="none")))
        length = self.recipe.data.length
        self.source = Source(self.store, length, self.recipe.plan.batch_tokens // length)

    def learner(self, **plan) -> GradientLearner:
        torch.manual_seed(0)
        encoder = FAMILIES[self.family](self.recipe.model.replace(vocab_size=self.tokenizer.vocab_size))
        objective = build_objective(self.recipe.objective, encoder, self.tokenizer.specials)
        return GradientLearner(encoder, objective, self.source, self.recipe.plan.replace(**plan))


@pytest.fixture(scope="session")
def workshops(documents):
    return {family: Workshop(family, documents) for family in TRANSFORMERS}


@pytest.fixture(params=TRANSFORMERS)
def workshop(request, workshops):
    return workshops[request.param]


@pytest.fixture
def one_workshop(workshops):
    """Where the family makes no difference."""
    return workshops["gpt2"]
