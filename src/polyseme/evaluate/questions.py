"""Files of questions for a model that goes on from a text; which task it is, the file tells.

| task | file | asked for |
|---|---|---|
| complete | `text` | its last word |
| choose | `context`, `choices`, `answer` | the choice that goes on, or answers |
| answer | JSON of SQuAD | a question about a passage |
| summarise | `text`, `summary` | a summary |
| translate | `source`, `target` | a translation |
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from polyseme.errors import DataError
from polyseme.evaluate.templates import Language, Template, between, language_of, template
from polyseme.text.corpus import Reader, format_of
from polyseme.text.forms import ChoiceExample, SpanExample
from polyseme.text.labelled import find_file, read_examples
from polyseme.text.parallel import Parallel
from polyseme.text.records import Record
from polyseme.text.spacing import Spacing
from polyseme.text.units import choose_segmenter

_END = re.compile(r"[\W_]*$")
_QUESTION = ("?", "？")


@dataclass(frozen=True, kw_only=True)
class Item:
    """Something that is asked, and what would be right."""

    question: str  # up to where a model goes on
    answers: tuple[str, ...]  # any of them; none where there is nothing to say
    template: Template
    choices: tuple[str, ...] = ()

    @property
    def example(self) -> str:
        """The question with its answer."""
        return self.question + self.template.reply(self.answers[0])


@dataclass(frozen=True, kw_only=True)
class Questions:
    """The items of a file."""

    file: Path
    task: str
    language: Language  # by whose rules answers are held against each other
    items: list[Item]

    def drawn(self, most: int, seed: int) -> Questions:
        """So many of them, in order."""
        if not 0 < most < len(self.items):
            return self
        chosen = random.Random(f"{self.task} {seed}").sample(range(len(self.items)), most)
        return replace(self, items=[self.items[number] for number in sorted(chosen)])

    def prompts(self, pool: Questions, shots: int, seed: int) -> list[str]:
        """Each question after so many examples, drawn for each anew from those of a pool that are not it."""
        if pool.task != self.task:
            raise DataError(
                f"{pool.file} has examples to {pool.task}, and {self.file} asks to {self.task}; give others"
            )
        known = [item for item in pool.items if item.answers]
        prompts = []
        for number, item in enumerate(self.items):
            some = random.Random(f"{number} {seed}").sample(known, min(shots + 1, len(known))) if shots else []
            others = [other for other in some if other is not item][:shots]
            if len(others) < shots:
                raise DataError(f"{pool.file} has {len(others)} other examples with answers; ask for fewer --shots")
            prompts.append(item.template.join((one.example for one in others), item.question))
        return prompts


def read_questions(path: str | Path, language: str = "auto") -> Questions:
    """The questions of a file, in the language that it is in or the one that is said."""
    file = find_file(path)
    task = _task(file)
    items, told = _READERS[task](file, language)
    if not items:
        raise DataError(f"{file} holds nothing to ask; give at least one row")
    return Questions(file=file, task=task, language=told, items=items)


def item(task: str, language: Language, answers: Sequence[str], **values: str) -> Item:
    """Something asked in the words of a task."""
    words = template(task, language)
    return Item(question=words.question(**values), answers=tuple(answers), template=words)


def question_task(context: str) -> str:
    """Whether choices answer a text or go on from it."""
    return "choose" if context.rstrip().endswith(_QUESTION) else "continue"


def _task(file: Path) -> str:
    if format_of(file) == "txt":
        if ".json" in file.suffixes:
            return "answer"
        raise DataError(f"{file} is plain text; write questions as .jsonl, .tsv or .csv, or as the JSON of SQuAD")
    _, first = next(Reader(file).records(), (0, {}))
    for task, columns in _COLUMNS.items():
        if columns <= first.keys() and not (task == "complete" and "label" in first):
            return task
    there = ", ".join(sorted(" ".join(name.split()) for name in first if name)) or "none"
    raise DataError(f"{file}: its columns are those of no prompt ({there}); see polyseme evaluate --help")


def _complete(file: Path, language: str) -> tuple[list[Item], Language]:
    texts = [record.text("text") for record in _records(file)]
    told = _told(language, texts)
    cut = _words_of(told)
    items = []
    for text in texts:
        context, word = cut(text)
        if context and word:  # of a single word nothing can be asked
            items.append(item("complete", told, [word], context=context))
    return items, told


def _choose(file: Path, language: str) -> tuple[list[Item], Language]:
    examples = read_examples(file, ChoiceExample)
    told = _told(language, [example.context for example in examples])
    items = []
    for example in examples:
        right = [example.choices[example.answer]]
        asked = item(question_task(example.context), told, right, context=example.context)
        items.append(replace(asked, choices=example.choices))
    return items, told


def _answer(file: Path, language: str) -> tuple[list[Item], Language]:
    examples = read_examples(file, SpanExample)
    told = _told(language, [example.passage for example in examples])
    return [
        item("answer", told, [a.text for a in one.answers], passage=one.passage, question=one.question)
        for one in examples
    ], told


def _summarise(file: Path, language: str) -> tuple[list[Item], Language]:
    records = list(_records(file))
    told = _told(language, [record.text("text") for record in records])
    return [item("summarise", told, [one.text("summary")], text=one.text("text")) for one in records], told


def _translate(file: Path, language: str) -> tuple[list[Item], Language]:
    rows = list(Parallel(file).rows())
    source, target = (language_of(side) for side in zip(*rows, strict=True))
    words = translation_template(language, source, target)
    return [Item(question=words.question(source=one), answers=(other,), template=words) for one, other in rows], target


def translation_template(language: str, source: Language, target: Language) -> Template:
    """In the words of a language, or in those that fit the two languages."""
    if language == "zh" and source == target:
        target = "en" if source == "zh" else "zh"
    return template("translate", "en" if language == "en" else between(source, target))


_COLUMNS = {
    "choose": {"context", "choices", "answer"},
    "translate": {"source", "target"},
    "summarise": {"text", "summary"},
    "complete": {"text"},
}
_READERS: dict[str, Callable[[Path, str], tuple[list[Item], Language]]] = {
    "complete": _complete,
    "choose": _choose,
    "answer": _answer,
    "summarise": _summarise,
    "translate": _translate,
}


def _records(file: Path) -> Iterator[Record]:
    return (Record(file, number, values, {}) for number, values in Reader(file).records())


def _told(language: str, texts: Sequence[str]) -> Language:
    return language_of(texts) if language == "auto" else "zh" if language == "zh" else "en"


def _words_of(language: Language) -> Callable[[str], tuple[str, str]]:
    """What takes the last word off a text, without the marks behind it; in Chinese one that a segmenter finds."""
    spacing = Spacing(choose_segmenter("auto"))

    def cut(text: str) -> tuple[str, str]:
        text = _END.sub("", text)
        word = text.split()[-1] if text else ""
        if language == "zh":
            spaced = spacing.space(word).split()
            word = spaced[-1] if spaced and spacing.segmenter != "none" else word[-1:]
        return text[: len(text) - len(word)].rstrip(), word

    return cut
