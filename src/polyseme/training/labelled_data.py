"""Labelled data of a fine-tuning run: training, dev and unlabelled examples by task."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from polyseme.config import suggest_name
from polyseme.datasets.labelled_files import find_file, read_examples, require_answers, require_labels
from polyseme.errors import ConfigError, DataError
from polyseme.system.atomic_io import sha256
from polyseme.tasks import TASKS, TaskConfig, guess_task, task_spec
from polyseme.tasks.classification import BALANCED, balanced_class_weights
from polyseme.training.recipes.finetune_recipe import LabelledDataConfig, parse_tasks

Files = str | Path | Mapping[str, str | Path]  # by task


@dataclass(frozen=True, kw_only=True)
class LabelledData:
    """Examples by task."""

    train: Mapping[str, Sequence[Any]]
    dev: Mapping[str, Sequence[Any]]
    unlabelled: Sequence[Any]  # their labels, if any, are not used
    all_train: Mapping[str, Sequence[Any]]  # before `num_labels` of them were sampled; they define the label set
    fingerprint: str

    @classmethod
    def read(cls, kinds: Mapping[str, str], data: LabelledDataConfig, *, seed: int) -> Self:
        """Read the files of tasks; with `num_labels`, sample the training examples, the rest is unlabelled."""
        for name in [*data.train, *data.dev]:
            if name not in kinds:
                raise ConfigError(f"{name} has a file but is not a task{suggest_name(name, kinds)}")
        for name in kinds:
            if name not in data.train:
                raise ConfigError(f"{name} has no training file; give --train {name}=FILE")
        train, dev = (
            {name: _read(files[name], kind, data.columns) for name, kind in kinds.items() if name in files}
            for files in (data.train, data.dev)
        )
        order = {name: np.random.default_rng([seed, 7]).permutation(len(found)) for name, found in train.items()}
        sampled = {name: numbers[: data.num_labels or None] for name, numbers in order.items()}
        unlabelled = [train[name][n] for name, numbers in order.items() for n in numbers[len(sampled[name]) :]]
        if data.unlabelled:
            unlabelled = _read(data.unlabelled, next(iter(kinds.values())), data.columns)
        files = [*data.train.values(), *data.dev.values(), *([data.unlabelled] if data.unlabelled else [])]
        return cls(
            train={name: [train[name][n] for n in sorted(numbers)] for name, numbers in sampled.items()},
            dev=dev,
            unlabelled=unlabelled,
            all_train=train,
            fingerprint=hashlib.sha256("".join(sha256(find_file(file)) for file in files).encode()).hexdigest(),
        )

    def infer_configs(self, tasks: Mapping[str, Mapping[str, Any]]) -> dict[str, TaskConfig]:
        """Complete the settings of tasks from their examples, and check the examples against them."""
        values = {
            name: {**TASKS[settings["kind"]].Config.infer_config(self.all_train[name]), **settings}
            for name, settings in tasks.items()
        }
        for name, settings in values.items():
            if settings.get("weights") == BALANCED:
                settings["weights"] = balanced_class_weights(settings["labels"], self.train[name])
        configs = parse_tasks(values)
        for name, config in configs.items():
            labels = getattr(config, "labels", None)
            for examples in (self.all_train[name], self.dev.get(name, ())):
                if labels:
                    require_labels(examples, labels, self.all_train[name][0].file)
                require_answers(examples)
        return configs


def _read(path: str, kind: str, columns: Mapping[str, str]) -> list[Any]:
    schema = task_spec(kind).Example
    for name in columns:
        if not any(name in spec.Example.columns for spec in TASKS.values()):
            raise ConfigError(f"{name} is not a column of any task{suggest_name(name, schema.columns)}")
    own = {name: column for name, column in columns.items() if name in schema.columns}
    examples = read_examples(path, schema, columns=own)
    if not examples:
        raise DataError(f"{path} has no valid example; run polyseme data check {path}")
    return examples


def name_tasks(
    task: str | Mapping[str, str] | None, train: Files, dev: Files | None, columns: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, str], dict[str, str]]:
    """The kinds of tasks, their training files and their dev files by name.

    A single task is named after its kind; kinds that are not given are inferred from the training files.
    """
    if not isinstance(train, Mapping):
        kind = task if isinstance(task, str) else guess_task(train, columns=columns)
        task, train, dev = {kind: kind}, {kind: train}, {kind: dev} if isinstance(dev, str | Path) else dev
    elif not isinstance(task, Mapping):
        task = {name: task or guess_task(path, columns=columns) for name, path in train.items()}
    if isinstance(dev, str | Path):
        raise ConfigError(f"{dev} does not name its task; give dev files by task name, like the training files")
    files = [{name: str(path) for name, path in (by_name or {}).items()} for by_name in (train, dev)]
    return dict(task), files[0], files[1]
