"""Labelled datasets of a comparison: found, checked, subsampled and written to the folder of the comparison.

A TOML file lists them as `[name]` with `task`, `train`, `dev`, `test` and, if columns have other names, `columns`; or a
folder contains folders with `train.*`, `dev.*` and `test.*`. Folders called words, minimal_pairs, senses and retrieval
contain evaluation suites without training data.
"""

import statistics
import tomllib
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

from pydantic import Field

from polyseme.config import Config
from polyseme.datasets.labelled_files import find_labels, read_examples, require_answers, require_labels
from polyseme.errors import CheckpointError, ConfigError, DataError
from polyseme.system.atomic_io import write_file
from polyseme.system.io_errors import readable, writable
from polyseme.tasks import TASKS, TaskSpec, guess_task, task_spec

# folder → suite
SUITES = {"words": "words", "minimal_pairs": "minimal-pairs", "senses": "senses", "retrieval": "retrieval"}

_SPLITS = ("train", "dev", "test")
_SKIPPED_FOLDERS = ("translate", "edges", "prompts")  # of built-in samples
_HELD_OUT = 0.1  # of the training examples, if dev or test files are missing
_FORMAT = "write [name], followed by task, train, dev and test"


class DatasetConfig(Config):
    """A labelled dataset in a TOML file."""

    task: str = ""  # its kind; by default inferred from the file
    train: str
    dev: str = ""
    test: str = ""  # by default held out from train
    labels: tuple[int, ...] = ()  # numbers of labelled examples; by default those of the comparison
    columns: dict[str, str] = Field(default_factory=dict)
    about: str = ""


@dataclass(frozen=True, kw_only=True)
class LabelledDataset:
    """A labelled dataset."""

    name: str
    kind: str  # of task
    splits: Mapping[str, Sequence[Any]]  # train, dev and test examples
    labels: tuple[int, ...] = ()
    about: str = ""
    derived: bool = False  # from the corpus

    @property
    def spec(self) -> TaskSpec:
        return TASKS[self.kind]

    @property
    def metric(self) -> str:
        return self.spec.metric(find_labels(self.splits["train"]) if self.spec.Example.closed_labels else ())

    @property
    def majority_baseline(self) -> float | None:
        """The accuracy of always predicting the most frequent label of the training examples."""
        if not self.spec.majority_baseline:
            return None
        majority = Counter(example.labels[0] for example in self.splits["train"]).most_common(1)[0][0]
        return statistics.fmean(example.labels[0] == majority for example in self.splits["test"])

    def describe(self) -> dict[str, Any]:
        """The description in the results."""
        fields = {"name": self.name, "kind": self.kind, "metric": self.metric, "derived": self.derived}
        fields |= {split: len(examples) for split, examples in self.splits.items()}
        return fields | {"about": self.about or None, "majority_baseline": self.majority_baseline}


@dataclass(frozen=True, kw_only=True)
class EvaluationData:
    """Labelled datasets, and the folders of evaluation suites by suite."""

    datasets: list[LabelledDataset] = field(default_factory=list)
    suites: defaultdict[str, list[Path]] = field(default_factory=lambda: defaultdict(list))


