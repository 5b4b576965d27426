"""The tasks: one file each, and this table."""

from collections.abc import Callable
from typing import Any

from polyseme.config import nearest
from polyseme.errors import ConfigError
from polyseme.models.base import Encoder
from polyseme.tasks.base import Task, TaskConfig, Tuning
from polyseme.tasks.choice import Choice, ChoiceConfig
from polyseme.tasks.classify import Classify, ClassifyConfig
from polyseme.tasks.similarity import Similarity, SimilarityConfig
from polyseme.tasks.span import Span, SpanConfig
from polyseme.tasks.tag import Tag, TagConfig

__all__ = ["TASKS", "Task", "TaskConfig", "Tuning", "build_task", "read_task"]

TASKS: dict[str, tuple[type[TaskConfig], Callable[[Any, Encoder], Task[Any, Any]]]] = {
    "classify": (ClassifyConfig, Classify),
    "pair": (ClassifyConfig, Classify),
    "similarity": (SimilarityConfig, Similarity),
    "choice": (ChoiceConfig, Choice),
    "tag": (TagConfig, Tag),
    "span": (SpanConfig, Span),
}


def read_task(kind: str, **settings: Any) -> TaskConfig:
    """The settings of a task."""
    if kind not in TASKS:
        raise ConfigError(f"task.kind: {kind!r} is no task{nearest(kind, TASKS)}")
    return TASKS[kind][0].parse({"kind": kind, **settings}, group="task")


def build_task(config: Any, encoder: Encoder) -> Tuning:
    """What a recipe tunes an encoder for."""
    return Tuning(TASKS[config.kind][1](config, encoder), config, encoder)
