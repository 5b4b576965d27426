"""Units: the spans of a text that belong together and are hidden together, as words, phrases and entities."""

import functools
import hashlib
import logging
import math
import re
import unicodedata
import warnings
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import Field

from polyseme.config import Config
from polyseme.errors import ConfigError, DataError
from polyseme.files import cache_folder
from polyseme.text.corpus import Corpus
from polyseme.text.utf16 import Flags, Numbers
from polyseme.text.vocabulary import IDEOGRAPHS

logger = logging.getLogger(__name__)

FORMAT = 1  # counts changes of what counts as a unit
WORD, PHRASE, ENTITY = 1, 2, 4  # bits that a token has when it goes on with what the token before belongs to

_IDEOGRAPHS = f"々〇{IDEOGRAPHS}\U00020000-\U0003ffff"
_SPACELESS = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u309f"  # Thai, Lao, Burmese, Khmer, hiragana
_FEWEST = 5  # times that a phrase must be met
_LEAST_INFORMATION = 3.0  # nats by which its words attract each other, so that "of the" is none
_MOST_COUNTED = 400_000  # different words, and pairs of words, that are counted at a time

Span = tuple[int, int]


class UnitsConfig(Config):
    """What belongs together in a text, for masking by word, ngram or unit."""

    segmenter: Literal["auto", "rjieba", "jieba", "none"] = "auto"  # what finds the words of Chinese
    lexicon: str = ""  # file of words, one a line, that are words whatever the segmenter says
    entities: str = ""  # file of names, one a line
    phrases: int = Field(0, ge=0)  # how many pairs of words that attract each other to learn from the corpus


class Units:
    """Finds words, phrases and entities; phrases are learned from `texts` when they are first needed."""

    def __init__(self, config: UnitsConfig, texts: Corpus | Sequence[str] = ()) -> None:
        self.config = config
        self.texts = texts
        self.segmenter = choose_segmenter(config.segmenter)
        self.lexicon = _Entries(_lines(config.lexicon))
        self.entities = _Entries(_lines(config.entities))

    @functools.cached_property
    def fingerprint(self) -> str:
        """A checksum of all that decides what is found."""
        parts = [str(FORMAT), self.segmenter, version(self.segmenter) if self.segmenter != "none" else ""]
        parts += [self.lexicon.fingerprint, self.entities.fingerprint, str(self.config.phrases)]
        if self.config.phrases:
            texts = self.texts
            parts += [texts.fingerprint()] if isinstance(texts, Corpus) else texts
        return hashlib.sha256("\n".join(parts).encode("utf-8", "surrogatepass")).hexdigest()

    @functools.cached_property
    def segment(self) -> Callable[[str], Iterable[str]]:
        """What cuts a stretch of ideographs into words."""
        return load_segmenter(self.segmenter, quiet=self.config.segmenter == "none")

    @functools.cached_property
    def pairs(self) -> frozenset[tuple[str, str]]:
        """Neighbours that make a phrase: those that say most about each other (Church and Hanks, 1990)."""
        if not self.config.phrases:
            return frozenset()
        words, pairs = _Tally(), _Tally()
        for text in self.texts:
            before = None
            for span in self._words(text):
                words.add(text[slice(*span)])
                if before and (pair := _neighbours(text, before, span)):
                    pairs.add(pair)
                before = span
        scores = []
        for (first, second), count in pairs.counts.items():
            expected = words.counts[first] * words.counts[second]
            if count >= _FEWEST and expected:
                information = math.log(count * words.total / expected)
                if information >= _LEAST_INFORMATION:
                    scores.append((-count * information, first, second))
        return frozenset((first, second) for _, first, second in sorted(scores)[: self.config.phrases])

    def find(self, text: str) -> dict[int, list[Span]]:
        """The spans of each level in order; those of one level do not overlap."""
        found = {WORD: self._words(text)}
        if self.pairs:
            found[PHRASE] = [(run[0][0], run[-1][1]) for run in self._runs(text, found[WORD]) if len(run) > 1]
        if self.entities.lengths:
            found[ENTITY] = self.entities.find(text)
        return found

    def _words(self, text: str) -> list[Span]:
        spans: list[Span] = []
        place = 0
        for start, end in [*self.lexicon.find(text), (len(text), len(text))]:
            for match in _pattern().finditer(text, place, start):
                if match.lastindex is None:
                    spans.append(match.span())
                else:
                    begin = match.start()
                    for word in self.segment(match[0]):
                        spans.append((begin, begin + len(word)))
                        begin += len(word)
            if start < end:
                spans.append((start, end))
            place = end
        return spans

    def _runs(self, text: str, words: list[Span]) -> Iterator[list[Span]]:
        """Neighbours that are phrases, chained: New York, York Times give New York Times."""
        run: list[Span] = []
        for span in words:
            if not run or _neighbours(text, run[-1], span) not in self.pairs:
                yield run
                run = []
            run.append(span)
        yield run


