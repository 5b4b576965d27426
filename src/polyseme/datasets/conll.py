"""Tagged sentences in CoNLL columns: a word with its tag on each line, a blank line after each sentence."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from polyseme.corpora.file_readers import FileReader, row_location
from polyseme.datasets.records import RowError, parse_or_error
from polyseme.errors import ConfigError, DataError


@dataclass(frozen=True, slots=True)
class TaggedSentence:
    """The words of a sentence with their tags, which are empty if the file has none."""

    row: int  # its first line
    words: tuple[str, ...]
    tags: tuple[str, ...]


def read_tagged_sentences(
    reader: FileReader, columns: Mapping[str, str], *, labelled: bool
) -> Iterator[TaggedSentence | RowError]:
    """Read the sentences of a file; `columns` gives the numbers of the columns "word" and "tag"."""
    lines = list(reader.texts())
    separator = "\t" if any("\t" in line for line in lines) else None
    layout: _ColumnLayout | None = None
    sentence: list[tuple[int, list[str]]] = []
    for number, line in enumerate([*lines, ""], start=1):
        if separator and line.startswith("#") and separator not in line:
            continue  # a comment of CoNLL-U; in files without tabs, '#' is a word
        if line.strip() and not line.startswith("-DOCSTART-"):
            sentence.append((number, line.split(separator)))
        elif sentence:
            layout = layout or _ColumnLayout.of(reader.file, *sentence[0], columns, labelled)
            yield parse_or_error(_parse_sentence, reader.file, sentence, layout)
            sentence = []


@dataclass(frozen=True)
class _ColumnLayout:
    """Which columns hold the word and its tag."""

    num_columns: int
    labelled: bool
    word: int
    tag: int | None = None

    @classmethod
    def of(cls, file: Path, row: int, fields: Sequence[str], columns: Mapping[str, str], labelled: bool) -> Self:
        """Resolve column numbers, which may count from the end, against the first line."""
        indices, location = {}, row_location(file, row)
        for name in ("word", "tag") if labelled or len(fields) > 1 else ("word",):
            column = columns[name]
            if not re.fullmatch(r"-?[1-9]\d{0,3}", column):
                raise ConfigError(f"{name}: {column!r} is not a column number; count from 1, or from the end with -1")
            indices[name] = int(column) - 1 if int(column) > 0 else len(fields) + int(column)
            if not 0 <= indices[name] < len(fields):
                raise DataError(
                    f"{location}: no column {column} for the {name}; choose one of the {len(fields)} columns"
                )
        if indices["word"] == indices.get("tag"):
            raise DataError(f"{location}: no tag after the word; write both, separated by a tab or a space")
        return cls(len(fields), labelled, **indices)


def _parse_sentence(file: Path, rows: list[tuple[int, list[str]]], layout: _ColumnLayout) -> TaggedSentence:
    words, tags = [], []
    for number, fields in rows:
        if len(fields) != layout.num_columns:
            found = f"{len(fields)} instead of {layout.num_columns}"
            remedy = "write a word and its tag on each line, and a blank line after each sentence"
            raise RowError(row_location(file, number), "wrong number of columns", remedy, found=found)
        word, tag = fields[layout.word].strip(), "" if layout.tag is None else fields[layout.tag].strip()
        if not word or (layout.labelled and not tag):
            raise RowError(row_location(file, number), "empty word or tag", "write both, or remove the line")
        words.append(word)
        tags.append(tag)
    return TaggedSentence(row=rows[0][0], words=tuple(words), tags=tuple(tags))
