"""Tagged sentences in CoNLL columns: a word with its tag on each line, a blank line after each sentence."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from polyseme.corpora.file_readers import FileReader, row_location
from polyseme.datasets.records import RowError, parse_or_error
from polyseme.errors import ConfigError, DataError

TaggedSentence = tuple[int, tuple[str, ...], tuple[str, ...]]  # first line, words, tags (empty if the file has none)


def read_tagged_sentences(
    reader: FileReader, columns: Mapping[str, str], *, labelled: bool
) -> Iterator[TaggedSentence | RowError]:
    """Read the sentences of a file; `columns` gives the numbers of the columns "word" and "tag"."""
    lines = list(reader.texts())
    separator = "\t" if any("\t" in line for line in lines) else None
    num_columns, indices = 0, dict[str, int]()
    sentence: list[tuple[int, list[str]]] = []
    for number, line in enumerate([*lines, ""], start=1):
        if separator and line.startswith("#") and separator not in line:
            continue  # a comment of CoNLL-U; in files without tabs, '#' is a word
        if line.strip() and not line.startswith("-DOCSTART-"):
            sentence.append((number, line.split(separator)))
        elif sentence:
            if not indices:
                row, fields = sentence[0]
                num_columns, indices = len(fields), _column_indices(reader.file, row, fields, columns, labelled)
            yield parse_or_error(_parse_sentence, reader.file, sentence, num_columns, indices, labelled)
            sentence = []


def _column_indices(
    file: Path, row: int, fields: Sequence[str], columns: Mapping[str, str], labelled: bool
) -> dict[str, int]:
    """Resolve the numbers of the word and tag columns, which may count from the end, against the first line."""
    indices, location = {}, row_location(file, row)
    for name in ("word", "tag") if labelled or len(fields) > 1 else ("word",):
        column = columns[name]
        if not re.fullmatch(r"-?[1-9]\d{0,3}", column):
            raise ConfigError(f"{name}: {column!r} is not a column number; count from 1, or from the end with -1")
        indices[name] = int(column) - 1 if int(column) > 0 else len(fields) + int(column)
        if not 0 <= indices[name] < len(fields):
            raise DataError(f"{location}: no column {column} for the {name}; choose one of the {len(fields)} columns")
    if indices["word"] == indices.get("tag"):
        raise DataError(f"{location}: no tag after the word; write both, separated by a tab or a space")
    return indices


def _parse_sentence(
    file: Path, rows: list[tuple[int, list[str]]], num_columns: int, indices: Mapping[str, int], labelled: bool
) -> TaggedSentence:
    words, tags = [], []
    for number, fields in rows:
        if len(fields) != num_columns:
            found = f"{len(fields)} instead of {num_columns}"
            remedy = "write a word and its tag on each line, and a blank line after each sentence"
            raise RowError(row_location(file, number), "wrong number of columns", remedy, found=found)
        word, tag = fields[indices["word"]].strip(), fields[indices["tag"]].strip() if "tag" in indices else ""
        if not word or (labelled and not tag):
            raise RowError(row_location(file, number), "empty word or tag", "write both, or remove the line")
        words.append(word)
        tags.append(tag)
    return rows[0][0], tuple(words), tuple(tags)
