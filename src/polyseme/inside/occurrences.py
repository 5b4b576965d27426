"""Where a word stands in texts, and in which sense if somebody has said so.

Texts are plain lines, or the rows of a table with a column `text`. There the sense is a column `label` or `sense`, and
the place of the word, where it is not simply looked for, a column `index`, which counts words between spaces from 0, or
the columns `start` and `end`, in characters. A column `word` says which word a row is about.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from random import Random
from typing import Any, Literal, Self, TypeVar

from polyseme.config import nearest
from polyseme.errors import ConfigError, DataError
from polyseme.text.corpus import GIVEN, Corpus, Reader
from polyseme.text.records import Record
from polyseme.text.samples import SAMPLES, sample
from polyseme.text.sentences import split_sentences
from polyseme.text.vocabulary import IDEOGRAPHS

Case = Literal["any", "exact"]
Item = TypeVar("Item")

_COLUMNS = ("text", "label", "word", "index", "start", "end")
_LONGEST_LINE = 1000  # characters that are taken as one text; of longer lines each sentence is one
_CONTEXT = 2000  # characters on either side of a word that are read with it
# Ideographs, kana, Thai, Lao, Burmese and Khmer are written without spaces, so a word may stand inside a run of them.
_UNSPACED = re.compile(f"[々〇{IDEOGRAPHS}\U00020000-\U0003ffff\u3040-\u30ff\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]")


@dataclass(frozen=True, kw_only=True)
class Occurrence:
    """A word in a text."""

    text: str
    start: int
    end: int
    sense: str = ""  # empty where nobody has said it

    @classmethod
    def of(cls, text: str, start: int, end: int, sense: str = "") -> Self:
        """One whose text is no longer than what can matter to it."""
        first, last = max(0, start - _CONTEXT), min(len(text), end + _CONTEXT)
        return cls(text=text[first:last], start=start - first, end=end - first, sense=sense)

    @property
    def word(self) -> str:
        """As it is written there."""
        return self.text[self.start : self.end]


class Forms:
    """The forms of a word, between commas, such as bank,banks."""

    def __init__(self, word: str, *, case: Case = "any") -> None:
        self.forms = list(dict.fromkeys(" ".join(form.split()) for form in re.split("[,，]", word) if form.strip()))
        if not self.forms:
            raise ConfigError("there is no word to look for; give one, or several forms of it such as bank,banks")
        longest = sorted(self.forms, key=len, reverse=True)
        pattern = "|".join(r"\s+".join(map(re.escape, form.split(" "))) for form in longest)
        self.pattern = re.compile(pattern, re.IGNORECASE if case == "any" else 0)

    def __str__(self) -> str:
        return ", ".join(self.forms)

    def __contains__(self, word: str) -> bool:
        return self.pattern.fullmatch(word.strip()) is not None

    def find(self, text: str) -> Iterator[tuple[int, int]]:
        """Where they stand as whole words; in scripts without spaces, wherever they stand."""
        for match in self.pattern.finditer(text):
            start, end = match.span()
            if not (_goes_on(text, start) or _goes_on(text, end)):
                yield start, end


def _goes_on(text: str, place: int) -> bool:
    """Whether the letters on both sides of a place belong to one word."""
    return 0 < place < len(text) and all(map(_is_spaced, text[place - 1 : place + 1]))


def _is_spaced(letter: str) -> bool:
    """Whether it is a part of words that spaces divide; marks go with the letters they stand on."""
    part = letter.isalnum() or letter == "_" or unicodedata.category(letter).startswith("M")
    return part and not _UNSPACED.match(letter)


def read_occurrences(
    path: str | Path, forms: Forms, *, columns: Mapping[str, str] | None = None
) -> Iterator[Occurrence]:
    """Those in a file, the files of a folder or pattern, or a sample; `columns` says where things are: text=line."""
    for name in columns or {}:
        if name not in _COLUMNS:
            raise ConfigError(f"{name} is no column of occurrences{nearest(name, _COLUMNS)}")
    num_texts = num_found = 0
    for text, found in chain.from_iterable(_read(Reader(file), forms, columns or {}) for file in _files(path)):
        num_texts += bool(text.strip())
        num_found += len(found)
        yield from found
    if not num_texts:
        raise DataError(f"{path} holds no text; give lines of text, or a table with a column text")
    if not num_found:
        raise DataError(
            f"{forms} stands nowhere in {path} ({num_texts:,} texts); give another word, or its forms: bank,banks"
        )


def given_occurrences(texts: Iterable[Any], forms: Forms) -> Iterator[Occurrence]:
    """Those in texts, in pairs of a text and a sense, or in dictionaries with the columns of a table."""
    if isinstance(texts, Mapping):
        raise ConfigError("one row is no list of rows; write it in brackets")
    found = False
    for number, row in enumerate(texts, start=1):
        if isinstance(row, Occurrence):
            occurrences = [row]
        else:
            values = {"text": row} if isinstance(row, str) else row
            values = values if isinstance(values, Mapping) else dict(zip(("text", "label"), values, strict=False))
            _, occurrences = _of_row(Record(GIVEN, number, values, _placed(values, {}), labelled=False), forms)
        found = found or bool(occurrences)
        yield from occurrences
    if not found:
        raise DataError(f"{forms} stands nowhere in the texts; give another word, or its forms: bank,banks")


def draw(items: Iterable[Item], most: int, seed: int) -> tuple[list[Item], int]:
    """So many of some items, all with the same chance and in their order, and how many there are; 0: all.

    No more are ever held (Vitter's algorithm R).
    """
    held: list[tuple[int, Item]] = []
    chance, total = Random(f"draw {seed}"), 0
    for total, item in enumerate(items, start=1):
        if not most or len(held) < most:
            held.append((total, item))
        elif (place := chance.randrange(total)) < most:
            held[place] = (total, item)
    return [item for _, item in sorted(held, key=lambda pair: pair[0])], total


def place_in(record: Record, text: str, side: str = "") -> tuple[int, int] | None:
    """Where a row says that its word is, if it says so."""
    index, start, end = (record.number(name + side) for name in ("index", "start", "end"))
    if not math.isnan(start) and not math.isnan(end):
        if not 0 <= start < end <= len(text):
            raise record.fault("the word is outside of the text", "correct start and end, counted in characters from 0")
        return int(start), int(end)
    if math.isnan(index):
        return None
    words = text.split(" ")
    if not 0 <= index < len(words) or not words[int(index)]:
        raise record.fault("the text has no such word", "correct the index, counted from 0 between spaces")
    first = sum(len(word) + 1 for word in words[: int(index)])
    return first, first + len(words[int(index)])


def _files(path: str | Path) -> list[Path]:
    given = str(path) in SAMPLES and not Path(path).exists()
    folder = sample(str(path)) if given else Path(path)
    # Where a sample, or a copy of it, has them.
    found = sorted(folder.glob("senses*/train.tsv")) if folder.is_dir() else []
    return found or (sorted(folder.glob("*train.txt")) if given else Corpus(path).files)


def _read(reader: Reader, forms: Forms, columns: Mapping[str, str]) -> Iterator[tuple[str, list[Occurrence]]]:
    """Texts, each with the occurrences in it."""
    if reader.format == "txt":
        for line in chain.from_iterable(map(str.splitlines, reader.documents())):
            for text in split_sentences(line) if len(line) > _LONGEST_LINE else [line]:
                yield text, [Occurrence.of(text, *span) for span in forms.find(text)]
        return
    for number, (row, values) in enumerate(reader.records()):
        placed = _placed(values, columns)
        if not number and placed["text"] not in values:
            raise reader.no_column(placed["text"], filter(None, values))
        yield _of_row(Record(reader.file, row, values, placed, labelled=False), forms)


def _placed(values: Mapping[Any, Any], columns: Mapping[str, str]) -> dict[str, str]:
    sense = {"label": "sense"} if "label" not in values and "sense" in values else {}
    return {"text": "text", **sense, **columns}


def _of_row(record: Record, forms: Forms) -> tuple[str, list[Occurrence]]:
    text, sense = record.text("text"), record.label("label")
    named = None if record.lacks("word") else record.label("word")
    place = place_in(record, text)
    spans: Sequence[tuple[int, int]] = []
    if (named or (text[slice(*place)] if place else forms.forms[0])) in forms:
        spans = [place] if place else list(forms.find(text))
    return text, [Occurrence.of(text, *span, sense) for span in spans]
