"""Labelled files: read, guessed at, and refused where nothing can be learnt from them."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from polyseme.config import nearest
from polyseme.errors import ConfigError, DataError
from polyseme.text.corpus import GIVEN, Corpus, Piped, Reader, format_of
from polyseme.text.forms import TASKS, SpanExample
from polyseme.text.records import Example, Form, Record, RowError


def read_examples(
    path: str | Path,
    form: type[Form],
    *,
    columns: Mapping[str, str] | None = None,
    faults: list[RowError] | None = None,
) -> list[Form]:
    """The examples of a file; a row that cannot be used is refused, or put into `faults` and left out.

    `columns` says where things are that are not under our names, such as {"text": "review"}; for tags by number.
    """
    columns = _placed(form, columns)
    file = find_file(path)
    examples = []
    for read in form.read(Reader(file), columns):
        if not isinstance(read, RowError):
            examples.append(read)
        elif faults is None:
            raise read
        else:
            faults.append(read)
    if not (examples or faults):
        raise DataError(f"{file} holds no examples; give at least one")
    return examples


def stream_examples(
    source: str | Path | BinaryIO, form: type[Form], *, columns: Mapping[str, str] | None = None
) -> Iterator[Form]:
    """The examples of a file, or of what is piped in, one after another; their labels may be missing."""
    columns = _placed(form, columns, given=form.given)
    if isinstance(source, str | Path):
        reader = Reader(find_file(source))
    else:
        reader = Piped(source, [columns.get(name, name) for name in form.given])
    read: Form | RowError | None = None
    for read in form.read(reader, columns, labelled=False):
        if isinstance(read, RowError):
            raise read
        yield read
    if read is None:
        raise DataError(f"{reader.file} holds no examples; give at least one")


def examples_of(form: type[Form], rows: Iterable[Any]) -> list[Form]:
    """Examples of texts, of tuples of what they are made of, or of dictionaries by our names; labels may be missing."""
    if isinstance(rows, str | Mapping):
        raise ConfigError("one row is no list of rows; write it in brackets")
    return [
        row if isinstance(row, form) else form.parse(Record(GIVEN, number, form.named(row), {}, labelled=False))
        for number, row in enumerate(rows, start=1)
    ]


def guess_task(path: str | Path, *, columns: Mapping[str, str] | None = None) -> str:
    """The form that a file has, by its ending and the names of its columns."""
    file = find_file(path)
    if format_of(file) == "txt":
        return "span" if ".json" in file.suffixes else "tag"
    names = _names(Reader(file))
    for task in ("pair", "similarity", "choice", "classify"):
        if {(columns or {}).get(name, name) for name in TASKS[task].columns} <= names:
            return task
    if not names:
        raise DataError(f"{file} holds no examples; give at least one")
    there = ", ".join(sorted(" ".join(name.split()) for name in names))
    raise DataError(
        f"{file}: its columns are those of no task ({there}); say which it is, and where columns have other names: "
        "--task classify --column text=review"
    )


def find_labels(examples: Sequence[Example]) -> list[str]:
    """The classes to learn, in order; there are at least two, or there is nothing to learn."""
    labels = sorted({label for example in examples for label in example.labels})
    if len(labels) < 2:
        raise DataError(
            f"{examples[0].file}: every row has the label {labels[0]!r}, so there is nothing to learn; "
            "add rows with another one"
        )
    return labels


def require_labels(examples: Iterable[Example], known: Collection[str], source: Path) -> None:
    """Refuse examples whose labels are not among those `known` from the file to learn from."""
    for example in examples:
        for label in example.labels:
            if label not in known:
                raise DataError(
                    f"{example.place}: {source} has no label {label!r}, so it cannot be learnt; "
                    f"correct it, drop the row, or add such rows there{nearest(label, known)}"
                )


def require_answers(examples: Sequence[Example]) -> None:
    """Refuse questions of which none has an answer: whoever never answers would be right in all of them."""
    if examples and all(example.labels == (SpanExample.NONE,) for example in examples):
        raise DataError(
            f"{examples[0].file}: none of its {len(examples):,} questions has an answer, perhaps because the answers "
            "are kept secret; measure on another file, or on questions held back from those to learn from"
        )


def find_file(path: str | Path) -> Path:
    """The one file that a path stands for."""
    if Path(path).is_dir():
        raise DataError(f"{path} is a folder; name one of its files")
    file, *others = Corpus(path).files
    if others:
        raise DataError(f"{path} stands for {len(others) + 1} files; name one of them")
    return file


def _placed(form: type[Example], columns: Mapping[str, str] | None, given: Iterable[str] = ()) -> dict[str, str]:
    """Where everything is."""
    known = {*form.columns, *given}
    wrong = [name for name in columns or {} if name not in known]
    if wrong:
        raise ConfigError(f"{wrong[0]} is nothing that the task needs{nearest(wrong[0], known)}")
    return {**form.columns, **(columns or {})}


def _names(reader: Reader) -> set[str]:
    """The names of a table's columns; of JSON, those of the first row."""
    _, first = next(reader.records(), (0, {}))
    return {name for name in first if name is not None}
