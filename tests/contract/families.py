"""A tiny model of each family with the objective of its preset."""

import dataclasses

from polyseme.models import FAMILIES
from polyseme.objectives import Source, Together, build_objective
from polyseme.text.parallel import split_pair
from polyseme.text.sentences import split_sentences
from polyseme.text.store import Store
from polyseme.text.tokenizer import Tokenizer
from polyseme.text.units import Units, UnitsConfig
from polyseme.train.pretraining import build_learner
from polyseme.train.recipe import Recipe

SMALL = ["model.vocab_size=400", "model.max_length=64", "data.length=32", "plan.batch_tokens=256", "plan.threads=1"]


def recipe_of(family: str, *overrides: str) -> Recipe:
    dropout = ["model.dropout=0.1"] if "dropout" in FAMILIES[family].Config.model_fields else []
    return Recipe.preset(family, "tiny", [*SMALL, *dropout, *overrides])


def pairs_of(documents: list[str]) -> list[str]:
    """Parallel text of a kind: stretches of six words, and the same words from right to left."""
    words = " ".join(documents).split()
    stretches = [words[start : start + 6] for start in range(0, len(words) - 6, 6)]
    return [" ".join(stretch) + "\n" + " ".join(reversed(stretch)) for stretch in stretches]


class Tiny:
    """Everything that a contract asks about one family."""

    def __init__(self, family: str, documents: list[str]) -> None:
        self.family = family
        self.recipe = recipe_of(family, "plan.steps=20", "plan.rate=1e-3")
        self.by_gradient = self.recipe.objective.by_gradient
        split = split_sentences
        if self.recipe.objective.uses_pairs:
            documents, split = pairs_of(documents), split_pair
        self.documents = documents
        self.tokenizer = Tokenizer.train(self.recipe.tokenizer, documents, vocab_size=400)
        self.store = Store.from_documents(documents, self.tokenizer, Units(UnitsConfig(segmenter="none")), split=split)
        length = self.recipe.data.length
        self.source = Source(self.store, length, self.recipe.plan.batch_tokens // length)

    def build(self, seed: int = 0):
        import torch

        torch.manual_seed(seed)
        config = self.recipe.model.replace(vocab_size=self.tokenizer.vocab_size)
        encoder = FAMILIES[self.family](config)
        objective: Together = build_objective(self.recipe.objective, encoder, self.tokenizer.specials)
        return encoder, objective

    def learner(self, **plan):
        encoder, objective = self.build()
        recipe = dataclasses.replace(
            self.recipe,
            model=encoder.config,
            plan=self.recipe.plan.replace(**plan),
        )
        return build_learner(recipe, encoder, objective, self.source, self.tokenizer)
