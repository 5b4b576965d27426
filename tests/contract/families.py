"""A tiny model of each family with the objective of its preset."""

import dataclasses

from polyseme.corpora.corpus import ParallelCorpus
from polyseme.corpora.sentence_splitting import split_sentences
from polyseme.datasets.token_store import TokenStore
from polyseme.families import FAMILIES, build_objective
from polyseme.objectives.joint import JointObjective
from polyseme.objectives.sources import TokenSource
from polyseme.tokenization.masking_units import MaskingUnits, MaskingUnitsConfig
from polyseme.tokenization.tokenizer import Tokenizer
from polyseme.training.model_building import build_learner
from polyseme.training.recipes.recipe import Recipe

SMALL = [
    "model.vocab_size=400",
    "model.max_length=64",
    "data.sequence_length=32",
    "training.batch_tokens=256",
    "training.threads=1",
]


def recipe_of(family: str, *overrides: str) -> Recipe:
    dropout = ["model.dropout=0.1"] if "dropout" in FAMILIES[family].Config.model_fields else []
    return Recipe.preset(family, "tiny", [*SMALL, *dropout, *overrides])


def pairs_of(documents: list[str]) -> list[str]:
    """Synthetic parallel text: spans of six words, and the same words reversed."""
    words = " ".join(documents).split()
    spans = [words[start : start + 6] for start in range(0, len(words) - 6, 6)]
    return [" ".join(span) + "\n" + " ".join(reversed(span)) for span in spans]


class Tiny:
    """Recipe, data and builders for the contract tests of one family."""

    def __init__(self, family: str, documents: list[str]) -> None:
        self.family = family
        self.recipe = recipe_of(family, "training.steps=20", "training.learning_rate=1e-3")
        self.by_gradient = self.recipe.objective.by_gradient
        split = split_sentences
        if self.recipe.objective.uses_parallel_text:
            documents, split = pairs_of(documents), ParallelCorpus.split_document
        self.documents = documents
        self.tokenizer = Tokenizer.train(self.recipe.tokenizer, documents, vocab_size=400)
        units = MaskingUnits(MaskingUnitsConfig(segmenter="none"))
        self.store = TokenStore.from_documents(documents, self.tokenizer, units, split=split)
        length = self.recipe.data.sequence_length
        self.source = TokenSource(self.store, length, self.recipe.training.batch_tokens // length)

    def build(self, seed: int = 0):
        import torch

        torch.manual_seed(seed)
        config = self.recipe.model.replace(vocab_size=self.tokenizer.vocab_size)
        encoder = FAMILIES[self.family](config)
        objective: JointObjective = build_objective(self.recipe.objective, encoder, self.tokenizer.specials)
        return encoder, objective

    def learner(self, **training):
        encoder, objective = self.build()
        recipe = dataclasses.replace(
            self.recipe,
            model=encoder.config,
            training=self.recipe.training.replace(**training),
        )
        return build_learner(recipe, encoder, objective, self.source, self.tokenizer)
