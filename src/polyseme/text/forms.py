"""The six forms that an example may have.

Sentences, pairs and choices stand in tables, tags in the columns of CoNLL, questions in the JSON of SQuAD. What is only
to be answered needs no labels; then all six may stand in tables or, with a tab between two texts, on plain lines.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

from polyseme.errors import ConfigError, DataError
from polyseme.text.corpus import Reader, format_of, place_of
from polyseme.text.records import Example, Record, RowError, attempt, is_plain

Kind = TypeVar("Kind")

UNKNOWN = -100
"""The number of an answer that is not known, over which losses pass."""

_IDEOGRAPH = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")


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
        if not labelled and (reader.format != "txt" or is_plain(reader)):
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
                yield attempt(cls._sentence, reader.file, sentence, layout)
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
                    yield attempt(cls._question, reader, row, passage, asked, labelled)

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


def _cut(text: str) -> Iterator[str]:
    """The words between white space; what holds Chinese is cut into characters, as its sets are tagged."""
    for word in text.split():
        yield from word if _IDEOGRAPH.search(word) else [word]


def _take(value: Any, key: str, kind: type[Kind], file: Path) -> Kind:
    """What stands under a key in SQuAD's JSON."""
    found = value.get(key) if isinstance(value, dict) else None
    if not isinstance(found, kind):
        raise DataError(f"{file}: no {key!r} where SQuAD has one; write data, paragraphs, context, qas, answers")
    return found
