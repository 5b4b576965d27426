"""Fine-tuning of the TF-IDF baseline: a linear model on the terms of the labelled texts, fitted in seconds.

Each step fits the model with one regularization strength; the one that is best on the dev set is written.
"""

import json
import shlex
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from polyseme.baselines.tfidf import TfidfConfig
from polyseme.datasets.builtin import absolute_path
from polyseme.errors import CheckpointError, ConfigError
from polyseme.learner import Step
from polyseme.system.atomic_io import check_new_folder, write_file
from polyseme.system.io_errors import writable
from polyseme.tasks.config import LabelsConfig
from polyseme.tasks.tfidf import FAMILY, TfidfTask, require_kind, strengths_of
from polyseme.training.finetuning import LABELS, SCORES, SELECTION_METRIC, FineTuningScores
from polyseme.training.labelled_data import LabelledData
from polyseme.training.recipes.finetune_recipe import LabelledDataConfig
from polyseme.training.recipes.recipe import apply_overrides
from polyseme.training.session import Progress
from polyseme.training.storage.history import HISTORY
from polyseme.training.storage.manifest import MANIFEST, write_manifest
from polyseme.training.storage.model_dir import CONFIG, WEIGHTS, read_record
from polyseme.training.storage.tfidf_dir import VOCABULARY, TfidfModelConfig, write_tfidf

_CARD = "README.md"
_FILES = (CONFIG, WEIGHTS, VOCABULARY, LABELS, SCORES, HISTORY)
_OF_NETWORKS = {"method": "full", "unlabelled": "", "budget": None}  # options of `finetune`, with their defaults