def align(spans: Sequence[Span], starts: Numbers, ends: Numbers) -> Flags:
    """Which tokens, given by their characters, share a span with the token before."""
    if not len(spans):
        return np.zeros(len(starts), np.bool_)
    bounds = np.array(spans, np.int64)
    first = np.searchsorted(bounds[:, 1], starts, side="right")  # of the spans that a token overlaps
    last = np.searchsorted(bounds[:, 0], ends, side="left") - 1
    goes_on = first <= last
    goes_on[1:] &= goes_on[:-1] & (first[1:] <= last[:-1])
    goes_on[:1] = False
    return goes_on


class _Entries:
    """Words or names from a file, found where they are longest."""

    def __init__(self, entries: Iterable[str]) -> None:
        self.entries = frozenset(entry for entry in entries if len(entry) > 1)  # one character is whole anyway
        lengths: dict[str, set[int]] = {}
        for entry in self.entries:
            lengths.setdefault(entry[:2], set()).add(len(entry))
        self.lengths = {start: sorted(found, reverse=True) for start, found in lengths.items()}
        self.fingerprint = hashlib.sha256("\n".join(sorted(self.entries)).encode()).hexdigest()

    def find(self, text: str) -> list[Span]:
        """Where they stand, from left to right; where words have spaces between them, at the bounds of words."""
        if not self.lengths:
            return []
        inside = bytearray(len(text) + 1)  # whether a place is within a word
        for match in _pattern().finditer(text):
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


class _Tally:
    """Counts in bounded memory: when there are too many, the rarest are forgotten (Manku and Motwani, 2002)."""

    def __init__(self) -> None:
        self.counts: Counter[Any] = Counter()
        self.total = 0
        self.rarest = 0

    def add(self, thing: Hashable) -> None:
        self.total += 1
        self.counts[thing] += 1
        while len(self.counts) > _MOST_COUNTED:
            self.rarest += 1
            self.counts = Counter({thing: count for thing, count in self.counts.items() if count > self.rarest})


def _neighbours(text: str, before: Span, span: Span) -> tuple[str, str] | None:
    """Two words with nothing or a space between them."""
    first, gap, second = text[slice(*before)], text[before[1] : span[0]], text[slice(*span)]
    return (first, second) if gap in ("", " ") and first[0].isalpha() and second[0].isalpha() else None


@functools.cache
def _pattern() -> re.Pattern[str]:
    """A stretch of ideographs, which is a group; a word; or any one character with its marks."""
    marks = "".join(letter for letter in map(chr, range(0x300, 0x1F000)) if unicodedata.category(letter)[0] == "M")
    marks += "\U000e0100-\U000e01ef"
    letter = rf"[^\W_{_IDEOGRAPHS}{_SPACELESS}]"
    return re.compile(rf"([{_IDEOGRAPHS}]+)|{letter}+(?:[{marks}]+{letter}*)*|\S[{marks}\u200d]*")


def _lines(path: str) -> list[str]:
    """What a file has on its lines."""
    if not path:
        return []
    try:
        text = Path(path).expanduser().read_text(encoding="utf-8-sig")
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror}); give a file with an entry a line") from None
    except ValueError:
        raise DataError(f"{path} is not UTF-8; save it as UTF-8 with an entry a line") from None
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


def choose_segmenter(name: str, *, group: str = "data") -> str:
    """The segmenter that a setting stands for on this machine."""
    wanted = ("rjieba", "jieba") if name == "auto" else (name,)
    found = next((module for module in wanted if module == "none" or find_spec(module)), None)
    if found is None and name != "auto":
        raise ConfigError(f"{group}.segmenter: {name} is not installed; pip install 'polyseme[chinese]', or say auto")
    return found or "none"


def load_segmenter(name: str, *, quiet: bool = False) -> Callable[[str], Iterable[str]]:
    """What cuts a run of ideographs into words; a complaint unless it is `quiet` that there is nothing to do so."""
    if name == "rjieba":
        import rjieba

        return rjieba.cut
    if name == "jieba":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import jieba
        jieba.setLogLevel(logging.WARNING)
        segmenter = jieba.Tokenizer()
        cache_folder().mkdir(parents=True, exist_ok=True)
        segmenter.tmp_dir = str(cache_folder())  # where nobody else can leave a dictionary for us
        return segmenter.cut  # type: ignore[no-any-return]
    return list if quiet else _one_by_one


def _one_by_one(stretch: str) -> list[str]:
    _miss_segmenter()
    return list(stretch)


@functools.cache
def _miss_segmenter() -> None:
    logger.warning("no segmenter is installed, so each ideograph is a word; pip install 'polyseme[chinese]'")