def find_datasets(path: str, *, seed: int) -> EvaluationData:
    """Read and check all datasets that a TOML file lists or a folder contains."""
    data, source = EvaluationData(), Path(path)
    if not path:
        return data
    if source.is_dir():
        return _search_folder(source, seed)
    try:
        with readable(path, "give a folder of labelled datasets or a TOML file"):
            listed = tomllib.loads(source.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is not TOML ({error!s:.100}); {_FORMAT}") from None
    for name, values in listed.items():  # paths are relative to the file that lists them
        if name in SUITES and isinstance(values, str | list):
            paths = [values] if isinstance(values, str) else values
            data.suites[SUITES[name]] += [source.parent / str(file) for file in paths]
            continue
        if not isinstance(values, dict):
            raise ConfigError(f"{path}: {name} is not a dataset; {_FORMAT}")
        config = DatasetConfig.parse(values, group=name)
        files = {split: str(source.parent / file) for split in _SPLITS if (file := getattr(config, split))}
        data.datasets.append(_read_dataset(name, files, config, seed))
    if not data.datasets and not data.suites:
        raise DataError(f"{path} lists no datasets; {_FORMAT}")
    return data


def _search_folder(folder: Path, seed: int) -> EvaluationData:
    data = EvaluationData()
    for place in [folder, *sorted(path for path in folder.rglob("*") if path.is_dir())]:
        inside = place.relative_to(folder).parts
        names = {part.removesuffix("_zh") for part in (*inside, folder.name)}
        if not names.isdisjoint(SUITES):
            if (name := place.name.removesuffix("_zh")) in SUITES:
                data.suites[SUITES[name]].append(place)
            continue
        if not names.isdisjoint(_SKIPPED_FOLDERS):
            continue
        files = {split: str(paths[0]) for split in _SPLITS if (paths := sorted(place.glob(f"{split}.*")))}
        if {"train", "test"} <= files.keys() or {"train", "dev"} <= files.keys():
            name = "-".join(inside) or folder.name
            data.datasets.append(_read_dataset(name, files, DatasetConfig(train=""), seed))
    if not data.datasets and not data.suites:
        raise DataError(
            f"{folder} contains no labelled datasets; add folders with train, dev and test files, or folders called "
            "words, minimal_pairs, senses or retrieval"
        )
    return data


def _read_dataset(name: str, files: Mapping[str, str], config: DatasetConfig, seed: int) -> LabelledDataset:
    """Read a dataset; missing dev and test splits are taken from the others, without overlap."""
    kind = config.task or guess_task(files["train"], columns=config.columns)
    example_type = task_spec(kind, group=name).Example
    splits = {split: list(read_examples(file, example_type, columns=config.columns)) for split, file in files.items()}
    if "test" not in splits and "dev" in splits:
        splits["test"] = splits.pop("dev")
    for split in ("dev", "test"):
        if split not in splits:
            order = Random(f"{name} {split} {seed}").sample(splits["train"], len(splits["train"]))
            number = max(1, round(_HELD_OUT * len(order)))
            splits[split], splits["train"] = order[:number], order[number:]
    for split in _SPLITS:
        if len(splits[split]) < 2:
            raise DataError(f"{name}: {split} has too few examples; give at least two")
    if example_type.closed_labels:
        labels = find_labels(splits["train"])
        for split in ("dev", "test"):
            require_labels(splits[split], labels, splits["train"][0].file)
    for split in _SPLITS:
        require_answers(splits[split])
    return LabelledDataset(name=name, kind=kind, splits=splits, labels=config.labels, about=config.about)


def subsample(dataset: LabelledDataset, sizes: Mapping[str, int], *, seed: int) -> LabelledDataset:
    """A dataset of at most the given sizes; the training split keeps an example of every label."""
    splits = {}
    for split, examples in dataset.splits.items():
        rng, number = Random(f"{dataset.name} {split} {seed}"), min(sizes[split], len(examples))
        splits[split] = [examples[index] for index in sorted(rng.sample(range(len(examples)), number))]
    if dataset.spec.Example.closed_labels:
        known = {label for example in splits["train"] for label in example.labels}
        for example in dataset.splits["train"]:
            if not known.issuperset(example.labels):
                known.update(example.labels)
                splits["train"].append(example)
    return replace(dataset, splits=splits)


def label_counts(dataset: LabelledDataset, requested: Sequence[int]) -> list[int]:
    """The numbers of labelled examples to train on, in ascending order."""
    most = len(dataset.splits["train"])
    return sorted({min(number or most, most) for number in dataset.labels or requested})


def write_dataset(dataset: LabelledDataset, folder: Path) -> dict[str, Path]:
    """Write the splits of a dataset to files with standard columns, unless they are there and unchanged."""
    example_type = dataset.spec.Example
    files = {split: folder / f"{split}{example_type.extension}" for split in _SPLITS}
    for split, path in files.items():
        content = example_type.format(dataset.splits[split]).encode()
        with writable(path, "free some space, or choose another folder", CheckpointError):
            if not path.exists() or path.read_bytes() != content:
                path.parent.mkdir(parents=True, exist_ok=True)
                write_file(path, content)
    return files
