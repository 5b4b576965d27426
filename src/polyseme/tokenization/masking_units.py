"""Masking units: the words, phrases and entities of a text whose tokens are masked together (ERNIE, whole-word)."""

import functools
import hashlib
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from importlib.metadata import version
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import Field

from polyseme.arrays import Flags, Integers
from polyseme.config import Config
from polyseme.corpora.corpus import Corpus
from polyseme.corpora.scripts import HIRAGANA, SEGMENTED_IDEOGRAPHS, SOUTHEAST_ASIAN
from polyseme.errors import DataError
from polyseme.system.io_errors import readable
from polyseme.tokenization.word_segmentation import choose_segmenter, load_segmenter

CACHE_VERSION = 1  # increases when the same text and settings give other units
WORD, PHRASE, ENTITY = 1, 2, 4  # bits of a token that continues the unit of the token before

_MIN_PHRASE_COUNT = 5
_MIN_PMI = 3.0  # nats of pointwise mutual information of a phrase, so that "of the" is none
_MAX_COUNTED = 400_000  # distinct words, and word pairs, counted at a time

Span = tuple[int, int]


class MaskingUnitsConfig(Config):
    """What counts as a unit, for masking by word, n-gram or unit."""

    segmenter: Literal["auto", "rjieba", "jieba", "none"] = "auto"  # Chinese word segmenter
    lexicon: str = ""  # file of words, one per line, that override the segmenter
    entities: str = ""  # file of names, one per line
    phrases: int = Field(0, ge=0)  # number of word pairs with high mutual information to find in the corpus


class MaskingUnits:
    """Finds words, phrases and entities; phrases are counted in `texts` when first needed."""

    def __init__(self, config: MaskingUnitsConfig, texts: Corpus | Sequence[str] = ()) -> None:
        self.config = config
        self.texts = texts
        self.segmenter = choose_segmenter(config.segmenter)
        self.lexicon = _Entries(config.lexicon)
        self.entities = _Entries(config.entities)

    @functools.cached_property
    def fingerprint(self) -> str:
        """A checksum of everything that the units depend on."""
        parts = [str(CACHE_VERSION), self.segmenter, version(self.segmenter) if self.segmenter != "none" else ""]
        parts += [self.lexicon.fingerprint, self.entities.fingerprint, str(self.config.phrases)]
        if self.config.phrases:
            texts = self.texts
            parts += [texts.fingerprint()] if isinstance(texts, Corpus) else texts
        return hashlib.sha256("\n".join(parts).encode("utf-8", "surrogatepass")).hexdigest()

    @functools.cached_property
    def segment(self) -> Callable[[str], Iterable[str]]:
        """Split a run of ideographs into words."""
        return list if self.config.segmenter == "none" else load_segmenter(self.segmenter)

    @functools.cached_property
    def phrases(self) -> frozenset[tuple[str, str]]:
        """Adjacent words with high pointwise mutual information (Church and Hanks, 1990)."""
        if not self.config.phrases:
            return frozenset()
        words, pairs = _LossyCounter(), _LossyCounter()
        for text in self.texts:
            spans = self._find_words(text)
            for start, end in spans:
                words.add(text[start:end])
            for before, span in pairwise(spans):
                if pair := _adjacent_words(text, before, span):
                    pairs.add(pair)
        scores = []
        for (first, second), count in pairs.counts.items():
            product = words.counts[first] * words.counts[second]
            if count >= _MIN_PHRASE_COUNT and product:
                pmi = math.log(count * words.total / product)
                if pmi >= _MIN_PMI:
                    scores.append((-count * pmi, first, second))
        return frozenset((first, second) for _, first, second in sorted(scores)[: self.config.phrases])

    def find(self, text: str) -> dict[int, list[Span]]:
        """Find the spans of each level, in order and without overlap."""
        spans = {WORD: self._find_words(text)}
        if self.phrases:
            spans[PHRASE] = [(run[0][0], run[-1][1]) for run in self._chain(text, spans[WORD]) if len(run) > 1]
        if self.entities.lengths:
            spans[ENTITY] = self.entities.find(text)
        return spans

    def _find_words(self, text: str) -> list[Span]:
        spans: list[Span] = []
        place = 0
        for start, end in [*self.lexicon.find(text), (len(text), len(text))]:
            for match in _word_pattern().finditer(text, place, start):
                if match.lastindex is None:
                    spans.append(match.span())
                else:
                    spans += pairwise(accumulate(map(len, self.segment(match[0])), initial=match.start()))
            if start < end:
                spans.append((start, end))
            place = end
        return spans

    def _chain(self, text: str, words: list[Span]) -> Iterator[list[Span]]:
        """Chain overlapping phrases: New York and York Times give New York Times."""
        run: list[Span] = []
        for span in words:
            if not run or _adjacent_words(text, run[-1], span) not in self.phrases:
                yield run
                run = []
            run.append(span)
        yield run


