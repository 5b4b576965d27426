"""Phrase detection: collocations become single tokens, as `new_york` (Mikolov et al., 2013b).

The score of a bigram is (count(a b) - min_count) / (count(a) count(b)), times the number of words, so that a threshold
is independent of the corpus size. Each pass merges the bigrams above its threshold from left to right; later passes
find longer phrases.
"""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Self

import numpy as np
from scipy.sparse import coo_array, csr_array

from polyseme.arrays import Doubles, Flags, Ids, Integers
from polyseme.corpora.corpus import Corpus
from polyseme.corpora.utf16_text import replace_surrogates
from polyseme.datasets.token_store import build_or_load_store
from polyseme.static_embeddings.base import token_counts
from polyseme.static_embeddings.cooccurrence import count_cooccurrences
from polyseme.system.cache import temporary_folder
from polyseme.system.jit import jit
from polyseme.tokenization.config import TokenizerConfig
from polyseme.tokenization.tokenizer import Tokenizer
from polyseme.tokenization.training import call_library

_MAX_WORDS = 10_000_000
_NO_WORD = -1
_INSERTED = "\v"  # white space between words of a language that is written without it


@dataclass(frozen=True, eq=False, kw_only=True)
class PhrasedText:
    """A tokenized corpus in which phrases have ids of their own, from the vocabulary size on."""

    tokens: Integers
    bounds: Ids
    pairs: Ids  # (P, 2), the two ids that each phrase consists of
    scores: Doubles  # (P,)
    passes: tuple[int, ...] = (0,)  # the index of the first phrase of each pass, and the number of phrases

    def names(self, words: Sequence[str]) -> list[str]:
        """The name of each id, given the words of the vocabulary."""
        names = list(words)
        for first, second in self.pairs.tolist():
            names.append(f"{names[first]}_{names[second]}")
        return names


@dataclass(frozen=True, kw_only=True)
class Phrase:
    """A detected phrase with its score and frequency."""

    name: str
    score: float
    count: int


class Phrases:
    """The phrases of a corpus, which can be merged in other texts."""

    def __init__(self, tokenizer: Tokenizer, phrased: PhrasedText) -> None:
        self.tokenizer = tokenizer
        self.phrased = phrased
        vocabulary, normalize = tokenizer.backend.get_vocab(), tokenizer.backend.normalizer.normalize_str
        self.word_id = functools.cache(lambda word: vocabulary.get(call_library(normalize, word), _NO_WORD))
        pairs = list(map(tuple, phrased.pairs.tolist()))
        self.passes = [
            {pairs[index]: tokenizer.vocab_size + index for index in range(first, end)}
            for first, end in pairwise(phrased.passes)
        ]

    @classmethod
    def detect(cls, corpus: Corpus, *, min_count: int = 5, thresholds: Sequence[float] = (100.0,)) -> Self:
        """Detect phrases, one pass per threshold; words rarer than `min_count` are in none."""
        config = TokenizerConfig(kind="word", specials="plain", segmenter="auto", min_count=max(1, min_count))
        tokenizer = Tokenizer.train(config, corpus, vocab_size=_MAX_WORDS)
        store = build_or_load_store(corpus, tokenizer)
        names = map(tokenizer.token, range(tokenizer.vocab_size))
        is_word = np.array([any(map(str.isalnum, name)) for name in names])
        is_word[list(tokenizer.special_ids)] = False
        phrased = merge_phrases(
            store.tokens, store.sentences, is_word=is_word, min_count=min_count, thresholds=thresholds
        )
        return cls(tokenizer, phrased)

    def ranked(self) -> list[Phrase]:
        """All phrases that occur, by descending score."""
        size, scores = self.tokenizer.vocab_size, self.phrased.scores
        names = self.phrased.names([self.tokenizer.token(id) for id in range(size)])[size:]
        counts = token_counts(self.phrased.tokens, size + len(names))[size:]
        order = np.argsort(-scores, kind="stable")
        return [Phrase(name=names[n], score=float(scores[n]), count=int(counts[n])) for n in order if counts[n]]

    def merge(self, text: str) -> str:
        """The sentence with its phrases merged and everything else unchanged."""
        spaced, inserted = self.tokenizer.segmentation.insert_spaces(replace_surrogates(text))
        if len(inserted):
            characters = np.frombuffer(spaced.encode("utf-32-le"), "<u4").copy()
            characters[inserted] = ord(_INSERTED)
            spaced = characters.tobytes().decode("utf-32-le")
        words = call_library(self.tokenizer.backend.pre_tokenizer.pre_tokenize_str, spaced)
        ids, starts = [self.word_id(word) for word, _ in words], list(range(len(words) + 1))
        for phrases in self.passes:
            _merge_ids(ids, starts, phrases)
        parts, end = [], 0
        for first, last in pairwise(starts):
            if last > first + 1:
                phrase = "_".join(word for word, _ in words[first:last])
                parts += [spaced[end : words[first][1][0]], f"{_INSERTED}{phrase}{_INSERTED}"]
                end = words[last - 1][1][1]
        if not parts:
            return text
        # Inserted white space remains only beside a phrase.
        return "".join([*parts, spaced[end:]]).replace(2 * _INSERTED, " ").replace(_INSERTED, "")


