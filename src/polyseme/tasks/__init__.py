"""The tasks: one file each, and this table."""

from collections.abc import Callable, Mapping
from typing import Any

from polyseme.config import nearest
from polyseme.errors import ConfigError
from polyseme.models.base import Encoder
from polyseme.tasks.base import LanguageModel, Task, TaskConfig, Tuning, TuningConfig
from polyseme.tasks.choice import Choice, ChoiceConfig
from polyseme.tasks.classify import Classify, ClassifyConfig
from polyseme.tasks.cross_view import UNLABELLED, CrossView
from polyseme.tasks.similarity import Similarity, SimilarityConfig
from polyseme.tasks.span import Span, SpanConfig
from polyseme.tasks.tag import Tag, TagConfig

__all__ = ["TASKS", "Task", "TaskConfig", "Tuning", "TuningConfig", "build_tuning", "read_task"]

TASKS: dict[str, tuple[type[TaskConfig], Callable[..., Task[Any, Any]]]] = {
    "classify": (ClassifyConfig, Classify),
    "pair": (ClassifyConfig, Classify),
    "similarity": (SimilarityConfig, Similarity),
    "choice": (ChoiceConfig, Choice),
    "tag": (TagConfig, Tag),
    "span": (SpanConfig, Span),
}

# Names of weights and losses are made of those of tasks, beside these.
_TAKEN = {"lower", "upper", "views", "drop", UNLABELLED, LanguageModel.name}


def read_task(kind: str, *, group: str = "task", **settings: Any) -> TaskConfig:
    """The settings of a task."""
    if kind not in TASKS:
        raise ConfigError(f"{group}.kind: {kind!r:.60} is no task{nearest(kind, TASKS)}")
    return TASKS[kind][0].parse({"kind": kind, **settings}, group=group)


def build_tuning(tasks: Mapping[str, TaskConfig], config: TuningConfig, encoder: Encoder) -> Tuning:
    """What a recipe tunes an encoder for: tasks by name."""
    for name in tasks:
        if name in _TAKEN or not name or "." in name:
            raise ConfigError(f"tasks.{name}: a task cannot be called that; choose another name, without dots")
    if config.texts == "apart":
        _read_apart(tasks, encoder)
    if config.method == "cvt":
        return CrossView(tasks, config, encoder)
    parts = {name: TASKS[task.kind][1](name, task, config, encoder) for name, task in tasks.items()}
    return Tuning(parts, config, encoder)


def _read_apart(tasks: Mapping[str, TaskConfig], encoder: Encoder) -> None:
    for name, task in tasks.items():
        if task.kind not in ("pair", "similarity", "choice"):
            raise ConfigError(f"tuning.texts: {name} is not about texts that are compared; leave this setting away")
    encoder.layout = "apart"
