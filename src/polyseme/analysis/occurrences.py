"""Occurrences of a word in texts, with sense annotations if there are any.

Texts are plain lines, or rows of a table with the column `text`. The sense is in the column `label` or `sense`. The
occurrence is found by search, or given by the column `index` (of space-separated words, from 0) or the columns `start`
and `end` (in characters). The column `word` restricts a row to a word.
"""

import math
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from random import Random
from typing import Any, Literal, Self, TypeVar

from polyseme.config import suggest_name
from polyseme.corpora.corpus import Corpus
from polyseme.corpora.file_readers import IN_MEMORY, FileReader
from polyseme.corpora.scripts import UNSPACED
from polyseme.corpora.sentence_splitting import split_sentences
from polyseme.datasets.builtin import is_sample, sample_folder
from polyseme.datasets.records import Record
from polyseme.errors import ConfigError, DataError

CaseMatching = Literal["any", "exact"]
Item = TypeVar("Item")

_COLUMNS = ("text", "label", "word", "index", "start", "end")
_MAX_LINE = 1000  # characters; longer lines are split into sentences
_CONTEXT = 2000  # characters kept on either side of a word
_UNSPACED = re.compile(f"[{UNSPACED}]")


@dataclass(frozen=True, kw_only=True)
class Occurrence:
    """An occurrence of a word in a text."""

    text: str
    start: int
    end: int
    sense: str = ""  # empty if it is not annotated

    @classmethod
    def of(cls, text: str, start: int, end: int, sense: str = "") -> Self:
        """An occurrence with at most `_CONTEXT` characters of context on either side."""
        first, last = max(0, start - _CONTEXT), min(len(text), end + _CONTEXT)
        return cls(text=text[first:last], start=start - first, end=end - first, sense=sense)

    @property
    def word(self) -> str:
        """The word as written in the text."""
        return self.text[self.start : self.end]


class WordForms:
    """The forms of a word, separated by commas: bank,banks."""

    def __init__(self, word: str, *, case: CaseMatching = "any") -> None:
        self.forms = list(dict.fromkeys(" ".join(form.split()) for form in re.split("[,，]", word) if form.strip()))
        if not self.forms:
            raise ConfigError("the word is empty; pass a word, or several forms separated by commas: bank,banks")
        longest = sorted(self.forms, key=len, reverse=True)
        pattern = "|".join(r"\s+".join(map(re.escape, form.split(" "))) for form in longest)
        self.pattern = re.compile(pattern, re.IGNORECASE if case == "any" else 0)

    def __str__(self) -> str:
        return ", ".join(self.forms)

    def __contains__(self, word: str) -> bool:
        return self.pattern.fullmatch(word.strip()) is not None

    def find(self, text: str) -> Iterator[tuple[int, int]]:
        """Find the forms as whole words, or anywhere in scripts that are written without spaces."""
        for match in self.pattern.finditer(text):
            start, end = match.span()
            if not (_is_within_word(text, start) or _is_within_word(text, end)):
                yield start, end


def _is_within_word(text: str, position: int) -> bool:
    """Whether the characters on both sides of a position belong to the same word."""
    return 0 < position < len(text) and all(map(_is_word_character, text[position - 1 : position + 1]))


def _is_word_character(character: str) -> bool:
    """Whether a character is part of space-separated words; combining marks are."""
    part = character.isalnum() or character == "_" or unicodedata.category(character).startswith("M")
    return part and not _UNSPACED.match(character)


def read_occurrences(
    path: str | Path, forms: WordForms, *, columns: Mapping[str, str] | None = None
) -> Iterator[Occurrence]:
    """Find occurrences in a file, the files of a folder or pattern, or a sample; `columns` renames columns:
    text=line."""
    for name in columns or {}:
        if name not in _COLUMNS:
            raise ConfigError(f"{name!r} is not a column of occurrences{suggest_name(name, _COLUMNS)}")
    num_texts = num_found = 0
    for text, found in chain.from_iterable(_read(FileReader(file), forms, columns or {}) for file in _files(path)):
        num_texts += bool(text.strip())
        num_found += len(found)
        yield from found
    if not num_texts:
        raise DataError(f"{path} contains no text; use lines of text, or a table with the column text")
    if not num_found:
        raise DataError(
            f"{forms} does not occur in {path} ({num_texts:,} texts); try another word, or more forms: bank,banks"
        )


