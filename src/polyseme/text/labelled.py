"""Labelled data: examples of the six forms that a task may have, each knowing the file and row it came from.

Sentences, pairs and choices stand in tables, tags in the columns of CoNLL, questions in the JSON of SQuAD.
"""

import json
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

from polyseme.config import nearest
from polyseme.errors import ConfigError, DataError
from polyseme.text.corpus import Corpus, Reader, format_of, place_of

Form = TypeVar("Form", bound="Example")
Kind = TypeVar("Kind")


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

    def value(self, name: str) -> Any:
        """Whatever it is, but not nothing."""
        if None in self.values:
            raise self.fault("more fields than columns", "look for a tab, a comma or a quotation mark inside a text")
        value = self.values.get(self.columns[name])
        if value is None or (isinstance(value, str) and not value.strip()):
            raise self.fault(f"the column {self.columns[name]!r} is empty", "give it a value or drop the row")
        return value

    def text(self, name: str) -> str:
        """Text as it stands there."""
        value = self.value(name)
        if not isinstance(value, str):
            raise self.fault(f"the column {self.columns[name]!r} is not text", "write text, or name another column")
        return value

    def label(self, name: str) -> str:
        """The name of a class, which may be a number."""
        value = self.value(name)
        if not isinstance(value, str | int | float):
            raise self.fault(f"the column {self.columns[name]!r} is no label", "write a word or a number")
        return str(value).strip()

    def number(self, name: str) -> float:
        """A finite number."""
        value = self.value(name)
        try:
            number = math.nan if isinstance(value, bool) else float(value)
        except (ValueError, TypeError, OverflowError):
            number = math.nan
        if not math.isfinite(number):
            wrong = f"the column {self.columns[name]!r} is no number"
            raise self.fault(wrong, "write one such as 3.5", found=f"{value!r:.60}")
        return number

    def fault(self, wrong: str, remedy: str, *, found: str = "") -> RowError:
        """What is wrong with the row."""
        return RowError(place_of(self.file, self.row), wrong, remedy, found=found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """What a model reads, and what it should answer."""

    columns: ClassVar[Mapping[str, str]]  # what it is made of, and where that is if nothing else is said

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
    def read(cls, reader: Reader, columns: Mapping[str, str]) -> Iterator[Self | RowError]:
        """The examples of a file, and what stands in the way of others."""
        known = _names(reader)
        for column in columns.values():
            if known and column not in known:
                raise reader.no_column(column, known)
        for row, values in reader.records():
            yield _attempt(cls.parse, Record(reader.file, row, values, columns))

    @classmethod
    def parse(cls, record: Record) -> Self:
        """The example of a row."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassifyExample(Example):
    """A text and its class."""

    columns: ClassVar[Mapping[str, str]] = {"text": "text", "label": "label"}

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

    text_a: str
    text_b: str
    score: float

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

    context: str
    choices: tuple[str, ...]
    answer: int  # which of the choices

    @property
    def texts(self) -> tuple[str, ...]:
        return (self.context, *self.choices)

    @property
    def labels(self) -> tuple[str, ...]:
        return (str(self.answer),)

    @classmethod
    def parse(cls, record: Record) -> Self:
        context, choices, answer = record.text("context"), record.value("choices"), record.value("answer")
        if isinstance(choices, str):  # in CSV and TSV there are no lists
            try:
                choices = json.loads(choices)
            except (ValueError, RecursionError):
                choices = []
        texts = isinstance(choices, list) and all(isinstance(choice, str) and choice.strip() for choice in choices)
        if not texts or len(choices) < 2:
            raise record.fault("the choices are not two texts or more", 'write a list such as ["yes", "no"]')
        if isinstance(answer, int):
            places = [answer] if 0 <= answer < len(choices) and not isinstance(answer, bool) else []
        else:
            said = str(answer).strip()
            places = [place for place, choice in enumerate(choices) if said in (str(place), choice.strip())]
        if len(places) != 1:
            wrong = "the answer may be several of the choices" if places else "the answer is none of the choices"
            remedy = f"give the text of one, or a number from 0 to {len(choices) - 1}"
            raise record.fault(wrong, remedy, found=f"{answer!r:.60}")
        return cls(file=record.file, row=record.row, context=context, choices=tuple(choices), answer=places[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class TagExample(Example):
    """The words of a sentence, each with its tag; whether tags may follow each other is a matter of scoring."""

    columns: ClassVar[Mapping[str, str]] = {"word": "1", "tag": "-1"}  # counted from 1, or from the end

    words: tuple[str, ...]
    tags: tuple[str, ...]

    @property
    def texts(self) -> tuple[str, ...]:
        return self.words

    @property
    def labels(self) -> tuple[str, ...]:
        return self.tags

    @classmethod
    def read(cls, reader: Reader, columns: Mapping[str, str]) -> Iterator[Self | RowError]:
        if format_of(reader.file) != "txt":
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
                layout = layout or _Layout.of(reader.file, *sentence[0], columns)
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
            word, tag = fields[layout.word].strip(), fields[layout.tag].strip()
            if not (word and tag):
                raise RowError(place_of(file, number), "a word or its tag is empty", "write both, or drop the line")
            words.append(word)
            tags.append(tag)
        return cls(file=file, row=rows[0][0], words=tuple(words), tags=tuple(tags))


@dataclass(frozen=True)
class _Layout:
    """Where in a line of CoNLL its word and tag are."""

    width: int  # columns
    word: int
    tag: int

    @classmethod
    def of(cls, file: Path, row: int, fields: Sequence[str], columns: Mapping[str, str]) -> Self:
        places = {}
        for name, column in columns.items():
            if not re.fullmatch(r"-?[1-9]\d{0,3}", column):
                raise ConfigError(f"{name} is in no column {column!r}; count from 1, or from the end with -1")
            places[name] = int(column) - 1 if int(column) > 0 else len(fields) + int(column)
            if not 0 <= places[name] < len(fields):
                raise DataError(f"{place_of(file, row)}: no column {column} for the {name}; there are {len(fields)}")
        if places["word"] == places["tag"]:
            raise DataError(f"{place_of(file, row)}: no tag beside the word; write both, between tabs or spaces")
        return cls(len(fields), **places)


@dataclass(frozen=True, slots=True)
class Answer:
    """What answers a question, and where it stands in the passage."""

    text: str
    start: int | None  # character; none where the file says, by -1, that the passage has it in other words


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanExample(Example):
    """A question about a passage."""

    columns: ClassVar[Mapping[str, str]] = {}

    id: str
    question: str
    passage: str
    answers: tuple[Answer, ...]  # any of them will do; none where the passage does not say

    @property
    def place(self) -> str:
        return f"{self.file}, question {self.row} ({' '.join(self.id.split())})"  # ids are not always unique

    @property
    def texts(self) -> tuple[str, ...]:
        return (self.question, self.passage)

    @property
    def labels(self) -> tuple[str, ...]:
        return ("answerable" if self.answers else "unanswerable",)

    @classmethod
    def read(cls, reader: Reader, columns: Mapping[str, str]) -> Iterator[Self | RowError]:
        row = 0
        for article in _take(reader.content(), "data", list, reader.file):
            for paragraph in _take(article, "paragraphs", list, reader.file):
                passage = reader.mend(_take(paragraph, "context", str, reader.file))
                for asked in _take(paragraph, "qas", list, reader.file):
                    row += 1
                    yield _attempt(cls._question, reader, row, passage, asked)

    @classmethod
    def _question(cls, reader: Reader, row: int, passage: str, asked: Any) -> Self:
        question = reader.mend(_take(asked, "question", str, reader.file))
        example = cls(
            file=reader.file, row=row, id=str(asked.get("id", row)), question=question, passage=passage, answers=()
        )
        if not (question.strip() and passage.strip()):
            raise RowError(example.place, "the question or its passage is empty", "write both, or drop the question")
        if asked.get("is_impossible") is True:
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
    wrong = [name for name in columns or {} if name not in form.columns]
    if wrong:
        raise ConfigError(f"{wrong[0]} is nothing that the task needs{nearest(wrong[0], form.columns)}")
    file = find_file(path)
    examples = []
    for read in form.read(Reader(file), {**form.columns, **(columns or {})}):
        if not isinstance(read, RowError):
            examples.append(read)
        elif faults is None:
            raise read
        else:
            faults.append(read)
    if not (examples or faults):
        raise DataError(f"{file} holds no examples; give at least one")
    return examples


def guess_task(path: str | Path, *, columns: Mapping[str, str] | None = None) -> str:
    """The form that a file has, by its ending and the names of its columns."""
    file = find_file(path)
    if format_of(file) == "txt":
        return "span" if ".json" in file.suffixes else "tag"
    names = _names(Reader(file))
    for task in ("pair", "similarity", "choice", "classify"):
        if {(columns or {}).get(name, name) for name in TASKS[task].columns} <= names:
            return task
    there = ", ".join(sorted(" ".join(name.split()) for name in names)) or "none"
    raise DataError(f"{file}: its columns are those of no task ({there}); say which it is, and what is where")


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


def find_file(path: str | Path) -> Path:
    """The one file that a path stands for."""
    if Path(path).is_dir():
        raise DataError(f"{path} is a folder; name one of its files")
    file, *others = Corpus(path).files
    if others:
        raise DataError(f"{path} stands for {len(others) + 1} files; name one of them")
    return file


def _names(reader: Reader) -> set[str]:
    """The names of a table's columns; of JSON, those of the first row."""
    _, first = next(reader.records(), (0, {}))
    return {name for name in first if name is not None}


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
