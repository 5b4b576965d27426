"""The tasks that models are fine-tuned for: one module per task, and the table of them."""

from collections.abc import Mapping

from polyseme.config import suggest_name
from polyseme.errors import ConfigError
from polyseme.models.base import Encoder
from polyseme.tasks import classification, extractive_qa, multiple_choice, sequence_labelling, text_similarity
from polyseme.tasks.base import Task
from polyseme.tasks.config import FineTuningConfig, TaskConfig
from polyseme.tasks.cross_view import UNLABELLED, CrossView
from polyseme.tasks.finetuning import FineTuningObjective, LanguageModel
from polyseme.tasks.spec import TaskSpec

__all__ = [
    "TASKS",
    "FineTuningConfig",
    "FineTuningObjective",
    "Task",
    "TaskConfig",
    "TaskSpec",
    "build_finetuning_objective",
    "parse_task",
    "task_spec",
]

TASKS: dict[str, TaskSpec] = {
    spec.kind: spec
    for spec in (
        classification.TEXT,
        classification.PAIR,
        text_similarity.SPEC,
        multiple_choice.SPEC,
        sequence_labelling.SPEC,
        extractive_qa.SPEC,
    )
}

# Names of weights and losses contain the names of tasks, and these are used otherwise.
_RESERVED = {"lower", "upper", "views", "drop", UNLABELLED, LanguageModel.name}


def task_spec(kind: str, *, group: str = "task") -> TaskSpec:
    """Return the spec of a kind of task."""
    if kind not in TASKS:
        raise ConfigError(f"{group}.kind: {kind!r:.60} is not a task{suggest_name(kind, TASKS)}")
    return TASKS[kind]


def parse_task(kind: str, *, group: str = "task", **settings: object) -> TaskConfig:
    """Validate the settings of a task."""
    return task_spec(kind, group=group).Config.parse({"kind": kind, **settings}, group=group)


def build_finetuning_objective(
    tasks: Mapping[str, TaskConfig], config: FineTuningConfig, encoder: Encoder
) -> FineTuningObjective:
    """Build the heads of tasks, by name, for an encoder."""
    for name in tasks:
        if name in _RESERVED or not name or "." in name:
            raise ConfigError(f"tasks.{name}: this name is reserved; choose another one, without dots")
    if config.text_pairs == "bi_encoder":
        for name, task in tasks.items():
            if not TASKS[task.kind].compares_texts:
                raise ConfigError(f"finetuning.text_pairs: {name} does not compare texts; remove this setting")
        encoder.input_format = "bi_encoder"
    if config.method == "cvt":
        return CrossView(tasks, config, encoder)
    parts = {name: TASKS[task.kind].Head(name, task, config, encoder) for name, task in tasks.items()}
    return FineTuningObjective(parts, config, encoder)
