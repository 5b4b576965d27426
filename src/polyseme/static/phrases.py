"""Phrases: words that stand together more often than chance has it become one, as `new_york` (Mikolov et al., 2013).

The score of a and b is (count(a b) - min_count) / (count(a) count(b)), times the number of words, so that the same
threshold serves for every text. Each pass joins the pairs above its threshold from left to right, and a pass over what
is joined finds longer phrases.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array

from polyseme.files import cache_folder
from polyseme.kernels import compiled
from polyseme.static.counts import count_pairs
from polyseme.text.corpus import Corpus
from polyseme.text.store import prepare
from polyseme.text.tokenizer import Tokenizer
from polyseme.text.vocabulary import TokenizerConfig, guarded, mend

Integers = NDArray[np.integer[Any]]

_MOST_WORDS = 10_000_000
_STRETCH = 1 << 22  # tokens that are counted at once
_NO_WORD = -1
_PUT_IN = "\v"  # white space that was not in the text


@dataclass(frozen=True, eq=False, kw_only=True)
class Joined:
    """A text whose phrases have ids of their own, from the size of the vocabulary on."""

    tokens: Integers
    bounds: NDArray[np.int64]
    pairs: NDArray[np.int64]  # (P, 2), the two ids that each phrase was made of
    scores: NDArray[np.float64]  # (P,)
    passes: tuple[int, ...] = (0,)  # which phrase is the first of each pass, and how many there are

    def names(self, words: Sequence[str]) -> list[str]:
        """What each id is called, given what the words are."""
        names = list(words)
        for first, second in self.pairs.tolist():
            names.append(f"{names[first]}_{names[second]}")
        return names


@dataclass(frozen=True, kw_only=True)
class Phrase:
    """Words that became one, how much better than chance, and how often they were joined."""

    name: str
    score: float
    count: int


class Phrases:
    """The phrases of a corpus, and what joins them in its texts."""

    def __init__(self, tokenizer: Tokenizer, joined: Joined) -> None:
        self.tokenizer = tokenizer
        self.joined = joined
        self.words = _Words(tokenizer)
        pairs = [(first, second) for first, second in joined.pairs.tolist()]
        self.passes = [
            {pairs[number]: tokenizer.vocab_size + number for number in range(first, end)}
            for first, end in pairwise(joined.passes)
        ]

    @classmethod
    def find(cls, corpus: Corpus, *, min_count: int = 5, thresholds: Sequence[float] = (100.0,)) -> Self:
        """Look for phrases, one pass for each threshold; what is rarer than `min_count` is in none."""
        config = TokenizerConfig(kind="word", specials="plain", segmenter="auto", min_count=max(1, min_count))
        tokenizer = Tokenizer.train(config, corpus, vocab_size=_MOST_WORDS)
        store = prepare(corpus, tokenizer)
        names = map(tokenizer.token, range(tokenizer.vocab_size))
        words = np.array([any(map(str.isalnum, name)) for name in names])
        words[list(tokenizer.special_ids)] = False
        joined = join_phrases(store.tokens, store.sentences, words=words, min_count=min_count, thresholds=thresholds)
        return cls(tokenizer, joined)

    def best(self) -> list[Phrase]:
        """All phrases that were joined, those first that have the highest scores."""
        size = self.tokenizer.vocab_size
        names = self.joined.names([self.tokenizer.token(id) for id in range(size)])[size:]
        counts = _count(self.joined.tokens, size + len(names))[size:]
        order = np.argsort(-self.joined.scores, kind="stable")
        found = [Phrase(name=names[n], score=float(self.joined.scores[n]), count=int(counts[n])) for n in order]
        return [phrase for phrase in found if phrase.count]

    def join(self, text: str) -> str:
        """A sentence with its phrases joined, and else as it was."""
        spaced, places = self.tokenizer.spacing.place(mend(text))
        if len(places):
            characters = np.frombuffer(spaced.encode("utf-32-le"), "<u4").copy()
            characters[places] = ord(_PUT_IN)
            spaced = characters.tobytes().decode("utf-32-le")
        pieces = guarded(self.tokenizer.backend.pre_tokenizer.pre_tokenize_str, spaced)
        ids, firsts = [self.words[piece] for piece, _ in pieces], list(range(len(pieces) + 1))
        for phrases in self.passes:
            _join_ids(ids, firsts, phrases)
        parts, end = [], 0
        for first, last in pairwise(firsts):
            if last > first + 1:
                phrase = "_".join(piece for piece, _ in pieces[first:last])
                parts += [spaced[end : pieces[first][1][0]], f"{_PUT_IN}{phrase}{_PUT_IN}"]
                end = pieces[last - 1][1][1]
        if not parts:
            return text
        # Of the white space that was put in, only that beside a phrase stays.
        return "".join([*parts, spaced[end:]]).replace(2 * _PUT_IN, " ").replace(_PUT_IN, "")


class _Words(dict[str, int]):
    """The ids of words as they are written in a text, each looked up once."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.vocabulary = tokenizer.backend.get_vocab()
        self.normalize: Callable[[str], str] = tokenizer.backend.normalizer.normalize_str

    def __missing__(self, word: str) -> int:
        return self.setdefault(word, self.vocabulary.get(guarded(self.normalize, word), _NO_WORD))


