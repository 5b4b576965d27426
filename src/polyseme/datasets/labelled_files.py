"""Reading labelled files: examples of a known task, the task of an unknown file, and checks of labels."""

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from polyseme.config import suggest_name
from polyseme.corpora.corpus import Corpus
from polyseme.corpora.file_readers import IN_MEMORY, FileReader, StdinReader, detect_format
from polyseme.datasets.records import Example, ExampleT, Record, RowError
from polyseme.datasets.squad import SpanExample
from polyseme.errors import ConfigError, DataError

logger = logging.getLogger(__name__)


def read_examples(
    path: str | Path,
    example_type: type[ExampleT],
    *,
    columns: Mapping[str, str] | None = None,
    errors: list[RowError] | None = None,
) -> list[ExampleT]:
    """Read the examples of a labelled file.

    `columns` maps fields to columns of other names, such as {"text": "review"}, or to column numbers in CoNLL files.
    An invalid row raises its error, or is skipped if there is a list of `errors` to append it to.
    """
    columns = _resolve_columns(example_type, columns)
    file = find_file(path)
    examples = []
    for example in example_type.read(FileReader(file), _recognise_columns(example_type, columns, file)):
        if not isinstance(example, RowError):
            examples.append(example)
        elif errors is None:
            raise example
        else:
            errors.append(example)
    if not (examples or errors):
        raise DataError(f"{file} holds no examples; give at least one")
    return examples


def stream_examples(
    source: str | Path | BinaryIO, example_type: type[ExampleT], *, columns: Mapping[str, str] | None = None
) -> Iterator[ExampleT]:
    """Read examples without or with labels lazily, from a file or from standard input."""
    columns = _resolve_columns(example_type, columns, example_type.inputs)
    if isinstance(source, str | Path):
        reader = FileReader(find_file(source))
        columns = _recognise_columns(example_type, columns, reader.file, labelled=False)
    else:
        reader = StdinReader(source, [columns.get(name, name) for name in example_type.inputs])
    example: ExampleT | RowError | None = None
    for example in example_type.read(reader, columns, labelled=False):
        if isinstance(example, RowError):
            raise example
        yield example
    if example is None:
        raise DataError(f"{reader.file} holds no examples; give at least one")


def parse_examples(example_type: type[ExampleT], rows: Iterable[Any]) -> list[ExampleT]:
    """Build examples from texts, tuples of inputs or dictionaries of fields; labels are optional."""
    if isinstance(rows, str | Mapping):
        raise ConfigError("expected a list of rows, not a single one; put it in brackets")
    return [
        row
        if isinstance(row, example_type)
        else example_type.parse(Record(IN_MEMORY, number, example_type.as_mapping(row), {}, labelled=False))
        for number, row in enumerate(rows, start=1)
    ]


def find_labels(examples: Sequence[Example]) -> list[str]:
    """The distinct labels in alphabetical order, at least two."""
    labels = sorted({label for example in examples for label in example.labels})
    if len(labels) < 2:
        raise DataError(
            f"{examples[0].file}: all rows have the label {labels[0]!r}; add rows with at least one other label"
        )
    return labels


def require_labels(examples: Iterable[Example], known: Collection[str], source: Path) -> None:
    """Check that all labels occur among those of the training file `source`."""
    for example in examples:
        for label in example.labels:
            if label not in known:
                raise DataError(
                    f"{example.location}: label {label!r} does not occur in {source}; "
                    f"correct it, remove the row, or add training rows with it{suggest_name(label, known)}"
                )


def require_answers(examples: Sequence[Example]) -> None:
    """Check that some question has an answer: otherwise never answering would score 100%."""
    if examples and all(example.labels == (SpanExample.NONE,) for example in examples):
        raise DataError(
            f"{examples[0].file}: none of its {len(examples):,} questions has an answer (test sets are often published "
            "without); evaluate on another file, or hold out questions of the training file"
        )


def find_file(path: str | Path) -> Path:
    """The only file that a path or pattern matches."""
    if Path(path).is_dir():
        raise DataError(f"{path} is a folder; name one of its files")
    file, *others = Corpus(path).files
    if others:
        raise DataError(f"{path} matches {len(others) + 1} files; name one of them")
    return file


def column_names(file: Path) -> set[str]:
    """The names of the columns of a table; empty without rows."""
    _, first = next(FileReader(file).records(), (0, {}))
    return {name for name in first if name is not None}


def _recognise_columns(
    example_type: type[Example], columns: dict[str, str], file: Path, *, labelled: bool = True
) -> dict[str, str]:
    """The columns of the fields in a file, with those of well-known datasets for missing ones, which are reported."""
    if not example_type.known_columns or detect_format(file) == "txt":
        return columns
    found = example_type.recognise(column_names(file), columns)
    fields = example_type.columns if labelled else example_type.inputs
    known = {field: found[field] for field in fields if found[field] != columns[field]}
    if known:
        read = ", ".join(f"{column!r} as {field}" for field, column in known.items())
        logger.warning("%s: reading the columns %s", file, read)
    return found


def _resolve_columns(
    example_type: type[Example], columns: Mapping[str, str] | None, inputs: Iterable[str] = ()
) -> dict[str, str]:
    """The default columns of the fields, updated by those of the user."""
    known = {*example_type.columns, *inputs}
    unknown = [name for name in columns or {} if name not in known]
    if unknown:
        raise ConfigError(f"the task has no column {unknown[0]!r}{suggest_name(unknown[0], known)}")
    return {**example_type.columns, **(columns or {})}
