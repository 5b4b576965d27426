"""Files of prompting questions; the columns determine the task.

| task | file | expected answer |
|---|---|---|
| complete | `text` | its last word |
| choose | `context`, `choices`, `answer` | the choice that continues or answers the context |
| answer | SQuAD JSON | the answer to a question about a passage |
| summarise | `text`, `summary` | a summary |
| translate | `source`, `target` | a translation |
"""

import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from polyseme.corpora.file_readers import FileReader, detect_format
from polyseme.corpora.parallel import ParallelCorpus
from polyseme.datasets.labelled_files import find_file, read_examples
from polyseme.datasets.records import Record
from polyseme.datasets.squad import SpanExample
from polyseme.datasets.task_schemas import ChoiceExample
from polyseme.errors import DataError
from polyseme.evaluation.prompting.templates import Language, Template, detect_language, get_template
from polyseme.tokenization.word_segmentation import WordSegmentation, choose_segmenter

_END = re.compile(r"[\W_]*$")
_QUESTION = ("?", "？")


@dataclass(frozen=True, kw_only=True)
class PromptItem:
    """A question with its accepted answers."""

    question: str  # the prompt without examples
    answers: tuple[str, ...]  # any of them is correct; empty if unanswerable
    template: Template
    choices: tuple[str, ...] = ()

    @property
    def example(self) -> str:
        """The question followed by its first answer."""
        return self.question + self.template.format_answer(self.answers[0])


@dataclass(frozen=True, kw_only=True)
class PromptSet:
    """The questions of a file."""

    file: Path
    task: str
    language: Language  # whose rules normalise answers for comparison
    items: list[PromptItem]

    def sample(self, most: int, seed: int) -> Self:
        """Sample `most` questions (0: all), in order."""
        if not 0 < most < len(self.items):
            return self
        chosen = random.Random(f"{self.task} {seed}").sample(range(len(self.items)), most)
        return replace(self, items=[self.items[number] for number in sorted(chosen)])

    def prompts(self, pool: Self, shots: int, seed: int) -> list[str]:
        """Precede each question by `shots` solved examples, sampled per question from the others in the pool."""
        if pool.task != self.task:
            raise DataError(
                f"{pool.file} has examples of {pool.task}, but {self.file} is {self.task}; give matching examples"
            )
        answered = [item for item in pool.items if item.answers]
        prompts = []
        for number, item in enumerate(self.items):
            rng = random.Random(f"{number} {seed}")
            candidates = rng.sample(answered, min(shots + 1, len(answered))) if shots else []
            others = [other for other in candidates if other is not item][:shots]
            if len(others) < shots:
                raise DataError(f"{pool.file} has {len(others)} other examples with answers; use fewer --shots")
            prompts.append(item.template.join((one.example for one in others), item.question))
        return prompts


def read_prompts(path: str | Path, language: str = "auto") -> PromptSet:
    """Read the questions of a file, with templates in the given or the detected language."""
    file = find_file(path)
    task = _task(file)
    items, used = _READERS[task](file, language)
    if not items:
        raise DataError(f"{file} has no questions; give at least one row")
    return PromptSet(file=file, task=task, language=used, items=items)


def make_item(template: Template, *answers: str, choices: tuple[str, ...] = (), **values: str) -> PromptItem:
    """Fill in a template."""
    return PromptItem(question=template.question(**values), answers=answers, template=template, choices=choices)


def choice_template(context: str, language: str) -> Template:
    """The template for choices that answer the context, if it is a question, or continue it."""
    return get_template("choose" if context.rstrip().endswith(_QUESTION) else "continue", language)


def _task(file: Path) -> str:
    if detect_format(file) == "txt":
        if ".json" in file.suffixes:
            return "answer"
        raise DataError(f"{file} is plain text; write questions as .jsonl, .tsv, .csv or SQuAD JSON")
    _, first = next(FileReader(file).records(), (0, {}))
    for task, columns in _COLUMNS.items():
        if columns <= first.keys() and not (task == "complete" and "label" in first):
            return task
    there = ", ".join(sorted(" ".join(name.split()) for name in first if name)) or "none"
    raise DataError(f"{file}: no task has these columns ({there}); see polyseme evaluate --help")


def _complete(file: Path, language: str) -> tuple[list[PromptItem], Language]:
    texts = [record.text("text") for record in _records(file)]
    used = _template_language(language, texts)
    template, split_text = get_template("complete", used), _last_word_splitter(used)
    pairs = (pair for pair in map(split_text, texts) if all(pair))  # a single word has no context
    return [make_item(template, word, context=context) for context, word in pairs], used


def _choose(file: Path, language: str) -> tuple[list[PromptItem], Language]:
    examples = read_examples(file, ChoiceExample)
    used = _template_language(language, [example.context for example in examples])
    return [
        make_item(choice_template(one.context, used), one.choices[one.answer], choices=one.choices, context=one.context)
        for one in examples
    ], used


def _answer(file: Path, language: str) -> tuple[list[PromptItem], Language]:
    examples = read_examples(file, SpanExample)
    used = _template_language(language, [example.passage for example in examples])
    template = get_template("answer", used)
    return [
        make_item(template, *(span.text for span in one.answers), passage=one.passage, question=one.question)
        for one in examples
    ], used


def _summarise(file: Path, language: str) -> tuple[list[PromptItem], Language]:
    records = list(_records(file))
    used = _template_language(language, [record.text("text") for record in records])
    template = get_template("summarise", used)
    return [make_item(template, record.text("summary"), text=record.text("text")) for record in records], used


def _translate(file: Path, language: str) -> tuple[list[PromptItem], Language]:
    rows = list(ParallelCorpus(file).sentence_pairs())
    source, target = (detect_language(texts) for texts in zip(*rows, strict=True))
    template = translation_template(language, source, target)
    return [make_item(template, translation, source=text) for text, translation in rows], target


def translation_template(language: str, source: Language, target: Language) -> Template:
    """The template in a given language, or the one that fits the two languages."""
    if language == "zh" and source == target:
        target = "en" if source == "zh" else "zh"
    # In Chinese for translation to or from Chinese, otherwise with an equals sign only.
    return get_template("translate", "en" if language == "en" or source == target else f"{source}-{target}")


_COLUMNS = {
    "choose": {"context", "choices", "answer"},
    "translate": {"source", "target"},
    "summarise": {"text", "summary"},
    "complete": {"text"},
}
_READERS: dict[str, Callable[[Path, str], tuple[list[PromptItem], Language]]] = {
    "complete": _complete,
    "choose": _choose,
    "answer": _answer,
    "summarise": _summarise,
    "translate": _translate,
}


def _records(file: Path) -> Iterator[Record]:
    return (Record(file, number, values, {}) for number, values in FileReader(file).records())


def _template_language(language: str, texts: Sequence[str]) -> Language:
    return detect_language(texts) if language == "auto" else "zh" if language == "zh" else "en"


def _last_word_splitter(language: Language) -> Callable[[str], tuple[str, str]]:
    """Return a function that splits off the last word of a text; in Chinese, with a segmenter."""
    segmentation = WordSegmentation(choose_segmenter("auto"))

    def split_text(text: str) -> tuple[str, str]:
        text = _END.sub("", text)
        word = text.split()[-1] if text else ""
        if language == "zh":
            words = segmentation.segment(word).split()
            word = words[-1] if words and segmentation.segmenter != "none" else word[-1:]
        return text[: len(text) - len(word)].rstrip(), word

    return split_text
