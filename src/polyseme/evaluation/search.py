"""Search in a collection of texts: by the cosine of dense vectors, exactly, or by terms with BM25 or TF-IDF.

Terms are lower-cased words, and in scripts without spaces single characters and pairs of adjacent ones.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

import numpy as np

from polyseme.analysis.vector_geometry import nearest_neighbours, normalize
from polyseme.arrays import AnyFloats, Doubles, Floats, Ids
from polyseme.baselines.tfidf import Tfidf, TfidfConfig, find_terms
from polyseme.errors import ConfigError, DataError

_BLOCK = 2048  # texts whose vectors are in memory at the same time
_TERMS = TfidfConfig(word_ngrams=1, subword_ngrams=0, character_ngrams=2)

Embed = Callable[[Sequence[str]], Floats]
Ranking = tuple[Ids, Doubles]
"""The numbers of the best texts for each query, the best first, and their scores, both (Q, top)."""


class Searcher(Protocol):
    """A collection of texts that can be searched."""

    def search(self, queries: Sequence[str], *, top: int) -> Ranking:
        """Rank the texts for each query; ties are in the order of the texts."""
        ...


class DenseSearch:
    """Search by the cosine of vectors, which are computed block by block for each call and not stored."""

    def __init__(self, embed: Embed, texts: Sequence[str]) -> None:
        self.embed, self.texts = embed, texts

    def search(self, queries: Sequence[str], *, top: int) -> Ranking:
        blocks = (block for _, block in embed_blocks(self.embed, self.texts))
        return rank_vectors(self.embed(queries), blocks, top=top)


class Bm25Search:
    """Search by BM25 (Robertson and Zaragoza, 2009) as bm25s implements it, with its default parameters."""

    def __init__(self, texts: Sequence[str]) -> None:
        try:
            import bm25s
        except ImportError:
            raise ConfigError("BM25 needs bm25s; pip install 'polyseme[search]'") from None
        logging.getLogger("bm25s").setLevel(logging.WARNING)  # it sets DEBUG for itself
        self.index = bm25s.BM25()
        terms = [_bm25_terms(text) for text in texts]
        if not any(terms):
            raise DataError("the texts to search contain no words; give some text")
        self.index.index(terms, show_progress=False)

    def search(self, queries: Sequence[str], *, top: int) -> Ranking:
        # Ids rather than terms: a query of which no term is known scores 0 everywhere instead of raising an error.
        ids = (self.index.get_tokens_ids(_bm25_terms(query)) for query in queries)
        return _stack([_best(self.index.get_scores_from_ids(of_query), top) for of_query in ids])


class TfidfSearch:
    """Search by the cosine of TF-IDF vectors of the same terms."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.tfidf = Tfidf.fit(_TERMS, texts)
        self.vectors = self.tfidf.vectors(texts).T.tocsr()

    def search(self, queries: Sequence[str], *, top: int) -> Ranking:
        queries = self.tfidf.vectors(queries)
        return _stack([_best((vector @ self.vectors).toarray().ravel(), top) for vector in queries])


def embed_blocks(embed: Embed, texts: Sequence[str]) -> Iterator[tuple[int, Floats]]:
    """The vectors of texts, a bounded number at a time, each block with the number of its first text."""
    return ((start, embed(texts[start : start + _BLOCK])) for start in range(0, len(texts), _BLOCK))


def rank_vectors(queries: AnyFloats, blocks: Iterable[AnyFloats], *, top: int) -> Ranking:
    """Rank vectors by their cosine with each query, keeping the best of all blocks so far."""
    units = normalize(queries)
    indices, scores, number = np.zeros((len(units), 0), np.int64), np.zeros((len(units), 0)), 0
    for block in blocks:
        in_block, cosines = nearest_neighbours(units, normalize(block), top)
        indices, scores = np.hstack([indices, in_block + number]), np.hstack([scores, cosines])
        order = np.argsort(-scores.round(6), axis=1, kind="stable")[:, :top]  # ties in order, despite rounding errors
        indices, scores = np.take_along_axis(indices, order, axis=1), np.take_along_axis(scores, order, axis=1)
        number += len(block)
    return indices, scores


def _bm25_terms(text: str) -> list[str]:
    return list(find_terms(text, _TERMS))


def _best(scores: AnyFloats, top: int) -> tuple[Ids, AnyFloats]:
    """The highest scores and their positions; ties in order."""
    order = np.argsort(-scores, kind="stable")[:top]
    return order, scores[order]


def _stack(rankings: Sequence[tuple[Ids, AnyFloats]]) -> Ranking:
    indices, scores = zip(*rankings, strict=True)
    return np.stack(indices), np.stack(scores).astype(np.float64)
