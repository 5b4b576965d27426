"""fastText: word vectors with subword information (Bojanowski et al., 2017).

What is unusual: the vector of a word is the mean of a vector of its own and those of its character n-grams, so that
out-of-vocabulary words have vectors, too. The embedding table has these means; the n-gram vectors are kept for OOV
words only, and are constant in fine-tuning.
"""

from collections.abc import Sequence
from typing import Self

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import Field, model_validator
from torch import Tensor, nn

from polyseme.arrays import Floats, Integers
from polyseme.batch import Batch, Encoded, State
from polyseme.models.base import Encoder
from polyseme.static_embeddings.base import Subwords
from polyseme.static_embeddings.encoder import StaticEmbedding, StaticEmbeddingConfig
from polyseme.tokenization.tokenizer import Tokenizer

_BLOCK = 10_000  # words composed at once


class FastTextConfig(StaticEmbeddingConfig):
    """The sizes of the embedding table, and the character n-grams."""

    min_n: int = Field(3, ge=0, le=20)  # characters of the shortest n-grams of a word between < and >
    max_n: int = Field(6, ge=0, le=20)  # of the longest; 0: no n-grams
    num_buckets: int = Field(2_000_000, ge=0)  # that n-grams are hashed into

    @model_validator(mode="after")
    def _check_ngrams(self) -> Self:
        if self.max_n and self.min_n > self.max_n:
            raise ValueError(f"max_n: {self.max_n} is below min_n, which is {self.min_n}; use 0 for no n-grams")
        if self.max_n and not self.num_buckets:
            raise ValueError("num_buckets: n-grams need at least one; use max_n=0 for no n-grams")
        return self

    def hash_ngrams(self, words: Sequence[str]) -> tuple[Integers, Integers]:
        """The buckets of the n-grams of all words, concatenated, and where those of each word start."""
        from polyseme.static_embeddings.fasttext.ngrams import hash_ngrams  # compiles kernels

        return hash_ngrams(words, min_n=self.min_n, max_n=self.max_n, num_buckets=self.num_buckets)


class SubwordEmbedding(nn.Embedding):
    """An embedding table, and the n-gram vectors that the vectors of OOV words are composed of."""

    def __init__(self, config: FastTextConfig) -> None:
        bound = 1 / config.width
        weight, ngrams = (
            torch.empty(num_rows, config.width).uniform_(-bound, bound)
            for num_rows in (config.vocab_size, config.num_buckets)
        )
        super().__init__(config.vocab_size, config.width, _weight=weight)
        self.ngrams = nn.Embedding(config.num_buckets, config.width, _weight=ngrams)
        self.ngrams.weight.requires_grad_(False)

    def forward(self, ids: Tensor, oov_vectors: Tensor | None = None) -> Tensor:
        """Look up vectors (…, D); ids from V on are rows of `oov_vectors`."""
        if oov_vectors is None or not len(oov_vectors):
            return super().forward(ids)
        is_oov = ids >= self.num_embeddings
        known = super().forward(ids.masked_fill(is_oov, 0))
        oov = F.embedding((ids - self.num_embeddings).clamp_min(0), oov_vectors)
        return torch.where(is_oov[..., None], oov, known)


class FastText(StaticEmbedding):
    """An embedding table with vectors of OOV words."""

    Config = FastTextConfig
    uses_characters = True
    tokens: SubwordEmbedding

    def __init__(self, config: FastTextConfig) -> None:
        Encoder.__init__(self, config)
        self.widths = (config.width,)
        self.tokens = SubwordEmbedding(config)

    def oov_characters(self, words: Sequence[str]) -> Tensor:
        """Vectors (N, D) of out-of-vocabulary words: the means of their n-grams, zeros if a word has none."""
        subwords = Subwords(self.tokens.ngrams.weight.cpu().numpy(), *self.config.hash_ngrams(words))
        sums, counts = _ngram_sums(subwords, 0, len(words))
        return torch.from_numpy(sums / np.maximum(1, counts))

    def forward(self, batch: Batch, state: State | None = None) -> Encoded:
        layer = self.tokens(batch.ids, batch.oov_characters)
        return Encoded(layers=(layer,), mask=batch.mask, packed_lengths=batch.packed_lengths)

    def subwords(self, tokenizer: Tokenizer) -> Subwords:
        """The n-grams of all tokens but the special ones, and the table of their vectors."""
        words = [""] * self.config.vocab_size
        for word, id in tokenizer.backend.get_vocab().items():
            words[id] = "" if id in tokenizer.special_ids else word
        return Subwords(self.tokens.ngrams.weight.numpy(), *self.config.hash_ngrams(words))


def compose(own: Floats, subwords: Subwords) -> Floats:
    """Word vectors (N, D): the means of whole-word vectors and n-gram vectors."""
    means = np.empty(own.shape, np.float32)
    for start in range(0, len(own), _BLOCK):
        block = slice(start, start + _BLOCK)
        sums, counts = _ngram_sums(subwords, start, len(own[block]))
        means[block] = (own[block] + sums) / (1 + counts)
    return means


def decompose(means: Floats, subwords: Subwords) -> Floats:
    """Whole-word vectors (N, D); the inverse of `compose`."""
    own = np.empty(means.shape, np.float32)
    for start in range(0, len(means), _BLOCK):
        block = slice(start, start + _BLOCK)
        sums, counts = _ngram_sums(subwords, start, len(means[block]))
        own[block] = means[block] * (1 + counts) - sums
    return own


def _ngram_sums(subwords: Subwords, first: int, num_words: int) -> tuple[Floats, Floats]:
    """The summed n-gram vectors of some words (N, D), and the numbers of their n-grams, (N, 1)."""
    starts = subwords.starts[first : first + num_words + 1]
    buckets = torch.from_numpy(subwords.buckets[starts[0] : starts[-1]])
    counts = np.diff(starts).astype(np.float32)[:, None]
    vectors = torch.from_numpy(subwords.vectors)
    if not len(buckets):
        return np.zeros((num_words, vectors.shape[1]), np.float32), counts
    offsets = torch.from_numpy((starts - starts[0]).astype(np.int32))
    return F.embedding_bag(buckets, vectors, offsets, mode="sum", include_last_offset=True).numpy(), counts