def mark_continuations(spans: Sequence[Span], starts: Integers, ends: Integers) -> Flags:
    """Which tokens, given by their character offsets, share a span with the token before."""
    bounds = np.array(spans, np.int64).reshape(-1, 2)
    first = np.searchsorted(bounds[:, 1], starts, side="right")  # of the spans that a token overlaps
    last = np.searchsorted(bounds[:, 0], ends, side="left") - 1
    continues = first <= last
    continues[1:] &= continues[:-1] & (first[1:] <= last[:-1])
    continues[:1] = False
    return continues


class _Entries:
    """Words or names of a file, one per line; the longest match wins."""

    def __init__(self, path: str) -> None:
        try:
            with readable(path, "give a file with one entry per line"):
                text = Path(path).expanduser().read_text(encoding="utf-8-sig") if path else ""
        except ValueError:
            raise DataError(f"{path} is not UTF-8; save it as UTF-8 with one entry per line") from None
        entries = (" ".join(line.split()) for line in text.splitlines())
        self.entries = frozenset(entry for entry in entries if len(entry) > 1)  # single characters are units anyway
        lengths: dict[str, set[int]] = {}
        for entry in self.entries:
            lengths.setdefault(entry[:2], set()).add(len(entry))
        self.lengths = {prefix: sorted(found, reverse=True) for prefix, found in lengths.items()}
        self.fingerprint = hashlib.sha256("\n".join(sorted(self.entries)).encode()).hexdigest()

    def find(self, text: str) -> list[Span]:
        """Find entries from left to right; in scripts with spaces, at word boundaries only."""
        if not self.lengths:
            return []
        inside = bytearray(len(text) + 1)  # whether a character offset is inside a word
        for match in _word_pattern().finditer(text):
            if match.lastindex is None:
                start, end = match.span()
                inside[start + 1 : end] = b"\1" * (end - start - 1)
        spans, place = [], 0
        while place < len(text):
            lengths = self.lengths.get(text[place : place + 2], ()) if not inside[place] else ()
            ends = (place + length for length in lengths if place + length <= len(text))
            end = next((end for end in ends if not inside[end] and text[place:end] in self.entries), 0)
            if end:
                spans.append((place, end))
            place = end or place + 1
        return spans


class _LossyCounter:
    """Counts in bounded memory: when there are too many, the rarest are dropped (Manku and Motwani, 2002)."""

    def __init__(self) -> None:
        self.counts: Counter[Any] = Counter()
        self.total = 0
        self.max_dropped = 0

    def add(self, item: Hashable) -> None:
        self.total += 1
        self.counts[item] += 1
        while len(self.counts) > _MAX_COUNTED:
            self.max_dropped += 1
            self.counts = Counter({item: count for item, count in self.counts.items() if count > self.max_dropped})


def _adjacent_words(text: str, before: Span, span: Span) -> tuple[str, str] | None:
    """Two words, if there is nothing or one space between them."""
    first, gap, second = text[slice(*before)], text[before[1] : span[0]], text[slice(*span)]
    return (first, second) if gap in ("", " ") and first[0].isalpha() and second[0].isalpha() else None


@functools.cache
def _word_pattern() -> re.Pattern[str]:
    """A run of ideographs, as a group; a word; or any other character with its combining marks."""
    marks = "".join(mark for mark in map(chr, range(0x300, 0x1F000)) if unicodedata.category(mark)[0] == "M")
    marks += "\U000e0100-\U000e01ef"
    letter = rf"[^\W_{SEGMENTED_IDEOGRAPHS}{SOUTHEAST_ASIAN}{HIRAGANA}]"
    return re.compile(rf"([{SEGMENTED_IDEOGRAPHS}]+)|{letter}+(?:[{marks}]+{letter}*)*|\S[{marks}\u200d]*")
