"""The example types of labelled data, one per task.

Texts, pairs and choices are read from tables, tags from CoNLL columns and questions from SQuAD's JSON. For prediction
no labels are needed, and every type can also be read from a table or from plain lines with a tab between two texts.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import mode
from typing import ClassVar, Self

from polyseme.corpora.file_readers import FileReader
from polyseme.corpora.scripts import ALL_IDEOGRAPHS
from polyseme.datasets.conll import read_tagged_sentences
from polyseme.datasets.records import Example, Record, RowError, is_plain_text
from polyseme.errors import DataError

UNKNOWN_ANSWER = -100
"""The index of a missing answer, which losses ignore."""

KnownColumns = Mapping[tuple[str, ...], tuple[tuple[str, ...], ...]]

# Columns of GLUE, CLUE, SNLI, SICK, BoolQ and their like.
_TEXTS = (("sentence",), ("review",), ("content",), ("comment",), ("tweet",), ("question",))
_LABELS = (("sentiment",), ("stars",), ("rating",), ("category",), ("class",), ("gold_label",), ("intent",), ("topic",))
_PAIRS = (
    ("sentence1", "sentence2"),
    ("sentence_A", "sentence_B"),
    ("premise", "hypothesis"),
    ("question1", "question2"),
    ("question", "sentence"),
    ("question", "passage"),
    ("question", "context"),
    ("query", "passage"),
    ("query", "document"),
    ("text1", "text2"),
    ("text", "text_pair"),
)
_PAIR_LABELS = (("gold_label",), ("is_duplicate",), ("entailment_label",), ("entailment_judgment",), ("relation",))
_SCORES = (("similarity",), ("similarity_score",), ("relatedness_score",), ("relatedness",))

_IDEOGRAPH = re.compile(f"[{ALL_IDEOGRAPHS}]")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassifyExample(Example):
    """A text and its class."""

    columns: ClassVar[Mapping[str, str]] = {"text": "text", "label": "label"}
    inputs: ClassVar[tuple[str, ...]] = ("text",)
    closed_labels: ClassVar[bool] = True
    known_columns: ClassVar[KnownColumns] = {("text",): _TEXTS, ("label",): _LABELS}

    text: str
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PairExample(Example):
    """Two texts and the class of their relation."""

    columns: ClassVar[Mapping[str, str]] = {"text_a": "text_a", "text_b": "text_b", "label": "label"}
    inputs: ClassVar[tuple[str, ...]] = ("text_a", "text_b")
    closed_labels: ClassVar[bool] = True
    known_columns: ClassVar[KnownColumns] = {("text_a", "text_b"): _PAIRS, ("label",): _PAIR_LABELS}

    text_a: str
    text_b: str
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SimilarityExample(Example):
    """Two texts and the score of their similarity."""

    columns: ClassVar[Mapping[str, str]] = {"text_a": "text_a", "text_b": "text_b", "score": "score"}
    inputs: ClassVar[tuple[str, ...]] = ("text_a", "text_b")
    known_columns: ClassVar[KnownColumns] = {("text_a", "text_b"): _PAIRS, ("score",): _SCORES}

    text_a: str
    text_b: str
    score: float  # NaN if missing


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceExample(Example):
    """A context and two or more continuations, one of which is correct; their number may vary."""

    columns: ClassVar[Mapping[str, str]] = {"context": "context", "choices": "choices", "answer": "answer"}
    inputs: ClassVar[tuple[str, ...]] = ("context", "choices")

    context: str
    choices: tuple[str, ...]
    answer: int  # index of the correct choice, or UNKNOWN_ANSWER

    @property
    def texts(self) -> tuple[str, ...]:
        return (self.context, *self.choices)

    @property
    def labels(self) -> tuple[str, ...]:
        return (str(self.answer),)

    @property
    def sequence_texts(self) -> tuple[str, ...]:
        return self.context, max(self.choices, key=len)

    @classmethod
    def find_problems(cls, examples: Sequence[Self]) -> Iterator[tuple[bool, Sequence[Self], str, str]]:
        usual = mode(len(example.choices) for example in examples)
        unusual = [example for example in examples if len(example.choices) != usual]
        yield False, unusual, f"have more or fewer than {usual} choices", ""

    @classmethod
    def parse(cls, record: Record) -> Self:
        context, choices = record.text("context"), record.texts("choices")
        if len(choices) < 2:
            raise record.error("fewer than two choices", 'write a list such as ["yes", "no"]')
        answer = UNKNOWN_ANSWER if record.is_missing("answer") else cls._answer_index(record, choices)
        return cls(file=record.file, row=record.row, context=context, choices=choices, answer=answer)

    @staticmethod
    def _answer_index(record: Record, choices: tuple[str, ...]) -> int:
        answer = record.value("answer")
        if isinstance(answer, int):
            matches = [answer] if 0 <= answer < len(choices) and not isinstance(answer, bool) else []
        else:
            text = str(answer).strip()
            matches = [index for index, choice in enumerate(choices) if text in (str(index), choice.strip())]
        if len(matches) != 1:
            problem = "the answer matches several choices" if matches else "the answer is not one of the choices"
            remedy = f"give the text of one, or its index from 0 to {len(choices) - 1}"
            raise record.error(problem, remedy, found=f"{answer!r:.60}")
        return matches[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class TagExample(Example):
    """The words of a sentence and the tag of each; tag sequences are not validated here."""

    columns: ClassVar[Mapping[str, str]] = {"word": "1", "tag": "-1"}  # counted from 1, or from the end
    inputs: ClassVar[tuple[str, ...]] = ("text",)
    closed_labels: ClassVar[bool] = True
    splits_long_inputs: ClassVar[bool] = True
    extension: ClassVar[str] = ".conll"

    words: tuple[str, ...]
    tags: tuple[str, ...]  # empty strings if missing
    text: str = ""  # the sentence that contains the words; by default they are joined by single spaces

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", self.text or " ".join(self.words))

    @property
    def texts(self) -> tuple[str, ...]:
        return self.words

    @property
    def labels(self) -> tuple[str, ...]:
        return self.tags

    @property
    def target(self) -> tuple[str, ...]:
        return self.tags

    @property
    def spans(self) -> list[tuple[str, int, int]]:
        """Each word with its start and end offset in the text."""
        spans, end = [], 0
        for word in self.words:
            start = self.text.index(word, end)
            end = start + len(word)
            spans.append((word, start, end))
        return spans

    @classmethod
    def read(
        cls, reader: FileReader, columns: Mapping[str, str], *, labelled: bool = True
    ) -> Iterator[Self | RowError]:
        if not labelled and (reader.format != "txt" or is_plain_text(reader)):
            yield from cls.read_rows(reader, columns, labelled=False)
            return
        if reader.format != "txt":
            raise DataError(f"{reader.file} is a table; write a word and its tag on each line of a .conll or .txt file")
        for sentence in read_tagged_sentences(reader, columns, labelled=labelled):
            if isinstance(sentence, RowError):
                yield sentence
            else:
                row, words, tags = sentence
                yield cls(file=reader.file, row=row, words=words, tags=tags)

    @classmethod
    def format(cls, examples: Sequence[Self]) -> str:
        sentences = [zip(example.words, example.tags, strict=True) for example in examples]
        return "\n".join("".join(f"{word}\t{tag}\n" for word, tag in sentence) for sentence in sentences)

    @classmethod
    def parse(cls, record: Record) -> Self:
        text = record.value("text")
        words = tuple(_split_words(text)) if isinstance(text, str) else tuple(map(str.strip, record.texts("text")))
        if not words:
            problem = f"column {record.column('text')!r} is neither text nor a list of words"
            raise record.error(problem, "write either, or name another column")
        tags = ("",) * len(words) if record.is_missing("tags") else record.texts("tags")
        if len(tags) != len(words):
            remedy = "write one tag per word, or none"
            raise record.error("wrong number of tags", remedy, found=f"{len(tags)} for {len(words)} words")
        whole = text if isinstance(text, str) else ""
        return cls(file=record.file, row=record.row, words=words, tags=tags, text=whole)


def _split_words(text: str) -> Iterator[str]:
    """Split at white space, and words that contain Chinese into characters, as Chinese datasets are tagged."""
    for word in text.split():
        yield from word if _IDEOGRAPH.search(word) else [word]
