"""The labelled sets of a comparison: found, checked, and as much of them as is used written down anew.

A file lists them as `[name]` with `task`, `train`, `dev`, `test` and, where columns have other names, `columns`; or a
folder holds folders with `train.*`, `dev.*` and `test.*`. Folders called words, minimal_pairs and senses hold sets that
are measured on and never learnt from.
"""

from __future__ import annotations

import json
import statistics
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

from pydantic import Field

from polyseme.config import Config, nearest
from polyseme.errors import ConfigError, DataError
from polyseme.files import whole_folder
from polyseme.tasks.metrics import marks_entities
from polyseme.text.forms import TASKS as FORMS
from polyseme.text.forms import ChoiceExample, ClassifyExample, PairExample, SimilarityExample, SpanExample, TagExample
from polyseme.text.labelled import find_labels, guess_task, read_examples, require_answers, require_labels
from polyseme.text.records import Example

SUITES = {"words": "words", "minimal_pairs": "minimal-pairs", "senses": "senses"}
METRICS = {"classify": "accuracy", "pair": "accuracy", "similarity": "spearman", "choice": "accuracy", "span": "f1"}

_SIDES = ("train", "dev", "test")
_PASSED_OVER = ("translate", "edges", "prompts")  # folders of samples that are no task here
_HELD_BACK = 0.1  # of what is to learn from, where there is no dev or no test file


class TaskConfig(Config):
    """A labelled set as a file lists it."""

    task: str = ""  # classify, pair, similarity, choice, tag or span; else the file tells
    train: str
    dev: str = ""
    test: str = ""  # else examples held back from train
    labels: tuple[int, ...] = ()  # examples to learn from; else those of the comparison
    columns: dict[str, str] = Field(default_factory=dict)
    about: str = ""


@dataclass(frozen=True, kw_only=True)
class Task:
    """A labelled set."""

    name: str
    kind: str
    sides: Mapping[str, Sequence[Any]]  # examples to learn from, to choose by and to measure on
    labels: tuple[int, ...] = ()
    about: str = ""
    derived: bool = False

    @property
    def metric(self) -> str:
        """What it goes by."""
        if self.kind == "tag":
            return "f1" if marks_entities(find_labels(self.sides["train"])) else "accuracy"
        return METRICS[self.kind]

    @property
    def majority(self) -> float | None:
        """What always saying the most frequent label earns."""
        if self.kind not in ("classify", "pair", "choice"):
            return None
        usual = Counter(example.labels[0] for example in self.sides["train"]).most_common(1)[0][0]
        return statistics.fmean(example.labels[0] == usual for example in self.sides["test"])

    def describe(self) -> dict[str, Any]:
        """What a report tells of it."""
        facts = {"name": self.name, "kind": self.kind, "metric": self.metric, "derived": self.derived}
        facts |= {side: len(examples) for side, examples in self.sides.items()}
        return facts | {"about": self.about or None, "majority": self.majority}


@dataclass(frozen=True, kw_only=True)
class Found:
    """Labelled sets, and folders of sets that are only measured on, by suite."""

    tasks: list[Task]
    suites: dict[str, list[Path]]


