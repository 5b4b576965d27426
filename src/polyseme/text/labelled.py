"""Labelled data: examples of the six forms that a task may have, each knowing the file and row it came from.

Sentences, pairs and choices stand in tables, tags in the columns of CoNLL, questions in the JSON of SQuAD. What is only
to be answered needs no labels; then all six may stand in tables or, with a tab between two texts, on plain lines.
"""

import json
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, Self, TypeVar

from polyseme.config import nearest
from polyseme.errors import ConfigError, DataError
from polyseme.text.corpus import GIVEN, Corpus, Piped, Reader, format_of, place_of

Form = TypeVar("Form", bound="Example")
Kind = TypeVar("Kind")

UNKNOWN = -100
"""The number of an answer that is not known, over which losses pass."""

_IDEOGRAPH = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")


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
        plain = not labelled and _is_plain(reader) and needed == [*cls.given]
        for number, (row, values) in enumerate(cls._lines(reader) if plain else reader.records()):
            for column in () if number else needed:
                if column not in values:
                    raise reader.no_column(column, filter(None, values))
            yield _attempt(cls.parse, Record(reader.file, row, values, columns, labelled))

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


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassifyExample(Example):
    """A text and its class."""

    columns: ClassVar[Mapping[str, str]] = {"text": "text", "label": "label"}
    given: ClassVar[tuple[str, ...]] = ("text",)

    text: str
    label: str

    @property
    def texts(self) -> tuple[str, ...]:
        return (self.text,)

    @property
    def labels(self) -> tuple[str, ...]:
        return (self.label,)

    @classmethod
    def parse(cls, record: Record) -> Self:
        return cls(file=record.file, row=record.row, text=record.text("text"), label=record.label("label"))


@dataclass(frozen=True, slots=True, kw_only=True)
class PairExample(Example):
    """Two texts and how they are related."""

    columns: ClassVar[Mapping[str, str]] = {"text_a": "text_a", "text_b": "text_b", "label": "label"}
    given: ClassVar[tuple[str, ...]] = ("text_a", "text_b")

    text_a: str
    text_b: str
    label: str

    @property
    def texts(self) -> tuple[str, ...]:
        return (self.text_a, self.text_b)

    @property
    def labels(self) -> tuple[str, ...]:
        return (self.label,)

    @classmethod
    def parse(cls, record: Record) -> Self:
        text_a, text_b = record.text("text_a"), record.text("text_b")
        return cls(file=record.file, row=record.row, text_a=text_a, text_b=text_b, label=record.label("label"))


