"""Pretrained word embeddings as fixed inputs of a model (CoVe)."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import tokenizers
import torch
from torch import Tensor

from polyseme.arrays import Floats
from polyseme.corpora.corpus import Corpus, ParallelCorpus
from polyseme.models.base import Encoder
from polyseme.tokenization.tokenizer import Tokenizer
from polyseme.tokenization.training import call_library
from polyseme.training.recipes.recipe import Recipe


@dataclass(frozen=True, kw_only=True)
class PretrainedEmbeddings:
    """Words and their vectors."""

    name: str  # of the run or file that they come from
    words: Sequence[str]
    vectors: Floats  # (N, D)

    @classmethod
    def of(cls, name: str, tokenizer: Tokenizer, weight: Tensor) -> Self:
        """Take the rows of an embedding matrix, but for those of special tokens."""
        ids = {word: id for word, id in tokenizer.backend.get_vocab().items() if id not in tokenizer.special_ids}
        words = sorted(ids, key=ids.__getitem__)
        return cls(name=name, words=words, vectors=weight[[ids[word] for word in words]].numpy())

    def train_tokenizer(self, recipe: Recipe, corpus: Corpus) -> tuple[Tokenizer, int]:
        """Build a tokenizer of the words of the translations, then of all words with a vector.

        Source words without a vector have that of their lower case.

        Returns:
            The tokenizer, and the number of words of the translations.
        """
        assert isinstance(corpus, ParallelCorpus)
        config, vocab_size = recipe.tokenizer, recipe.model.vocab_size
        source, target = (
            Tokenizer.train(config, (pair[index] for pair in corpus.sentence_pairs()), vocab_size=vocab_size)
            for index in (0, 1)
        )
        known, source_ids = set(self.words), source.backend.get_vocab()
        vocabulary = target.backend.get_vocab()
        lowercased = sorted((word for word in source_ids if word.lower() in known), key=source_ids.__getitem__)
        for word in [*lowercased, *self.words]:
            vocabulary.setdefault(word, len(vocabulary))
        state = json.loads(target.backend.to_str())
        state["model"]["vocab"] = vocabulary
        backend = call_library(tokenizers.Tokenizer.from_str, json.dumps(state))
        return Tokenizer(backend, target.config, target.specials), target.vocab_size

    @torch.no_grad()
    def load_into(self, encoder: Encoder, tokenizer: Tokenizer) -> None:
        """Set the embedding of every token to its vector, or that of its lower case, or zeros."""
        rows = {word: row for row, word in enumerate(self.words)}
        encoder.tokens.weight.zero_()
        for word, id in tokenizer.backend.get_vocab().items():
            row = rows.get(word, rows.get(word.lower()))
            if row is not None and id not in tokenizer.special_ids:
                encoder.tokens.weight[id] = torch.from_numpy(self.vectors[row])
