"""Nearest neighbours and analogies in the embedding of a model: layer 0 without position or context.

This works for every family; a word has to be a single token. Families that read the characters of words have vectors of
out-of-vocabulary words as well.
"""

import copy
import difflib
import heapq
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, Self, get_args

import torch
import torch.nn.functional as F
from torch import Tensor

from polyseme.config import suggest_name
from polyseme.errors import ConfigError, DataError
from polyseme.models.base import Encoder
from polyseme.tokenization.tokenizer import Tokenizer
from polyseme.tokenization.words import find_word, token_text

AnalogyMethod = Literal["3cosadd", "3cosmul"]

_NUM_CANDIDATES = 100  # words whose spelling is compared closely with an OOV word
_EPSILON = 1e-12  # minimum norm; the cosine with a zero vector is 0


@dataclass(frozen=True, kw_only=True)
class Neighbour:
    """A word with its score: a cosine, or the 3CosMul objective."""

    word: str
    score: float


class EmbeddingSpace:
    """The vectors of a vocabulary, and of some OOV words."""

    def __init__(self, encoder: Encoder, tokenizer: Tokenizer) -> None:
        self.encoder = encoder
        self.tokenizer = tokenizer
        weight = encoder.tokens.weight
        if isinstance(weight, Tensor):
            self.vectors = weight.detach()  # (V, D)
        else:  # int8
            self.vectors = encoder.tokens(torch.arange(weight.shape[0], device=weight.device))
        self.norms: Tensor = torch.linalg.vector_norm(self.vectors, dim=1).clamp_min(_EPSILON)
        words = torch.zeros(len(self.vectors), dtype=torch.bool)
        words[list(tokenizer.backend.get_vocab().values())] = True  # the table may have more rows than tokens
        words[list(tokenizer.special_ids)] = False
        self.excluded = (~words).nonzero()[:, 0].to(self.vectors.device)
        self.oov_ids: dict[str, int] = {}  # from V on
        self.oov_vectors = self.vectors[:0]  # (N, D)

    def with_oov_words(self, words: Iterable[str]) -> Self:
        """The same space with vectors of OOV words, where the model computes them from characters."""
        oov = [word for word in dict.fromkeys(words) if self.find(word) is None and self._is_unknown_token(word)]
        if not oov:
            return self
        space = copy.copy(self)
        characters = self.encoder.oov_characters([self.tokenizer.normalize(word) for word in oov])
        assert characters is not None
        device, first = self.vectors.device, len(self.vectors)
        with torch.no_grad():
            ids = torch.arange(first, first + len(oov), device=device)
            space.oov_vectors = self.encoder.tokens(ids, characters.to(device))
        # fastText has no vector of a word without n-grams.
        space.oov_ids = {oov[index]: first + index for index in space.oov_vectors.any(1).nonzero()[:, 0].tolist()}
        return space

    def neighbours(self, word: str, *, top: int = 10) -> list[Neighbour]:
        """The words with the largest cosine similarity."""
        space = self.with_oov_words([word])
        id = torch.tensor([[space.id(word)]])
        return self._best(self._exclude(self._cosines(space.rows(id[0])), id), top)

    def analogy(
        self, first: str, second: str, third: str, *, top: int = 10, method: AnalogyMethod = "3cosadd"
    ) -> list[Neighbour]:
        """The words that are to `third` as `second` is to `first`, these three excluded."""
        space = self.with_oov_words((first, second, third))
        question = torch.tensor([[space.id(word) for word in (first, second, third)]])
        return self._best(space.answers(question, method=method), top)

    def similarities(self, pairs: Tensor) -> Tensor:
        """The cosine of pairs of ids (N, 2); 1 for the same word, even if its vector is zero."""
        first, second = self._unit_vectors(pairs)
        return (first * second).sum(1).masked_fill_((pairs[:, 0] == pairs[:, 1]).to(first.device), 1.0)

    def answers(self, questions: Tensor, *, method: AnalogyMethod = "3cosadd") -> Tensor:
        """The scores of all words (N, V) as answers to questions of three ids (N, 3), which are excluded."""
        if method not in get_args(AnalogyMethod):
            raise ConfigError(f"{method!r} is not an analogy method{suggest_name(method, get_args(AnalogyMethod))}")
        first, second, third = self._unit_vectors(questions)
        if method == "3cosadd":
            scores = self._cosines(second - first + third)
        else:  # Levy and Goldberg (2014), with cosines scaled to [0, 1]
            minus, plus, plus_too = ((self._cosines(vectors) + 1) / 2 for vectors in (first, second, third))
            scores = plus * plus_too / (minus + 0.001)
        return self._exclude(scores, questions)

    def find(self, word: str) -> int | None:
        """The id of a word that is a single token, or None."""
        return self.oov_ids[word] if word in self.oov_ids else find_word(self.tokenizer, word)

    def rows(self, ids: Tensor) -> Tensor:
        """The vectors (N, D) of ids, those of OOV words included."""
        ids = ids.to(self.vectors.device)
        if not self.oov_ids:
            return self.vectors[ids]
        is_oov = ids >= len(self.vectors)
        oov = self.oov_vectors[(ids - len(self.vectors)).clamp_min(0)]
        return torch.where(is_oov[:, None], oov, self.vectors[ids.masked_fill(is_oov, 0)])

    def id(self, word: str) -> int:
        """The id of a word; an error with similar spellings if it is not a single token."""
        id = self.find(word)
        if id is not None:
            return id
        tokens = self.tokenizer.encode(" " + word, specials=False)
        similar = self.similar_words(word)
        hint = f"; did you mean {', '.join(similar)}?" if similar else "; choose another word"
        if len(tokens.ids) > 1 and not any(tokens.special):
            raise DataError(f"{word!r:.60} is several tokens ({' '.join(tokens.tokens):.60}){hint}")
        raise DataError(f"{word!r:.60} is not in the vocabulary{hint}")

    def similar_words(self, word: str) -> list[str]:
        """Words of the vocabulary with a similar spelling."""
        vocabulary = self.tokenizer.backend.get_vocab()
        ids = [vocabulary[token] for token in similar_spellings(word, vocabulary)]
        words = [token_text(self.tokenizer, id).strip() for id in ids if id not in self.tokenizer.special_ids]
        known = (one for one in words if not one.startswith("##") and self.find(one) is not None)
        return [one for one in dict.fromkeys(known) if one != word]

    def _unit_vectors(self, ids: Tensor) -> Iterable[Tensor]:
        return (F.normalize(self.rows(column), eps=_EPSILON) for column in ids.T)

    def _is_unknown_token(self, word: str) -> bool:
        """Whether a word is a single token that is not in the vocabulary, and the model reads its characters."""
        ids = self.tokenizer.encode(word, specials=False).ids if self.encoder.uses_characters else []
        return ids == [self.tokenizer.specials.unknown]

    def _cosines(self, vectors: Tensor) -> Tensor:
        """Cosines of vectors (N, D) with all words, (N, V)."""
        return F.normalize(vectors, eps=_EPSILON) @ self.vectors.T / self.norms

    def _exclude(self, scores: Tensor, ids: Tensor) -> Tensor:
        """Scores (N, V) without the words of the question (N, …) and special tokens."""
        questions, columns = (ids < scores.shape[1]).nonzero(as_tuple=True)  # without OOV words
        scores[questions.to(scores.device), ids[questions, columns].to(scores.device)] = -torch.inf
        return scores.index_fill_(1, self.excluded, -torch.inf)

    def _best(self, scores: Tensor, top: int) -> list[Neighbour]:
        best = scores[0].topk(min(max(1, top), scores.shape[1]))
        return [
            Neighbour(word=self.tokenizer.token(id), score=score)
            for score, id in zip(best.values.tolist(), best.indices.tolist(), strict=True)
            if score > -torch.inf
        ]


def similar_spellings(word: str, words: Iterable[str]) -> list[str]:
    """Words with a similar spelling, among those that share the most character bigrams."""
    word = word[:100].lower()
    bigrams = _bigrams(word)

    def overlap(other: str) -> float:
        theirs = _bigrams(other)
        return len(bigrams & theirs) / (len(bigrams) + len(theirs))

    return difflib.get_close_matches(word, heapq.nlargest(_NUM_CANDIDATES, words, key=overlap))


def _bigrams(word: str) -> set[tuple[str, str]]:
    return set(zip(f" {word}", f"{word} ", strict=True))
