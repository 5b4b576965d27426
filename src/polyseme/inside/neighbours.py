"""Which words lie near a word, and which stands to a third as a second to a first.

Both are looked up in layer 0 before anything is added to it, so that they can be asked of every family; a word has to
be one token there.
"""

from __future__ import annotations

import difflib
import heapq
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor

from polyseme.config import nearest
from polyseme.errors import ConfigError, DataError
from polyseme.models.base import Encoder
from polyseme.text.tokenizer import Tokenizer

Method = Literal["3cosadd", "3cosmul"]

_SIFTED = 100  # words that are compared letter by letter with one that is not known
_SHORTEST = 1e-12  # length of a vector; one of zeros is like no other


@dataclass(frozen=True, kw_only=True)
class Neighbour:
    """A word, and how well it fits: a cosine, or what 3CosMul makes of three of them."""

    word: str
    score: float


class Space:
    """The words of a model as points."""

    def __init__(self, encoder: Encoder, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        weight = encoder.tokens.weight
        if isinstance(weight, Tensor):
            self.vectors = weight.detach()  # (V, D)
        else:  # in bytes
            self.vectors = encoder.tokens(torch.arange(weight.shape[0], device=weight.device))
        self.lengths: Tensor = torch.linalg.vector_norm(self.vectors, dim=1).clamp_min(_SHORTEST)
        words = torch.zeros(len(self.vectors), dtype=torch.bool)
        words[list(tokenizer.backend.get_vocab().values())] = True  # a table may have more rows than there are tokens
        words[list(tokenizer.special_ids)] = False
        self.others = (~words).nonzero()[:, 0].to(self.vectors.device)

    def neighbours(self, word: str, *, top: int = 10) -> list[Neighbour]:
        """The words whose vectors have the largest cosine with that of a word."""
        id = torch.tensor([[self.id(word)]])
        return self._best(self._without(self._cosines(self.vectors[id[0]]), id), top)

    def analogy(
        self, first: str, second: str, third: str, *, top: int = 10, method: Method = "3cosadd"
    ) -> list[Neighbour]:
        """The words that stand to `third` as `second` to `first`, themselves left out."""
        question = torch.tensor([[self.id(word) for word in (first, second, third)]])
        return self._best(self.answers(question, method=method), top)

    def similarities(self, pairs: Tensor) -> Tensor:
        """The cosines of pairs of ids (N, 2); a word is as like itself as can be, even without a vector."""
        first, second = self._units(pairs)
        return (first * second).sum(1).masked_fill_((pairs[:, 0] == pairs[:, 1]).to(first.device), 1.0)

    def answers(self, questions: Tensor, *, method: Method = "3cosadd") -> Tensor:
        """How well every word answers each question, three ids (N, 3), as (N, V); no word of a question does."""
        if method not in get_args(Method):
            raise ConfigError(f"{method!r} is no way to complete an analogy{nearest(method, get_args(Method))}")
        first, second, third = self._units(questions)
        if method == "3cosadd":
            scores = self._cosines(second - first + third)
        else:  # Levy and Goldberg (2014), with cosines from 0 to 1
            away, towards, alike = ((self._cosines(vectors) + 1) / 2 for vectors in (first, second, third))
            scores = towards * alike / (away + 0.001)
        return self._without(scores, questions)

    def find(self, word: str) -> int | None:
        """The id of the token that a word is, or nothing."""
        exact = self.tokenizer.id(word)
        if exact is not None and self.tokenizer.config.kind in ("word", "char"):
            return exact
        ids = self.tokenizer.encode(" " + word, specials=False).ids  # as it stands in a sentence
        if len(ids) == 1 and ids[0] not in self.tokenizer.special_ids:
            return ids[0]
        return exact

    def id(self, word: str) -> int:
        """The id of a word that has to be known."""
        id = self.find(word)
        if id is not None:
            return id
        pieces = self.tokenizer.encode(" " + word, specials=False)
        close = nearest_words(word, self.tokenizer.backend.get_vocab())
        hint = f"; did you mean {', '.join(close)}?" if close else "; give another word"
        if len(pieces.ids) > 1 and not any(pieces.special):
            raise DataError(f"{word!r:.60} is not one token but {' '.join(pieces.tokens):.60}{hint}")
        raise DataError(f"{word!r:.60} is not among the words of the model{hint}")

    def _units(self, ids: Tensor) -> Iterable[Tensor]:
        return (F.normalize(self.vectors[column], eps=_SHORTEST) for column in ids.to(self.vectors.device).T)

    def _cosines(self, vectors: Tensor) -> Tensor:
        """Of vectors (N, D) with all words, (N, V)."""
        return F.normalize(vectors, eps=_SHORTEST) @ self.vectors.T / self.lengths

    def _without(self, scores: Tensor, given: Tensor) -> Tensor:
        """Scores of all words (N, V), of which those that were given (N, …) and special tokens are out of question."""
        scores.scatter_(1, given.to(scores.device), -torch.inf)
        return scores.index_fill_(1, self.others, -torch.inf)

    def _best(self, scores: Tensor, top: int) -> list[Neighbour]:
        best = scores[0].topk(min(max(1, top), scores.shape[1]))
        return [
            Neighbour(word=self.tokenizer.token(id), score=score)
            for score, id in zip(best.values.tolist(), best.indices.tolist(), strict=True)
            if score > -torch.inf
        ]


def nearest_words(word: str, words: Iterable[str], *, most: int = 3) -> list[str]:
    """Words that are spelt nearly like one; those with the most pairs of letters in common are looked at closely."""
    word = word[:100].lower()
    pairs = _pairs(word)

    def shared(other: str) -> float:
        theirs = _pairs(other)
        return len(pairs & theirs) / (len(pairs) + len(theirs))

    return difflib.get_close_matches(word, heapq.nlargest(_SIFTED, words, key=shared), n=most)


def _pairs(word: str) -> set[tuple[str, str]]:
    return set(zip(f" {word}", f"{word} ", strict=True))
