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
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from polyseme.corpora.corpus import ParallelCorpus
from polyseme.corpora.file_readers import FileReader, detect_format
from polyseme.corpora.sampling import sample_in_order
from polyseme.datasets.labelled_files import column_names, find_file, read_examples
from polyseme.datasets.records import Record
from polyseme.datasets.squad import SpanExample
from polyseme.datasets.task_schemas import ChoiceExample
from polyseme.errors import DataError
from polyseme.evaluation.prompting.templates import Language, PromptTemplate, detect_language, prompt_templates
from polyseme.tokenization.word_segmentation import WordSegmentation, choose_segmenter

_END = re.compile(r"[\W_]*$")
_QUESTION = ("?", "？")
_COLUMNS = {
    "choose": {"context", "choices", "answer"},
    "translate": {"source", "target"},
    "summarise": {"text", "summary"},
    "complete": {"text"},
}

_Row = tuple[dict[str, str], tuple[str, ...], tuple[str, ...]]  # fields of the template, answers and choices


@dataclass(frozen=True, kw_only=True)
class PromptItem:
    """A question with its accepted answers."""

    question: str  # the prompt without examples
    answers: tuple[str, ...]  # any of them is correct; empty if unanswerable
    template: PromptTemplate
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
        return replace(self, items=sample_in_order(self.items, most, f"{self.task} {seed}"))

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
    rows = list(_read_rows(file, task))
    source = detect_language(next(iter(values.values())) for values, *_ in rows)
    used: Language = source if language == "auto" else "zh" if language == "zh" else "en"
    template_language: str = used
    if task == "translate":
        used = detect_language(answer for _, (answer,), _ in rows)
        template_language = translation_language(language, source, used)
    elif task == "complete":
        segmentation = WordSegmentation(choose_segmenter("auto"))
        pairs = [_split_last_word(values["context"], used, segmentation) for values, *_ in rows]
        rows = [({"context": context}, (word,), ()) for context, word in pairs if context and word]
    if not rows:
        raise DataError(f"{file} has no questions; give at least one row")
    return PromptSet(
        file=file, task=task, language=used, items=[make_item(task, template_language, *row) for row in rows]
    )


def make_item(
    task: str, language: str, values: Mapping[str, str], answers: tuple[str, ...] = (), choices: tuple[str, ...] = ()
) -> PromptItem:
    """Fill in the template of a task; choices answer the context, if it is a question, or continue it."""
    if task == "choose" and not values["context"].rstrip().endswith(_QUESTION):
        task = "continue"
    template = prompt_templates()[task][language]
    return PromptItem(question=template.question(**values), answers=answers, template=template, choices=choices)


def translation_language(language: str, source: Language, target: Language) -> str:
    """The given language of the template, or the one that fits the two languages."""
    if language == "zh" and source == target:
        target = "en" if source == "zh" else "zh"
    # In Chinese for translation to or from Chinese, otherwise with an equals sign only.
    return "en" if language == "en" or source == target else f"{source}-{target}"


def _task(file: Path) -> str:
    if detect_format(file) == "txt":
        if ".json" in file.suffixes:
            return "answer"
        raise DataError(f"{file} is plain text; write questions as .jsonl, .tsv, .csv or SQuAD JSON")
    names = column_names(file)
    for task, columns in _COLUMNS.items():
        if columns <= names and not (task == "complete" and "label" in names):
            return task
    there = ", ".join(sorted(" ".join(name.split()) for name in names if name)) or "none"
    raise DataError(f"{file}: no task has these columns ({there}); see polyseme evaluate --help")


def _read_rows(file: Path, task: str) -> Iterator[_Row]:
    if task == "choose":
        for choice in read_examples(file, ChoiceExample):
            yield {"context": choice.context}, (choice.choices[choice.answer],), choice.choices
    elif task == "answer":
        for one in read_examples(file, SpanExample):
            yield {"passage": one.passage, "question": one.question}, tuple(span.text for span in one.answers), ()
    elif task == "translate":
        for source, target in ParallelCorpus(file).sentence_pairs():
            yield {"source": source}, (target,), ()
    else:
        for number, values in FileReader(file).records():
            record = Record(file, number, values, {})
            if task == "summarise":
                yield {"text": record.text("text")}, (record.text("summary"),), ()
            else:
                yield {"context": record.text("text")}, (), ()


def _split_last_word(text: str, language: Language, segmentation: WordSegmentation) -> tuple[str, str]:
    """A text without its last word, and this word; in Chinese, a segmenter finds it."""
    text = _END.sub("", text)
    word = text.split()[-1] if text else ""
    if language == "zh":
        words = segmentation.segment(word).split()
        word = words[-1] if words and segmentation.segmenter != "none" else word[-1:]
    return text[: len(text) - len(word)].rstrip(), word