def parse_occurrences(texts: Iterable[Any], forms: WordForms) -> Iterator[Occurrence]:
    """Find occurrences in texts, in pairs (text, sense), or in dictionaries with the columns of a table."""
    if isinstance(texts, Mapping):
        raise ConfigError("texts must be a list of rows; put the row in brackets")
    found = False
    for number, row in enumerate(texts, start=1):
        if isinstance(row, Occurrence):
            occurrences = [row]
        else:
            values = {"text": row} if isinstance(row, str) else row
            values = values if isinstance(values, Mapping) else dict(zip(("text", "label"), values, strict=False))
            record = Record(IN_MEMORY, number, values, _column_names(values, {}), labelled=False)
            _, occurrences = _parse_row(record, forms)
        found = found or bool(occurrences)
        yield from occurrences
    if not found:
        raise DataError(f"{forms} does not occur in the texts; try another word, or more forms: bank,banks")


def reservoir_sample(items: Iterable[Item], max_items: int, seed: int) -> tuple[list[Item], int]:
    """A uniform sample of at most `max_items` (0: all) in their order, and the total number.

    Uses constant memory (Vitter's algorithm R).
    """
    sample: list[tuple[int, Item]] = []
    rng, total = Random(f"draw {seed}"), 0
    for total, item in enumerate(items, start=1):
        if not max_items or len(sample) < max_items:
            sample.append((total, item))
        elif (slot := rng.randrange(total)) < max_items:
            sample[slot] = (total, item)
    return [item for _, item in sorted(sample, key=lambda pair: pair[0])], total


def read_position(record: Record, text: str, suffix: str = "") -> tuple[int, int] | None:
    """The position of the word that a row gives, if it does."""
    index, start, end = (record.number(name + suffix) for name in ("index", "start", "end"))
    if not math.isnan(start) and not math.isnan(end):
        if not 0 <= start < end <= len(text):
            raise record.error("the word is outside of the text", "correct start and end, counted in characters from 0")
        return int(start), int(end)
    if math.isnan(index):
        return None
    words = text.split(" ")
    if not 0 <= index < len(words) or not words[int(index)]:
        raise record.error("the text has no such word", "correct the index, counted from 0 between spaces")
    first = sum(len(word) + 1 for word in words[: int(index)])
    return first, first + len(words[int(index)])


def _files(path: str | Path) -> list[Path]:
    folder = sample_folder(str(path)) if is_sample(path) else Path(path)
    # The layout of a sample, or of a copy of one.
    files = sorted(folder.glob("senses*/train.tsv")) if folder.is_dir() else []
    return files or (sorted(folder.glob("*train.txt")) if is_sample(path) else Corpus(path).files)


def _read(reader: FileReader, forms: WordForms, columns: Mapping[str, str]) -> Iterator[tuple[str, list[Occurrence]]]:
    """Texts and their occurrences."""
    if reader.format == "txt":
        for line in chain.from_iterable(map(str.splitlines, reader.documents())):
            for text in split_sentences(line) if len(line) > _MAX_LINE else [line]:
                yield text, [Occurrence.of(text, *span) for span in forms.find(text)]
        return
    for row, values in reader.records([columns.get("text", "text")]):
        names = _column_names(values, columns)
        yield _parse_row(Record(reader.file, row, values, names, labelled=False), forms)


def _column_names(values: Mapping[Any, Any], columns: Mapping[str, str]) -> dict[str, str]:
    sense = {"label": "sense"} if "label" not in values and "sense" in values else {}
    return {"text": "text", **sense, **columns}


def _parse_row(record: Record, forms: WordForms) -> tuple[str, list[Occurrence]]:
    text, sense = record.text("text"), record.label("label")
    named = None if record.is_missing("word") else record.label("word")
    position = read_position(record, text)
    spans: Sequence[tuple[int, int]] = []
    if (named or (text[slice(*position)] if position else forms.forms[0])) in forms:
        spans = [position] if position else list(forms.find(text))
    return text, [Occurrence.of(text, *span, sense) for span in spans]
