"""Vectors of words that a model is given and keeps as they are."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import tokenizers
import torch
from numpy.typing import NDArray

from polyseme.models.base import Encoder
from polyseme.text.corpus import Corpus
from polyseme.text.parallel import Parallel
from polyseme.text.tokenizer import Tokenizer
from polyseme.text.vocabulary import guarded
from polyseme.train.recipe import Recipe


@dataclass(frozen=True, kw_only=True)
class GivenVectors:
    """Words and their vectors."""

    name: str  # of the run or file that they come from
    words: Sequence[str]
    vectors: NDArray[np.float32]  # (N, D)

    def train_tokenizer(self, recipe: Recipe, corpus: Corpus) -> tuple[Tokenizer, int]:
        """A tokenizer of the words of the translations, then of all that have a vector; and how many the first are.

        Words of the source have the vectors of their lower case, where there are none for how they are written.
        """
        assert isinstance(corpus, Parallel)
        config, vocab_size = recipe.tokenizer, recipe.model.vocab_size
        source, target = (
            Tokenizer.train(config, (pair[side] for pair in corpus.rows()), vocab_size=vocab_size) for side in (0, 1)
        )
        known, met = set(self.words), source.backend.get_vocab()
        vocabulary = target.backend.get_vocab()
        for word in [*sorted((word for word in met if word.lower() in known), key=met.__getitem__), *self.words]:
            vocabulary.setdefault(word, len(vocabulary))
        state = json.loads(target.backend.to_str())
        state["model"]["vocab"] = vocabulary
        backend = guarded(tokenizers.Tokenizer.from_str, json.dumps(state))
        return Tokenizer(backend, target.config, target.specials), target.vocab_size

    @torch.no_grad()
    def fill(self, encoder: Encoder, tokenizer: Tokenizer) -> None:
        """Give every word its vector: as it is written, else in lower case, else zeros."""
        known = {word: number for number, word in enumerate(self.words)}
        encoder.tokens.weight.zero_()
        for word, id in tokenizer.backend.get_vocab().items():
            number = known.get(word, known.get(word.lower()))
            if number is not None and id not in tokenizer.special_ids:
                encoder.tokens.weight[id] = torch.from_numpy(self.vectors[number])