def _join_ids(ids: list[int], firsts: list[int], phrases: Mapping[tuple[int, int], int]) -> None:
    """Join pairs from left to right, as `_join` does; what is joined begins where its first part began."""
    places: list[int] = []
    for place, pair in enumerate(pairwise(ids)):
        if pair in phrases and (not places or place > places[-1] + 1):
            places.append(place)
    for place in reversed(places):
        ids[place : place + 2] = [phrases[ids[place], ids[place + 1]]]
        del firsts[place + 1]


def join_phrases(
    tokens: Integers,
    bounds: Integers,
    *,
    words: NDArray[np.bool_],
    min_count: int = 5,
    thresholds: Sequence[float] = (100.0,),
) -> Joined:
    """Join pairs of `words` (V,) that stand between the same two bounds, one pass for each threshold."""
    joined = Joined(tokens=tokens, bounds=bounds.astype(np.int64), pairs=np.zeros((0, 2), np.int64), scores=np.zeros(0))
    for threshold in thresholds:
        size = len(words) + len(joined.pairs)
        kept = np.concatenate([words, np.ones(size - len(words), np.bool_)])
        found = score_pairs(joined.tokens, joined.bounds, kept, min_count)
        good = found.data > threshold
        pairs = np.stack([found.row[good], found.col[good]], axis=1).astype(np.int64)
        table = csr_array((size + np.arange(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(size, size))
        starts = np.empty_like(joined.bounds)
        with _beside() as folder:  # a file without a name lasts as long as what is mapped of it
            after = np.memmap(folder / "tokens", np.uint32, "w+", shape=(len(joined.tokens) + 1,))
        length = _join(joined.tokens, joined.bounds, table.indptr, table.indices, table.data, after, starts)
        pairs = np.concatenate([joined.pairs, pairs])
        scores = np.concatenate([joined.scores, found.data[good]])
        joined = Joined(
            tokens=after[:length], bounds=starts, pairs=pairs, scores=scores, passes=(*joined.passes, len(pairs))
        )
    return joined


@contextmanager
def _beside() -> Iterator[Path]:
    """A folder for what memory should not hold."""
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder) as beside:
        yield Path(beside)


def _count(tokens: Integers, size: int) -> NDArray[np.int64]:
    counts = np.zeros(size, np.int64)
    for start in range(0, len(tokens), _STRETCH):
        counts += np.bincount(tokens[start : start + _STRETCH], minlength=size)
    return counts


def score_pairs(tokens: Integers, bounds: Integers, words: NDArray[np.bool_], min_count: int) -> coo_array:
    """How much more often than by chance the word of a row stands before that of a column, (V, V)."""
    with _beside() as folder:
        pairs = count_pairs(
            tokens, bounds, folder / "pairs", kept=np.ones_like(words), weights=np.ones(1), symmetric=False
        ).tocoo()
        seconds, firsts, both = pairs.row, pairs.col, pairs.data.astype(np.float64)
    counts = _count(tokens, len(words)).astype(np.float64)
    counts[~words] = 0
    common = (np.minimum(counts[firsts], counts[seconds]) >= max(1, min_count)) & (both > min_count)
    firsts, seconds, both = firsts[common], seconds[common], both[common]
    scores = (both - min_count) / counts[firsts] / counts[seconds] * counts.sum()
    order = np.lexsort((seconds, firsts))
    return coo_array((scores[order], (firsts[order], seconds[order])), shape=(len(words),) * 2)


@compiled
def _join(
    tokens: Integers,
    bounds: Integers,
    starts: Integers,
    seconds: Integers,
    phrases: Integers,
    joined: Integers,
    joined_bounds: Integers,
) -> int:
    """Write the text with its phrases; the second word of a phrase does not begin another."""
    length = 0
    for number in range(len(bounds) - 1):
        joined_bounds[number] = length
        place = bounds[number]
        while place < bounds[number + 1]:
            word = tokens[place]
            place += 1
            if place < bounds[number + 1]:
                for entry in range(starts[word], starts[word + 1]):
                    if seconds[entry] == tokens[place]:
                        word = phrases[entry]
                        place += 1
                        break
            joined[length] = word
            length += 1
    joined_bounds[-1] = length
    return length