def find_tasks(path: str, *, seed: int) -> Found:
    """The sets that a file lists or a folder holds, checked as a whole."""
    if not path:
        return Found(tasks=[], suites={})
    place = Path(path)
    if place.is_dir():
        return _search(place, seed)
    try:
        listed = tomllib.loads(place.read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(
            f"{path} cannot be read ({error.strerror}); name a folder of labelled sets, or a file"
        ) from None
    except (ValueError, RecursionError) as error:
        raise DataError(
            f"{path} is not TOML ({error!s:.100}); write [name], and below it task, train, dev and test"
        ) from None
    tasks: list[Task] = []
    suites: dict[str, list[Path]] = {}
    for name, values in listed.items():
        if name in SUITES and isinstance(values, str | list):
            paths = [values] if isinstance(values, str) else values
            suites.setdefault(SUITES[name], []).extend(_beside(place, str(file)) for file in paths)
            continue
        if not isinstance(values, dict):
            raise ConfigError(f"{path}: {name} is no set; write [{name}], and below it task, train, dev and test")
        told = TaskConfig.parse(values, group=name)
        files = {side: str(_beside(place, file)) for side in _SIDES if (file := getattr(told, side))}
        tasks.append(_read(name, files, told, seed))
    if not tasks and not suites:
        raise DataError(f"{path} lists no sets; write [name], and below it task, train, dev and test")
    return Found(tasks=tasks, suites=suites)


def _beside(listing: Path, path: str) -> Path:
    return Path(path) if Path(path).is_absolute() else listing.parent / path


def _search(folder: Path, seed: int) -> Found:
    tasks: list[Task] = []
    suites: dict[str, list[Path]] = {}
    for place in [folder, *sorted(path for path in folder.rglob("*") if path.is_dir())]:
        inside = place.relative_to(folder).parts
        kind = next((part for part in (*inside, folder.name) if _stem(part) in SUITES), None)
        if kind is not None:
            if _stem(place.name) in SUITES:
                suites.setdefault(SUITES[_stem(place.name)], []).append(place)
            continue
        if any(_stem(part) in _PASSED_OVER for part in (*inside, folder.name)):
            continue
        files = {side: str(found[0]) for side in _SIDES if (found := sorted(place.glob(f"{side}.*")))}
        if {"train", "test"} <= files.keys() or {"train", "dev"} <= files.keys():
            name = "-".join(inside) or folder.name
            tasks.append(_read(name, files, TaskConfig(train=""), seed))
    if not tasks and not suites:
        raise DataError(
            f"{folder} holds no labelled sets; give folders with train, dev and test files, or words, minimal_pairs, "
            "senses"
        )
    return Found(tasks=tasks, suites=suites)


def _stem(name: str) -> str:
    """The name without a language: words_zh."""
    return name.removesuffix("_zh")


def _read(name: str, files: Mapping[str, str], told: TaskConfig, seed: int) -> Task:
    """Read a set; what is missing of dev and test is taken from the others, so that test is never learnt from."""
    kind = told.task or guess_task(files["train"], columns=told.columns)
    if kind not in FORMS:
        raise ConfigError(f"{name}.task: {kind!r:.40} is no task{nearest(kind, FORMS)}")
    sides = {side: list(read_examples(file, FORMS[kind], columns=told.columns)) for side, file in files.items()}
    if "test" not in sides and "dev" in sides:
        sides["test"] = sides.pop("dev")
    for side in ("dev", "test"):
        if side not in sides:
            order = Random(f"{name} {side} {seed}").sample(sides["train"], len(sides["train"]))
            number = max(1, round(_HELD_BACK * len(order)))
            sides[side], sides["train"] = order[:number], order[number:]
    return check_task(Task(name=name, kind=kind, sides=sides, labels=told.labels, about=told.about))


def check_task(task: Task) -> Task:
    """Refuse a set that nothing can be learnt from or measured on."""
    for side in _SIDES:
        if len(task.sides[side]) < 2:
            raise DataError(f"{task.name}: {side} has too few examples; give at least two")
    if task.kind in ("classify", "pair", "tag"):
        labels = find_labels(task.sides["train"])
        for side in ("dev", "test"):
            require_labels(task.sides[side], labels, task.sides["train"][0].file)
    for side in _SIDES:
        require_answers(task.sides[side])
    return task


def bounded(task: Task, sizes: Mapping[str, int], *, seed: int) -> Task:
    """As many examples of each side as there is time for, the same ones each time, and none of a label that is lost."""
    sides = {side: _drawn(examples, sizes[side], f"{task.name} {side} {seed}") for side, examples in task.sides.items()}
    if task.kind in ("classify", "pair", "tag"):
        known = {label for example in sides["train"] for label in example.labels}
        for example in task.sides["train"]:
            if not known.issuperset(example.labels):
                known.update(example.labels)
                sides["train"].append(example)
    return replace(task, sides=sides)


def _drawn(examples: Sequence[Any], most: int, seed: str) -> list[Any]:
    if len(examples) <= most:
        return list(examples)
    return [examples[number] for number in sorted(Random(seed).sample(range(len(examples)), most))]


def label_counts(task: Task, wanted: Sequence[int]) -> list[int]:
    """The numbers of examples to learn from, from few to all."""
    most = len(task.sides["train"])
    return sorted({min(number or most, most) for number in task.labels or wanted})


def write_task(task: Task, folder: Path) -> dict[str, Path]:
    """The files of a set under our names; what is there already stays."""
    ending = {"tag": "conll", "span": "json"}.get(task.kind, "jsonl")
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with whole_folder(folder) as beside:
            for side, examples in task.sides.items():
                (beside / f"{side}.{ending}").write_text(_content(task.kind, examples), encoding="utf-8")
    return {side: folder / f"{side}.{ending}" for side in _SIDES}


def _content(kind: str, examples: Sequence[Example]) -> str:
    if kind == "tag":
        sentences = [zip(one.words, one.tags, strict=True) for one in examples if isinstance(one, TagExample)]
        return "\n".join("".join(f"{word}\t{tag}\n" for word, tag in sentence) for sentence in sentences)
    if kind == "span":
        paragraphs = [_squad(example) for example in examples if isinstance(example, SpanExample)]
        return json.dumps({"version": "v2.0", "data": [{"title": "", "paragraphs": paragraphs}]}, ensure_ascii=False)
    return "".join(json.dumps(_values(example), ensure_ascii=False) + "\n" for example in examples)


def _values(example: Example) -> dict[str, Any]:
    match example:
        case ClassifyExample():
            return {"text": example.text, "label": example.label}
        case PairExample():
            return {"text_a": example.text_a, "text_b": example.text_b, "label": example.label}
        case SimilarityExample():
            return {"text_a": example.text_a, "text_b": example.text_b, "score": example.score}
        case ChoiceExample():
            return {"context": example.context, "choices": example.choices, "answer": example.answer}
    raise TypeError(type(example))


def _squad(example: SpanExample) -> dict[str, Any]:
    answers = [
        {"text": answer.text, "answer_start": -1 if answer.start is None else answer.start}
        for answer in example.answers
    ]
    asked = {"id": example.id, "question": example.question, "answers": answers, "is_impossible": not answers}
    return {"context": example.passage, "qas": [asked]}