class TfidfSession:
    """A run that fits the baseline. It is too short for checkpoints: an interrupted run starts again."""

    resumed_at = 0

    def __init__(self, config: TfidfModelConfig, kinds: Mapping[str, str], folder: Path) -> None:
        self.folder = folder
        self.command = ""  # that does the same, quoted in the model card
        self.labelled = LabelledData.read(kinds, config.data, seed=config.seed)
        self.config = config.replace(data=config.data.replace(fingerprint=self.labelled.fingerprint))
        configs = self.labelled.infer_configs({name: {"kind": kind} for name, kind in kinds.items()})
        ((self.name, self.task_config),) = configs.items()
        self._history: list[dict[str, Any]] = []
        self._best: tuple[float, int, TfidfTask] | None = None  # dev score and step

    @classmethod
    def open(cls, options: Mapping[str, Any], kinds: Mapping[str, str], data: Mapping[str, Any], folder: Path) -> Self:
        """Check the options of `finetune`, and read the data of a run in a new directory."""
        config = plan_tfidf(options, kinds, data)
        check_new_folder(folder, ignored=(*_FILES, _CARD, MANIFEST) if options["resume"] else ())
        return cls(config, kinds, folder)

    @property
    def is_done(self) -> bool:
        """Whether the directory has the model of this run; an error if it has another one."""
        if not (self.folder / SCORES).exists():
            return False
        saved = read_record(TfidfModelConfig, self.folder / CONFIG)
        if saved.replace(inverse_regularization=0.0) != self.config:
            raise ConfigError(f"{self.folder} has a model of other data or settings; choose another --out")
        return True

    @property
    def total_steps(self) -> int:
        """The number of regularization strengths."""
        return len(strengths_of(self.task_config.kind, self.config.features, has_dev=bool(self.labelled.dev)))

    def steps(self) -> Iterator[Progress]:
        """Fit the model with each regularization strength."""
        started, processor_started = time.perf_counter(), time.process_time()
        train, dev = self.labelled.train[self.name], self.labelled.dev.get(self.name, ())
        tasks = TfidfTask.fit(self.name, self.task_config, self.config.features, train, has_dev=bool(dev))
        for number, task in enumerate(tasks, 1):
            scores = task.score(task.predict(dev), dev) if dev else {}
            selected = scores.get(task.selection_metric, 0.0)
            if self._best is None or selected > self._best[0]:
                self._best = selected, number, task
            row: dict[str, Any] = {
                "step": number,
                "tokens": 0,
                "seconds": round(time.perf_counter() - started, 3),
                "processor_seconds": round(time.process_time() - processor_started, 3),
                "inverse_regularization": task.inverse_regularization,
            }
            if dev:
                row["dev"] = {**scores, SELECTION_METRIC: selected}
            self._history.append(row)
            step = Step(number=number, tokens=0, seconds=row["seconds"], learning_rate=0.0, losses={})
            yield Progress(step=step, dev=row.get("dev"))

    def pause(self) -> bool:
        """Stop the run; nothing has been written that would have to be completed."""
        return True

    def finish(self) -> Path:
        """Write the model directory, and return it."""
        assert self._best is not None
        _, number, task = self._best
        dev = self._history[number - 1].get("dev", {})
        summary = FineTuningScores(step=number, examples=len(self.labelled.train[self.name]), dev=dev, layers={})
        with writable(self.folder, "free some space and run the command again", CheckpointError):
            write_tfidf(self.folder, task, self.config.replace(inverse_regularization=task.inverse_regularization))
            write_file(self.folder / HISTORY, "".join(json.dumps(row) + "\n" for row in self._history))
            write_file(self.folder / _CARD, self._card(task, summary))
            write_file(self.folder / SCORES, json.dumps(summary.model_dump(), indent=2) + "\n")
            write_manifest(self.folder, _FILES)
        return self.folder

    def _card(self, task: TfidfTask, summary: FineTuningScores) -> str:
        folder, config = self.folder, self.config
        rows = "".join(f"\n| {name.replace('_', ' ')} | {value:.4f} |" for name, value in summary.dev.items())
        evaluation = f"| metric | value |\n|---|---|{rows}" if rows else "No dev set was given."
        labels = f", labels {', '.join(task.config.labels[:50])}" if isinstance(task.config, LabelsConfig) else ""
        return f"""# {folder.name}: TF-IDF, fine-tuned, {task.model.weights.size:,} parameters

A linear model on the TF-IDF weights of {len(task.features.terms):,} n-grams of words and characters, fitted with
Polyseme to {summary.examples:,} examples with an inverse regularization strength of {task.inverse_regularization:g}.

- `{task.name}`: {task.config.kind}, trained on `{Path(config.data.train[task.name]).name}`{labels}

## Usage

```python
import polyseme as ps

model = ps.load({str(folder)!r})
model.predict([...])
```

```
polyseme predict {shlex.quote(str(folder))} FILE
```

## Evaluation on dev data

{evaluation}

## Command

```
{self.command}
```

All settings are in `{CONFIG}`, all metrics in `{HISTORY}`.
"""


def plan_tfidf(options: Mapping[str, Any], kinds: Mapping[str, str], data: Mapping[str, Any]) -> TfidfModelConfig:
    """The settings that the options of `finetune` have; an error names those that are for networks only."""
    for name, default in _OF_NETWORKS.items():
        if options[name] != default:
            raise ConfigError(f"--{name} is for neural networks; omit it for {FAMILY}, which is fitted in seconds")
    if len(kinds) > 1:
        raise ConfigError(f"{FAMILY} is fitted for one task; run the command once for each of {', '.join(kinds)}")
    for kind in kinds.values():
        require_kind(kind)
    values = apply_overrides({FAMILY: {}}, options["settings"])
    for group in values.keys() - {FAMILY}:
        raise ConfigError(f"{group}: {FAMILY} has no such settings; write --set {FAMILY}.word_ngrams=3")
    config = LabelledDataConfig.parse(data, group="data")
    files = {name: {task: absolute_path(path) for task, path in data[name].items()} for name in ("train", "dev")}
    features = TfidfConfig.parse(values[FAMILY], group=FAMILY)
    return TfidfModelConfig(features=features, data=config.replace(**files), seed=options["seed"])
