"""A row of labelled data, and what every example made of one is: it knows the file and row that it came from."""

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

from polyseme.errors import DataError
from polyseme.text.corpus import Reader, place_of

Form = TypeVar("Form", bound="Example")


class RowError(DataError):
    """A row that cannot be used."""

    def __init__(self, place: str, wrong: str, remedy: str, *, found: str = "") -> None:
        super().__init__(f"{place}: {wrong}{f' ({found})' if found else ''}; {remedy}")
        self.place, self.wrong, self.remedy = place, wrong, remedy  # rows with the same fault have it in the same words


@dataclass(frozen=True, slots=True)
class Record:
    """A row of a table, which is asked by our names for what stands under its own."""

    file: Path
    row: int
    values: Mapping[str | None, Any]
    columns: Mapping[str, str]
    labelled: bool = True  # else what a model should say may be missing

    def column(self, name: str) -> str:
        """Where it stands."""
        return self.columns.get(name, name)

    def lacks(self, name: str) -> bool:
        """Whether it is missing, and may be."""
        return not self.labelled and _is_nothing(self.values.get(self.column(name)))

    def value(self, name: str) -> Any:
        """Whatever it is, but not nothing."""
        if None in self.values:
            raise self.fault("more fields than columns", "look for a tab, a comma or a quotation mark inside a text")
        value = self.values.get(self.column(name))
        if _is_nothing(value):
            raise self.fault(f"the column {self.column(name)!r} is empty", "give it a value or drop the row")
        return value

    def text(self, name: str) -> str:
        """Text as it stands there."""
        value = self.value(name)
        if not isinstance(value, str):
            raise self.fault(f"the column {self.column(name)!r} is not text", "write text, or name another column")
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of texts, which CSV and TSV have as JSON; an empty one if it is anything else."""
        value = self.value(name)
        if isinstance(value, str):
            try:
                value = json.loads(value)
            except (ValueError, RecursionError):
                return ()
        texts = isinstance(value, list | tuple) and all(isinstance(text, str) and text.strip() for text in value)
        return tuple(value) if texts else ()

    def label(self, name: str) -> str:
        """The name of a class, which may be a number."""
        if self.lacks(name):
            return ""
        value = self.value(name)
        if not isinstance(value, str | int | float):
            raise self.fault(f"the column {self.column(name)!r} is no label", "write a word or a number")
        return str(value).strip()

    def number(self, name: str) -> float:
        """A finite number."""
        if self.lacks(name):
            return math.nan
        value = self.value(name)
        try:
            number = math.nan if isinstance(value, bool) else float(value)
        except (ValueError, TypeError, OverflowError):
            number = math.nan
        if not math.isfinite(number):
            wrong = f"the column {self.column(name)!r} is no number"
            raise self.fault(wrong, "write one such as 3.5", found=f"{value!r:.60}")
        return number

    def fault(self, wrong: str, remedy: str, *, found: str = "") -> RowError:
        """What is wrong with the row."""
        return RowError(place_of(self.file, self.row), wrong, remedy, found=found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """What a model reads, and what it should answer."""

    columns: ClassVar[Mapping[str, str]]  # what it is made of, and where that is if nothing else is said
    given: ClassVar[tuple[str, ...]]  # what a model is told of it

    file: Path
    row: int  # its first line; of Parquet the row and of SQuAD the question, counted from 1

    @property
    def place(self) -> str:
        """Where it came from, as a message says it."""
        return place_of(self.file, self.row)

    @property
    def texts(self) -> tuple[str, ...]:
        """Everything that is read."""
        raise NotImplementedError

    @property
    def labels(self) -> tuple[str, ...]:
        """The classes that it belongs to."""
        raise NotImplementedError

    @classmethod
    def read(cls, reader: Reader, columns: Mapping[str, str], *, labelled: bool = True) -> Iterator[Self | RowError]:
        """The examples of a file, and what stands in the way of others."""
        return cls.read_rows(reader, columns, labelled=labelled)

    @classmethod
    def read_rows(cls, reader: Reader, columns: Mapping[str, str], *, labelled: bool) -> Iterator[Self | RowError]:
        """Those of a table, or of plain lines."""
        needed = [*columns.values()] if labelled else [columns.get(name, name) for name in cls.given]
        plain = not labelled and is_plain(reader) and needed == [*cls.given]
        for number, (row, values) in enumerate(cls._lines(reader) if plain else reader.records()):
            for column in () if number else needed:
                if column not in values:
                    raise reader.no_column(column, filter(None, values))
            yield attempt(cls.parse, Record(reader.file, row, values, columns, labelled))

    @classmethod
    def _lines(cls, reader: Reader) -> Iterator[tuple[int, Mapping[str | None, Any]]]:
        for number, line in enumerate(reader.rows(), start=1):
            if line.strip():
                yield number, cls.named(line.split("\t") if len(cls.given) > 1 else line)

    @classmethod
    def named(cls, row: Any) -> Mapping[str | None, Any]:
        """What a row that is of no table holds, by our names: one thing, or several in order."""
        if isinstance(row, Mapping):
            return row
        return dict(zip_longest(cls.given, row if isinstance(row, list | tuple) and len(cls.given) > 1 else [row]))

    @classmethod
    def parse(cls, record: Record) -> Self:
        """The example of a row."""
        raise NotImplementedError


def is_plain(reader: Reader) -> bool:
    """Whether lines are just text, and not those of JSON or CoNLL."""
    return reader.format == "txt" and (not reader.file.suffixes or ".txt" in reader.file.suffixes)


def attempt(parse: Callable[..., Form], *arguments: Any) -> Form | RowError:
    """An example, or what stands in its way."""
    try:
        return parse(*arguments)
    except RowError as error:
        return error


def _is_nothing(value: Any) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())