@dataclass(frozen=True, slots=True, kw_only=True)
class SimilarityExample(Example):
    """Two texts and how alike they are."""

    columns: ClassVar[Mapping[str, str]] = {"text_a": "text_a", "text_b": "text_b", "score": "score"}
    given: ClassVar[tuple[str, ...]] = ("text_a", "text_b")

    text_a: str
    text_b: str
    score: float  # not a number where it is not known

    @property
    def texts(self) -> tuple[str, ...]:
        return (self.text_a, self.text_b)

    @property
    def labels(self) -> tuple[str, ...]:
        return ()

    @classmethod
    def parse(cls, record: Record) -> Self:
        text_a, text_b = record.text("text_a"), record.text("text_b")
        return cls(file=record.file, row=record.row, text_a=text_a, text_b=text_b, score=record.number("score"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceExample(Example):
    """A text and several ways to go on, one of which is right; not every row has as many."""

    columns: ClassVar[Mapping[str, str]] = {"context": "context", "choices": "choices", "answer": "answer"}
    given: ClassVar[tuple[str, ...]] = ("context", "choices")

    context: str
    choices: tuple[str, ...]
    answer: int  # which of the choices, or UNKNOWN

    @property
    def texts(self) -> tuple[str, ...]:
        return (self.context, *self.choices)

    @property
    def labels(self) -> tuple[str, ...]:
        return (str(self.answer),)

    @classmethod
    def parse(cls, record: Record) -> Self:
        context, choices = record.text("context"), record.texts("choices")
        if len(choices) < 2:
            raise record.fault("the choices are not two texts or more", 'write a list such as ["yes", "no"]')
        answer = UNKNOWN if record.lacks("answer") else cls._place(record, choices)
        return cls(file=record.file, row=record.row, context=context, choices=choices, answer=answer)

    @staticmethod
    def _place(record: Record, choices: tuple[str, ...]) -> int:
        answer = record.value("answer")
        if isinstance(answer, int):
            places = [answer] if 0 <= answer < len(choices) and not isinstance(answer, bool) else []
        else:
            said = str(answer).strip()
            places = [place for place, choice in enumerate(choices) if said in (str(place), choice.strip())]
        if len(places) != 1:
            wrong = "the answer may be several of the choices" if places else "the answer is none of the choices"
            remedy = f"give the text of one, or a number from 0 to {len(choices) - 1}"
            raise record.fault(wrong, remedy, found=f"{answer!r:.60}")
        return places[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class TagExample(Example):
    """The words of a sentence, each with its tag; whether tags may follow each other is a matter of scoring."""

    columns: ClassVar[Mapping[str, str]] = {"word": "1", "tag": "-1"}  # counted from 1, or from the end
    given: ClassVar[tuple[str, ...]] = ("text",)

    words: tuple[str, ...]
    tags: tuple[str, ...]  # empty where they are not known
    text: str = ""  # that the words were cut from; else they are joined by single spaces

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", self.text or " ".join(self.words))

    @property
    def texts(self) -> tuple[str, ...]:
        return self.words

    @property
    def labels(self) -> tuple[str, ...]:
        return self.tags

    @property
    def spans(self) -> list[tuple[str, int, int]]:
        """The words with their characters in the text: the first, and the one behind the last."""
        spans, end = [], 0
        for word in self.words:
            start = self.text.index(word, end)
            end = start + len(word)
            spans.append((word, start, end))
        return spans

    @classmethod
    def read(cls, reader: Reader, columns: Mapping[str, str], *, labelled: bool = True) -> Iterator[Self | RowError]:
        if not labelled and (reader.format != "txt" or _is_plain(reader)):
            yield from cls.read_rows(reader, columns, labelled=False)
            return
        if reader.format != "txt":
            raise DataError(f"{reader.file} is a table; write a word and its tag a line, as .conll or .txt")
        lines = list(reader.rows())
        separator = "\t" if any("\t" in line for line in lines) else None
        layout: _Layout | None = None
        sentence: list[tuple[int, list[str]]] = []
        for number, line in enumerate([*lines, ""], start=1):
            if separator and line.startswith("#") and separator not in line:
                continue  # a comment of CoNLL-U; where there are no tabs, '#' is a word
            if line.strip() and not line.startswith("-DOCSTART-"):
                sentence.append((number, line.split(separator)))
            elif sentence:
                layout = layout or _Layout.of(reader.file, *sentence[0], columns, labelled)
                yield _attempt(cls._sentence, reader.file, sentence, layout)
                sentence = []

    @classmethod
    def _sentence(cls, file: Path, rows: list[tuple[int, list[str]]], layout: "_Layout") -> Self:
        words, tags = [], []
        for number, fields in rows:
            if len(fields) != layout.width:
                found = f"{len(fields)} of {layout.width}"
                remedy = "write word and tag on a line, and a blank line after a sentence"
                raise RowError(place_of(file, number), "not as many columns as in the first line", remedy, found=found)
            word, tag = fields[layout.word].strip(), "" if layout.tag is None else fields[layout.tag].strip()
            if not word or (layout.labelled and not tag):
                raise RowError(place_of(file, number), "a word or its tag is empty", "write both, or drop the line")
            words.append(word)
            tags.append(tag)
        return cls(file=file, row=rows[0][0], words=tuple(words), tags=tuple(tags))

    @classmethod
    def parse(cls, record: Record) -> Self:
        text = record.value("text")
        words = tuple(_cut(text)) if isinstance(text, str) else tuple(map(str.strip, record.texts("text")))
        if not words:
            wrong = f"the column {record.column('text')!r} is neither text nor a list of words"
            raise record.fault(wrong, "write either, or name another column")
        tags = ("",) * len(words) if record.lacks("tags") else record.texts("tags")
        if len(tags) != len(words):
            raise record.fault("not as many tags as words", "write one for each, or none", found=f"for {len(words)}")
        whole = text if isinstance(text, str) else ""
        return cls(file=record.file, row=record.row, words=words, tags=tags, text=whole)


@dataclass(frozen=True)
class _Layout:
    """Where in a line of CoNLL its word and tag are."""

    width: int  # columns
    labelled: bool
    word: int
    tag: int | None = None

    @classmethod
    def of(cls, file: Path, row: int, fields: Sequence[str], columns: Mapping[str, str], labelled: bool) -> Self:
        places = {}
        for name in ("word", "tag") if labelled or len(fields) > 1 else ("word",):
            column = columns[name]
            if not re.fullmatch(r"-?[1-9]\d{0,3}", column):
                raise ConfigError(f"{name} is in no column {column!r}; count from 1, or from the end with -1")
            places[name] = int(column) - 1 if int(column) > 0 else len(fields) + int(column)
            if not 0 <= places[name] < len(fields):
                raise DataError(f"{place_of(file, row)}: no column {column} for the {name}; there are {len(fields)}")
        if places["word"] == places.get("tag"):
            raise DataError(f"{place_of(file, row)}: no tag beside the word; write both, between tabs or spaces")
        return cls(len(fields), labelled, **places)


@dataclass(frozen=True, slots=True)
class Answer:
    """What answers a question, and where it stands in the passage."""

    text: str
    start: int | None  # character; none where the file says, by -1, that the passage has it in other words


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanExample(Example):
    """A question about a passage."""

    NONE: ClassVar[str] = "unanswerable"
    columns: ClassVar[Mapping[str, str]] = {}
    given: ClassVar[tuple[str, ...]] = ("question", "passage")

    id: str
    question: str
    passage: str
    answers: tuple[Answer, ...]  # any of them will do; none where the passage does not say

    @property
    def place(self) -> str:
        if format_of(self.file) != "txt":
            return place_of(self.file, self.row)
        return f"{self.file}, question {self.row} ({' '.join(self.id.split())})"  # ids are not always unique

    @property
    def texts(self) -> tuple[str, ...]:
        return (self.question, self.passage)

    @property
    def labels(self) -> tuple[str, ...]:
        return ("answerable" if self.answers else self.NONE,)

    @classmethod
    def read(cls, reader: Reader, columns: Mapping[str, str], *, labelled: bool = True) -> Iterator[Self | RowError]:
        if not labelled and ".json" not in reader.file.suffixes:
            yield from cls.read_rows(reader, columns, labelled=False)
            return
        row = 0
        for article in _take(reader.content(), "data", list, reader.file):
            for paragraph in _take(article, "paragraphs", list, reader.file):
                passage = reader.mend(_take(paragraph, "context", str, reader.file))
                for asked in _take(paragraph, "qas", list, reader.file):
                    row += 1
                    yield _attempt(cls._question, reader, row, passage, asked, labelled)

    @classmethod
    def parse(cls, record: Record) -> Self:
        texts = {name: record.text(name) for name in cls.given}
        return cls._question(Reader(record.file), record.row, texts["passage"], {**record.values, **texts}, False)

    @classmethod
    def _question(cls, reader: Reader, row: int, passage: str, asked: Any, labelled: bool) -> Self:
        question = reader.mend(_take(asked, "question", str, reader.file))
        example = cls(
            file=reader.file, row=row, id=str(asked.get("id", row)), question=question, passage=passage, answers=()
        )
        if not (question.strip() and passage.strip()):
            raise RowError(example.place, "the question or its passage is empty", "write both, or drop the question")
        if asked.get("is_impossible") is True or not (labelled or isinstance(asked.get("answers"), list)):
            return example
        answers = []
        for given in _take(asked, "answers", list, reader.file):
            text, start = reader.mend(_take(given, "text", str, reader.file)), given.get("answer_start")
            if text and start == -1:
                answers.append(Answer(text, None))
            elif text:
                if not isinstance(start, int) or passage[start : start + len(text)] != text or start < 0:
                    there = [str(match.start()) for match in re.finditer(re.escape(text), passage)]
                    found = f"{text!r:.60} is " + (f"at {', '.join(there[:3])}, not at {start}" if there else "nowhere")
                    remedy = "correct answer_start" if there else "copy it from the passage"
                    raise RowError(example.place, "the answer is not at its place in the passage", remedy, found=found)
                answers.append(Answer(text, start))
        return replace(example, answers=tuple(answers))


TASKS: dict[str, type[Example]] = {
    "classify": ClassifyExample,
    "pair": PairExample,
    "similarity": SimilarityExample,
    "choice": ChoiceExample,
    "tag": TagExample,
    "span": SpanExample,
}


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


def _is_plain(reader: Reader) -> bool:
    """Whether lines are just text, and not those of JSON or CoNLL."""
    return reader.format == "txt" and (not reader.file.suffixes or ".txt" in reader.file.suffixes)


def _is_nothing(value: Any) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())


def _cut(text: str) -> Iterator[str]:
    """The words between white space; what holds Chinese is cut into characters, as its sets are tagged."""
    for word in text.split():
        yield from word if _IDEOGRAPH.search(word) else [word]


def _attempt(parse: Callable[..., Form], *arguments: Any) -> Form | RowError:
    try:
        return parse(*arguments)
    except RowError as error:
        return error


def _take(value: Any, key: str, kind: type[Kind], file: Path) -> Kind:
    """What stands under a key in SQuAD's JSON."""
    found = value.get(key) if isinstance(value, dict) else None
    if not isinstance(found, kind):
        raise DataError(f"{file}: no {key!r} where SQuAD has one; write data, paragraphs, context, qas, answers")
    return found
