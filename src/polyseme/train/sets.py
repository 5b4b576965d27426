"""The labelled sets of a fine-tuning: to learn from, to measure on, and to learn from without labels."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from polyseme.config import nearest
from polyseme.errors import ConfigError, DataError
from polyseme.files import sha256
from polyseme.tasks import TASKS, TaskConfig
from polyseme.tasks.classify import BALANCED, balance
from polyseme.text.forms import TASKS as FORMS
from polyseme.text.labelled import find_file, read_examples, require_answers, require_labels
from polyseme.train.tuning_recipe import LabelledConfig, read_tasks


@dataclass(frozen=True, kw_only=True)
class Labelled:
    """Examples by task."""

    train: Mapping[str, Sequence[Any]]
    dev: Mapping[str, Sequence[Any]]
    unlabelled: Sequence[Any]  # whatever labels they have
    labels: Mapping[str, Sequence[Any]]  # all examples to learn labels from, though only some are learnt from
    fingerprint: str

    @classmethod
    def read(cls, kinds: Mapping[str, str], data: LabelledConfig, *, seed: int) -> Self:
        """Read the files of tasks; if only some of the labels count, chance says which, and the rest has none."""
        for name in [*data.train, *data.dev]:
            if name not in kinds:
                raise ConfigError(f"{name}: there is a file for it, but no such task{nearest(name, kinds)}")
        whole, dev = {}, {}
        for name, kind in kinds.items():
            if name not in data.train:
                raise ConfigError(f"{name}: there is nothing to learn it from; give --train {name}=FILE")
            whole[name] = _read(data.train[name], kind, data.columns)
            if name in data.dev:
                dev[name] = _read(data.dev[name], kind, data.columns)
        order = {name: np.random.default_rng([seed, 7]).permutation(len(found)) for name, found in whole.items()}
        drawn = {name: numbers[: data.num_labels or None] for name, numbers in order.items()}
        rest = [whole[name][n] for name, numbers in order.items() for n in numbers[len(drawn[name]) :]]
        if data.unlabelled:
            rest = _read(data.unlabelled, next(iter(kinds.values())), data.columns)
        files = [*data.train.values(), *data.dev.values(), *([data.unlabelled] if data.unlabelled else [])]
        return cls(
            train={name: [whole[name][n] for n in sorted(numbers)] for name, numbers in drawn.items()},
            dev=dev,
            unlabelled=rest,
            labels=whole,
            fingerprint=hashlib.sha256("".join(sha256(find_file(file)) for file in files).encode()).hexdigest(),
        )

    def settle(self, tasks: Mapping[str, Mapping[str, Any]]) -> dict[str, TaskConfig]:
        """The settings of tasks, with what the examples tell; an example that they do not allow is named."""
        told = {
            name: {**TASKS[settings["kind"]][0].told_by(self.labels[name]), **settings}
            for name, settings in tasks.items()
        }
        for name, settings in told.items():
            if settings.get("weights") == BALANCED:
                settings["weights"] = balance(settings["labels"], self.train[name])
        settled = read_tasks(told)
        for name, task in settled.items():
            known = getattr(task, "labels", None)
            for examples in (self.labels[name], self.dev.get(name, ())):
                if known:
                    require_labels(examples, known, self.labels[name][0].file)
                require_answers(examples)
        return settled


def _read(path: str, kind: str, columns: Mapping[str, str]) -> list[Any]:
    if kind not in FORMS:
        raise ConfigError(f"{kind!r:.60} is no task{nearest(kind, FORMS)}")
    own = {name: column for name, column in columns.items() if name in FORMS[kind].columns}
    for name in columns:
        if not any(name in form.columns for form in FORMS.values()):
            raise ConfigError(f"{name} is nothing that a task needs{nearest(name, FORMS[kind].columns)}")
    examples = read_examples(path, FORMS[kind], columns=own)
    if not examples:
        raise DataError(f"{path} holds no example that can be used; run polyseme data check {path}")
    return examples