def _merge_ids(ids: list[int], starts: list[int], phrases: Mapping[tuple[int, int], int]) -> None:
    """Merge pairs from left to right, as `_merge` does; a phrase starts where its first word does."""
    positions: list[int] = []
    for position, pair in enumerate(pairwise(ids)):
        if pair in phrases and (not positions or position > positions[-1] + 1):
            positions.append(position)
    for position in reversed(positions):
        ids[position : position + 2] = [phrases[ids[position], ids[position + 1]]]
        del starts[position + 1]


def merge_phrases(
    tokens: Integers, bounds: Integers, *, is_word: Flags, min_count: int = 5, thresholds: Sequence[float] = (100.0,)
) -> PhrasedText:
    """Merge adjacent words, those with `is_word` (V,), within the same bounds, one pass per threshold."""
    no_pairs, no_scores = np.zeros((0, 2), np.int64), np.zeros(0)
    text = PhrasedText(tokens=tokens, bounds=bounds.astype(np.int64), pairs=no_pairs, scores=no_scores)
    for threshold in thresholds:
        size = len(is_word) + len(text.pairs)
        mergeable = np.concatenate([is_word, np.ones(size - len(is_word), np.bool_)])
        scored = score_bigrams(text.tokens, text.bounds, mergeable, min_count)
        above = scored.data > threshold
        pairs = np.stack([scored.row[above], scored.col[above]], axis=1).astype(np.int64)
        table = csr_array((size + np.arange(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(size, size))
        with temporary_folder() as folder:  # the unlinked file exists as long as its mapping
            merged = np.memmap(folder / "tokens", np.uint32, "w+", shape=(len(text.tokens) + 1,))
        merged_bounds = _merge(text.tokens, text.bounds, table.indptr, table.indices, table.data, merged)
        pairs = np.concatenate([text.pairs, pairs])
        text = PhrasedText(
            tokens=merged[: merged_bounds[-1]],
            bounds=merged_bounds,
            pairs=pairs,
            scores=np.concatenate([text.scores, scored.data[above]]),
            passes=(*text.passes, len(pairs)),
        )
    return text


def score_bigrams(tokens: Integers, bounds: Integers, is_word: Flags, min_count: int) -> coo_array:
    """The score of the bigram of a row's and a column's word, (V, V)."""
    with temporary_folder() as folder:
        pairs = count_cooccurrences(
            tokens, bounds, folder, include=np.ones_like(is_word), weights=np.ones(1), symmetric=False
        ).tocoo()
        second, first, both = pairs.row, pairs.col, pairs.data.astype(np.float64)
    counts = token_counts(tokens, len(is_word)).astype(np.float64)
    counts[~is_word] = 0
    frequent = (np.minimum(counts[first], counts[second]) >= max(1, min_count)) & (both > min_count)
    first, second, both = first[frequent], second[frequent], both[frequent]
    scores = (both - min_count) / counts[first] / counts[second] * counts.sum()
    order = np.lexsort((second, first))
    return coo_array((scores[order], (first[order], second[order])), shape=(len(is_word),) * 2)


@jit
def _merge(
    tokens: Integers, bounds: Ids, starts: Integers, second_words: Integers, phrases: Integers, merged: Integers
) -> Ids:
    """Write the corpus with its phrases merged and return its bounds; each word is part of one phrase only."""
    merged_bounds = np.empty_like(bounds)
    length = 0
    for sentence in range(len(bounds) - 1):
        merged_bounds[sentence] = length
        position = bounds[sentence]
        while position < bounds[sentence + 1]:
            word = tokens[position]
            position += 1
            if position < bounds[sentence + 1]:
                for entry in range(starts[word], starts[word + 1]):
                    if second_words[entry] == tokens[position]:
                        word = phrases[entry]
                        position += 1
                        break
            merged[length] = word
            length += 1
    merged_bounds[-1] = length
    return merged_bounds
