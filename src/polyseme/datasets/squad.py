"""Questions about passages in the JSON format of SQuAD 1.1 and 2.0 (Rajpurkar et al., 2016 and 2018)."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

from polyseme.corpora.file_readers import FileReader, detect_format, row_location
from polyseme.datasets.records import Example, Record, RowError, parse_or_error
from polyseme.errors import DataError

JsonType = TypeVar("JsonType")


@dataclass(frozen=True, slots=True)
class Answer:
    """A gold answer and its position in the passage."""

    text: str
    start: int | None  # character offset; None if the file marks the answer as a paraphrase with -1


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanExample(Example):
    """A question about a passage; any of the answers is correct, and none means that it is unanswerable."""

    NONE: ClassVar[str] = "unanswerable"
    columns: ClassVar[Mapping[str, str]] = {}
    inputs: ClassVar[tuple[str, ...]] = ("question", "passage")
    splits_long_inputs: ClassVar[bool] = True
    extension: ClassVar[str] = ".json"

    id: str
    question: str
    passage: str
    answers: tuple[Answer, ...]

    @property
    def location(self) -> str:
        return _location(self.file, self.row, self.id)

    @property
    def labels(self) -> tuple[str, ...]:
        return ("answerable" if self.answers else self.NONE,)

    @property
    def target(self) -> frozenset[str]:
        return frozenset(answer.text for answer in self.answers)

    @classmethod
    def find_problems(cls, examples: Sequence[Self]) -> Iterator[tuple[bool, Sequence[Self], str, str]]:
        if not any(example.answers for example in examples):
            yield True, examples, "have no answer", "add questions with answers"
        paraphrased = [example for example in examples if any(answer.start is None for answer in example.answers)]
        yield False, paraphrased, "have answers that are not literally in the passage", ""
        ids = Counter(example.id for example in examples)
        yield False, [example for example in examples if ids[example.id] > 1], "have the id of another question", ""

    @classmethod
    def format(cls, examples: Sequence[Self]) -> str:
        paragraphs = [{"context": example.passage, "qas": [example._to_squad()]} for example in examples]
        return json.dumps({"version": "v2.0", "data": [{"title": "", "paragraphs": paragraphs}]}, ensure_ascii=False)

    def _to_squad(self) -> dict[str, Any]:
        answers = [{"text": one.text, "answer_start": -1 if one.start is None else one.start} for one in self.answers]
        return {"id": self.id, "question": self.question, "answers": answers, "is_impossible": not answers}

    @classmethod
    def read(
        cls, reader: FileReader, columns: Mapping[str, str], *, labelled: bool = True
    ) -> Iterator[Self | RowError]:
        if not labelled and ".json" not in reader.file.suffixes:
            yield from cls.read_rows(reader, columns, labelled=False)
            return
        row = 0
        for article in _get(reader.json_content(), "data", list, reader.file):
            for paragraph in _get(article, "paragraphs", list, reader.file):
                passage = reader.replace_invalid(_get(paragraph, "context", str, reader.file))
                for content in _get(paragraph, "qas", list, reader.file):
                    row += 1
                    yield parse_or_error(cls._parse_question, reader, row, passage, content, labelled)

    @classmethod
    def parse(cls, record: Record) -> Self:
        texts: dict[str | None, Any] = {name: record.text(name) for name in cls.inputs}
        content = {**record.values, **texts}
        return cls._parse_question(FileReader(record.file), record.row, texts["passage"], content, labelled=False)

    @classmethod
    def _parse_question(cls, reader: FileReader, row: int, passage: str, content: Any, labelled: bool) -> Self:
        """Parse an entry of "qas" and check that its answers are substrings of the passage."""
        question = reader.replace_invalid(_get(content, "question", str, reader.file))
        id = str(content.get("id", row))
        location = _location(reader.file, row, id)
        if not (question.strip() and passage.strip()):
            raise RowError(location, "the question or its passage is empty", "write both, or remove the question")
        answers = []
        if content.get("is_impossible") is not True and (labelled or isinstance(content.get("answers"), list)):
            for answer in _get(content, "answers", list, reader.file):
                text, start = reader.replace_invalid(_get(answer, "text", str, reader.file)), answer.get("answer_start")
                if text and start == -1:
                    answers.append(Answer(text, None))
                elif text:
                    if not isinstance(start, int) or passage[start : start + len(text)] != text or start < 0:
                        raise _misplaced_answer(location, passage, text, start)
                    answers.append(Answer(text, start))
        return cls(file=reader.file, row=row, id=id, question=question, passage=passage, answers=tuple(answers))


def _location(file: Path, row: int, id: str) -> str:
    """File, number and id of a question, which is not always unique, for error messages."""
    if detect_format(file) != "txt":
        return row_location(file, row)
    return f"{file}, question {row} ({' '.join(id.split())})"


def _misplaced_answer(location: str, passage: str, text: str, start: Any) -> RowError:
    offsets = [str(match.start()) for match in re.finditer(re.escape(text), passage)]
    found = f"{text!r:.60} is " + (f"at {', '.join(offsets[:3])}, not at {start}" if offsets else "not in the passage")
    remedy = "correct answer_start" if offsets else "copy the answer from the passage"
    return RowError(location, "the passage has no such answer at answer_start", remedy, found=found)


def _get(value: Any, key: str, kind: type[JsonType], file: Path) -> JsonType:
    found = value.get(key) if isinstance(value, dict) else None
    if not isinstance(found, kind):
        raise DataError(
            f"{file}: not in SQuAD format (no {key!r}); write an object with data, paragraphs, context, qas and answers"
        )
    return found
