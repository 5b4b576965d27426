"""Rows of labelled files, the errors they raise and the base class of the examples parsed from them."""

import json
import math
from collections.abc import Callable, Collection, Container, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

from polyseme.corpora.file_readers import FileReader, row_location
from polyseme.errors import DataError

ExampleT = TypeVar("ExampleT", bound="Example")
Parsed = TypeVar("Parsed")


class RowError(DataError):
    """An invalid row of a labelled file."""

    def __init__(self, location: str, problem: str, remedy: str, *, found: str = "") -> None:
        super().__init__(f"{location}: {problem}{f' ({found})' if found else ''}; {remedy}")
        # Rows with the same problem have identical texts here, so that reports can group them.
        self.location, self.problem, self.remedy = location, problem, remedy


@dataclass(frozen=True, slots=True)
class Record:
    """A row with typed access to its fields; `columns` maps field names to the column names of the file."""

    file: Path
    row: int
    values: Mapping[str | None, Any]
    columns: Mapping[str, str]
    labelled: bool = True  # otherwise labels are optional

    def column(self, field: str) -> str:
        """The name of the column that holds a field."""
        return self.columns.get(field, field)

    def is_missing(self, field: str) -> bool:
        """Whether an optional field is empty."""
        return not self.labelled and _is_blank(self.values.get(self.column(field)))

    def value(self, field: str) -> Any:
        """The raw value of a field, which may not be empty."""
        if None in self.values:
            raise self.error("more fields than columns", "check for a tab, comma or quotation mark inside a text")
        value = self.values.get(self.column(field))
        if _is_blank(value):
            raise self.error(f"column {self.column(field)!r} is empty", "fill it in or remove the row")
        return value

    def text(self, field: str) -> str:
        """A text, unchanged."""
        value = self.value(field)
        if not isinstance(value, str):
            raise self.error(f"column {self.column(field)!r} is not text", "write text, or name another column")
        return value

    def texts(self, field: str) -> tuple[str, ...]:
        """A list of texts, which CSV and TSV encode as JSON; empty if the value is anything else."""
        value = self.value(field)
        if isinstance(value, str):
            try:
                value = json.loads(value)
            except (ValueError, RecursionError):
                return ()
        texts = isinstance(value, list | tuple) and all(isinstance(text, str) and text.strip() for text in value)
        return tuple(value) if texts else ()

    def label(self, field: str) -> str:
        """The name of a class; numbers are converted to text."""
        if self.is_missing(field):
            return ""
        value = self.value(field)
        if not isinstance(value, str | int | float):
            raise self.error(f"column {self.column(field)!r} is not a label", "write a word or a number")
        return str(value).strip()

    def number(self, field: str) -> float:
        """A finite number; NaN if it is missing."""
        if self.is_missing(field):
            return math.nan
        value = self.value(field)
        try:
            number = math.nan if isinstance(value, bool) else float(value)
        except (ValueError, TypeError, OverflowError):
            number = math.nan
        if not math.isfinite(number):
            problem = f"column {self.column(field)!r} is not a number"
            raise self.error(problem, "write a number such as 3.5", found=f"{value!r:.60}")
        return number

    def error(self, problem: str, remedy: str, *, found: str = "") -> RowError:
        """An error that names this row."""
        return RowError(row_location(self.file, self.row), problem, remedy, found=found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """Inputs and target of a task, with the file and row they come from."""

    columns: ClassVar[Mapping[str, str]]  # fields and the default names of their columns
    inputs: ClassVar[tuple[str, ...]]  # fields given to the model; the others are targets
    closed_labels: ClassVar[bool] = False  # dev and test examples may only have labels of training examples
    splits_long_inputs: ClassVar[bool] = False  # otherwise they are truncated to the length of the model
    extension: ClassVar[str] = ".jsonl"  # of files in the format of `format`
    # Columns of well-known datasets, for files without the default columns: by fields, the names that go together
    known_columns: ClassVar[Mapping[tuple[str, ...], tuple[tuple[str, ...], ...]]] = {}

    file: Path
    row: int  # the first line of the example; for Parquet the row and for SQuAD the question, counted from 1

    @property
    def location(self) -> str:
        """File and row, for error messages."""
        return row_location(self.file, self.row)

    @property
    def texts(self) -> tuple[str, ...]:
        """All input texts, by default the input fields."""
        return tuple(getattr(self, name) for name in self.inputs)

    @property
    def labels(self) -> tuple[str, ...]:
        """All target classes, by default the field `label`."""
        return tuple(getattr(self, name) for name in self.columns if name == "label")

    @property
    def target(self) -> Collection[Hashable]:
        """What examples with the same texts should agree in, by default the fields that are not inputs."""
        return tuple(getattr(self, name) for name in self.columns if name not in self.inputs)

    @property
    def sequence_texts(self) -> tuple[str, ...]:
        """The texts that a model reads as one sequence, by default all."""
        return self.texts

    @classmethod
    def find_problems(cls, examples: Sequence[Self]) -> Iterator[tuple[bool, Sequence[Self], str, str]]:
        """Find what is unusual: whether it is a problem, the examples that have it, what they have, and the remedy."""
        yield from ()

    @classmethod
    def format(cls, examples: Sequence[Self]) -> str:
        """The content of a file with these examples, by default JSON lines."""
        rows = ({name: getattr(example, name) for name in cls.columns} for example in examples)
        return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)

    @classmethod
    def recognise(cls, names: Container[str], columns: Mapping[str, str]) -> dict[str, str]:
        """The columns of the fields in a file with columns of these names.

        Fields without a column there have that of a well-known dataset, if the file has the columns of exactly one.
        """
        found = dict(columns)
        for fields, alternatives in cls.known_columns.items():
            if all(columns.get(field, field) in names for field in fields):
                continue
            matches = [known for known in alternatives if all(column in names for column in known)]
            if len(matches) == 1 and all(columns.get(field, field) == field for field in fields):
                found |= dict(zip(fields, matches[0], strict=True))
        return found

    @classmethod
    def read(
        cls, reader: FileReader, columns: Mapping[str, str], *, labelled: bool = True
    ) -> Iterator[Self | RowError]:
        """Read the examples of a file; an invalid row is returned as its error."""
        return cls.read_rows(reader, columns, labelled=labelled)

    @classmethod
    def read_rows(cls, reader: FileReader, columns: Mapping[str, str], *, labelled: bool) -> Iterator[Self | RowError]:
        """Read the examples of a table or, without labels, of plain lines."""
        needed = [*columns.values()] if labelled else [columns.get(name, name) for name in cls.inputs]
        plain = not labelled and is_plain_text(reader) and needed == [*cls.inputs]
        for row, values in cls._lines(reader) if plain else reader.records(needed):
            yield parse_or_error(cls.parse, Record(reader.file, row, values, columns, labelled))

    @classmethod
    def _lines(cls, reader: FileReader) -> Iterator[tuple[int, Mapping[str | None, Any]]]:
        for number, line in enumerate(reader.texts(), start=1):
            if line.strip():
                yield number, cls.as_mapping(line.split("\t") if len(cls.inputs) > 1 else line)

    @classmethod
    def as_mapping(cls, row: Any) -> Mapping[str | None, Any]:
        """A row as a mapping of fields; texts and tuples of texts hold the inputs in order."""
        if isinstance(row, Mapping):
            return row
        return dict(zip_longest(cls.inputs, row if isinstance(row, list | tuple) and len(cls.inputs) > 1 else [row]))

    @classmethod
    def parse(cls, record: Record) -> Self:
        """Build the example of a row, or raise a `RowError`; by default fields other than label and score are texts."""
        parsers = {"label": record.label, "score": record.number}
        fields: dict[str, Any] = {name: parsers.get(name, record.text)(name) for name in cls.columns}
        return cls(file=record.file, row=record.row, **fields)


def is_plain_text(reader: FileReader) -> bool:
    """Whether a file is plain text rather than JSON or CoNLL."""
    return reader.format == "txt" and (not reader.file.suffixes or ".txt" in reader.file.suffixes)


def parse_or_error(parse: Callable[..., Parsed], *arguments: Any) -> Parsed | RowError:
    """Parse a row, returning the error of an invalid row instead of raising it."""
    try:
        return parse(*arguments)
    except RowError as error:
        return error


def _is_blank(value: Any) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())
