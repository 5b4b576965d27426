"""The tasks that models are fine-tuned for: one module per task, and the table of them."""

from collections.abc import Mapping
from pathlib import Path

from polyseme.config import suggest_name
from polyseme.corpora.file_readers import detect_format, uncompressed_name
from polyseme.datasets.labelled_files import column_names, find_file
from polyseme.datasets.records import Example
from polyseme.errors import ConfigError, DataError
from polyseme.models.base import Encoder
from polyseme.tasks import classification, extractive_qa, multiple_choice, sequence_labelling, text_similarity
from polyseme.tasks.base import Task
from polyseme.tasks.config import FineTuningConfig, TaskConfig
from polyseme.tasks.cross_view import UNLABELLED, CrossView
from polyseme.tasks.finetuning import AuxiliaryLm, FineTuningObjective
from polyseme.tasks.networks.linear_path import LinearPath
from polyseme.tasks.spec import TaskSpec

__all__ = [
    "TASKS",
    "FineTuningConfig",
    "FineTuningObjective",
    "Task",
    "TaskConfig",
    "TaskSpec",
    "build_finetuning_objective",
    "guess_task",
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
_RESERVED = {"lower", "upper", "views", "drop", UNLABELLED, AuxiliaryLm.name}


def task_spec(kind: str, *, group: str = "task") -> TaskSpec:
    """Return the spec of a kind of task."""
    if not isinstance(kind, str) or kind not in TASKS:
        raise ConfigError(f"{group}.kind: {kind!r:.60} is not a task{suggest_name(str(kind), TASKS)}")
    return TASKS[kind]


def guess_task(path: str | Path, *, columns: Mapping[str, str] | None = None) -> str:
    """Infer the task of a labelled file from its ending and the names of its columns."""
    file = find_file(path)
    extensions = {spec.Example.extension: kind for kind, spec in TASKS.items()}
    if detect_format(file) == "txt":
        return extensions.get(uncompressed_name(file).suffix.lower(), extensions[".conll"])
    names = column_names(file)

    def fits(kind: str, *, recognise: bool) -> bool:
        example_type = TASKS[kind].Example
        own = {field: (columns or {}).get(field, column) for field, column in example_type.columns.items()}
        return all(column in names for column in (example_type.recognise(names, own) if recognise else own).values())

    def num_columns(kind: str) -> int:
        return len(TASKS[kind].Example.columns)

    # Pairs before single texts: a question may be a text of its own or have a second one.
    tables = [kind for kind, spec in TASKS.items() if spec.Example.extension == Example.extension]
    tables.sort(key=num_columns, reverse=True)
    found = [kind for kind in tables if fits(kind, recognise=False)][:1]
    found = found or [kind for kind in tables if fits(kind, recognise=True)]
    found = [kind for kind in found if num_columns(kind) == num_columns(found[0])]
    if len(found) == 1:
        return found[0]
    if found:
        raise DataError(f"{file} fits several tasks; name the task: --task {' or --task '.join(found)}")
    if not names:
        raise DataError(f"{file} holds no examples; give at least one")
    listed = ", ".join(sorted(" ".join(name.split()) for name in names))
    raise DataError(
        f"{file}: no task has the columns {listed}; name the task, and columns that are called differently: "
        "--task classify --column text=review"
    )


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
    for name, part in parts.items():
        probe = TASKS[tasks[name].kind].probe
        # The mean of two texts in one sequence does not compare them.
        if config.linear_path and probe and (probe.inputs != "pair" or encoder.input_format == "bi_encoder"):
            part.linear_path = LinearPath(probe.inputs, encoder, part.num_scores, config.dropout)
    return FineTuningObjective(parts, config, encoder)
