"""Label efficiency: each task with few to many labelled examples, by linear probes and by fine-tuning."""

import math
import shutil
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from polyseme.api import finetune, open_finetuning
from polyseme.comparison.measure.datasets import LabelledDataset, label_counts
from polyseme.comparison.measure.linear_probe import extract_features, fit_probe
from polyseme.comparison.measure.outcomes import compact_outcomes, mean_outcomes, prediction_outcomes
from polyseme.comparison.rows import Row
from polyseme.comparison.train.throughput import cached
from polyseme.pretrained import Pretrained
from polyseme.system.atomic_io import sha256
from polyseme.training.recipes.finetune_recipe import epochs_for
from polyseme.training.recipes.recipe import RECIPE
from polyseme.training.storage.model_dir import CONFIG
from polyseme.training.sweep import SweepRun

_BATCH_SIZE = 32  # examples per fine-tuning step
_MIN_STEPS, _SUFFICIENT_STEPS = 40, 100  # of a fine-tuning run
_MAX_OVERRUN = 2  # of the time budget, by the shortest fine-tuning run
_TRIAL_STEPS = 8
_NUM_VALIDATIONS = 4  # per fine-tuning run
_INFERENCE_COST = 1 / 3  # per example, relative to training


def sample_examples(dataset: LabelledDataset, number: int, seed: int) -> list[int]:
    """The training examples of a run, as fine-tuning samples them: by the seed, the same for all families."""
    order = np.random.default_rng([seed, 7]).permutation(len(dataset.splits["train"]))
    return sorted(order[:number].tolist())


def linear_probe_rows(
    model: Pretrained, dataset: LabelledDataset, labels: Sequence[int], seeds: Sequence[int]
) -> Iterator[Row]:
    """The scores of linear probes for each number of labels."""
    if dataset.spec.probe is None:
        return
    samples = {
        number: [tuple(sample_examples(dataset, number, seed)) for seed in seeds]
        for number in label_counts(dataset, labels)
    }
    features = extract_features(model, dataset, chain(*samples.values()))
    for number, by_seed in samples.items():
        started = time.perf_counter()
        # With all examples, every seed has the same sample.
        scores = {sample: fit_probe(dataset, features, sample) for sample in set(by_seed)}
        values = [value for sample in by_seed if (value := scores[sample].value) is not None]
        if len(values) == len(by_seed):
            layer = statistics.mode([scores[sample].layer for sample in by_seed])
            outcomes = [scores[sample].outcomes for sample in by_seed]
            seconds = time.perf_counter() - started
            yield _row(dataset, "linear_probe", number, values, outcomes, seconds, layer=layer)


@dataclass(frozen=True, kw_only=True)
class FineTuner:
    """Fine-tunes a model on samples of a dataset, in a temporary folder."""

    model: Path
    dataset: LabelledDataset
    files: Mapping[str, Path]
    threads: int
    folder: Path

    def rows(self, steps_by_labels: Mapping[int, int], seeds: Sequence[int]) -> Iterator[Row]:
        """The scores after fine-tuning, for each number of labels and its number of steps."""
        gold = self.dataset.splits["test"]
        for number, steps in steps_by_labels.items():
            started = time.perf_counter()
            values, outcomes = [], []
            for seed in seeds:
                shutil.rmtree(self.folder, ignore_errors=True)  # left over from a crash
                model = finetune(self.model, labels=number, seed=seed, out=self.folder, **self._options(steps))
                shutil.rmtree(self.folder, ignore_errors=True)
                (head,) = model.tasks.values()
                predictions = model.predict(gold)
                values.append(head.score(predictions, gold)[self.dataset.metric])
                language = getattr(getattr(head, "config", None), "language", "en")
                outcomes.append(prediction_outcomes(self.dataset, predictions, language=language))
            seconds = time.perf_counter() - started
            yield _row(self.dataset, "fine_tuning", number, values, outcomes, seconds, steps=steps)

    def step_seconds(self) -> float:
        """Processor time per step, measured once per machine for all models of the same shape."""
        shape = [sha256(path) for path in (self.model / CONFIG, self.model / "tokenizer.json") if path.exists()]
        has_recipe = (self.model / RECIPE).exists()
        key = [self.dataset.kind, sha256(self.files["train"]), self.threads, has_recipe, *shape]
        return cached("finetuning", key, self._measure_step, float)

    def _measure_step(self) -> float:
        shutil.rmtree(self.folder, ignore_errors=True)
        run = SweepRun(folder=self.folder, num_labels=0, seed=0)
        session = next(open_finetuning(self.model, [run], **self._options(_TRIAL_STEPS)))
        try:
            return session.measure_step_time(math.inf, num_steps=_TRIAL_STEPS).processor_seconds or 1e-3
        finally:
            session.pause()
            shutil.rmtree(self.folder, ignore_errors=True)

    def _options(self, steps: int) -> dict[str, Any]:
        return {
            "task": self.dataset.kind,
            "train": self.files["train"],
            "dev": self.files["dev"],
            "budget": f"{steps}steps",
            # Runs are too short for early stopping.
            "settings": [
                f"training.threads={self.threads}",
                f"training.evaluate_every={math.ceil(steps / _NUM_VALIDATIONS)}",
                f"data.batch_size={_BATCH_SIZE}",
                "finetuning.patience=0",
            ],
        }


def plan_steps(
    dataset: LabelledDataset, labels: Sequence[int], *, seconds: float, step_seconds: float
) -> dict[int, int]:
    """Fine-tuning steps for each number of labels, within a total budget of processor time.

    Each run has the usual number of steps for its number of examples, or fewer if time is short. Before that would be
    too few to be meaningful, numbers of labels are omitted: first those between the fewest and all, in the end all of
    them. Validation and the test set are part of the budget.
    """
    counts = label_counts(dataset, labels)
    affordable = seconds / step_seconds
    num_evaluated = _NUM_VALIDATIONS * len(dataset.splits["dev"]) + len(dataset.splits["test"])
    evaluation = math.ceil(_INFERENCE_COST * num_evaluated / _BATCH_SIZE)  # in steps
    if _MAX_OVERRUN * affordable < min(_MIN_STEPS, _usual_steps(counts[-1])) + evaluation:
        return {}
    number = max(1, min(len(counts), int(affordable / (_SUFFICIENT_STEPS + evaluation))))
    selected = sorted([counts[-1], *counts[:-1]][:number])
    most = max(_MIN_STEPS, int(affordable / len(selected)) - evaluation)
    return {count: min(most, _usual_steps(count)) for count in selected}


def _usual_steps(num_examples: int) -> int:
    return math.ceil(num_examples / _BATCH_SIZE) * epochs_for(num_examples)


def _row(
    dataset: LabelledDataset,
    method: str,
    num_labels: int,
    values: list[float],
    outcomes: Sequence[Sequence[float]],
    seconds: float,
    **fields: Any,
) -> Row:
    return {
        "row": "task",
        "task": dataset.name,
        "kind": dataset.kind,
        "method": method,
        "num_labels": num_labels,
        "metric": dataset.metric,
        "values": values,
        "mean": statistics.fmean(values),
        "std": statistics.stdev(values) if len(values) > 1 else None,
        "seconds": round(seconds, 2),
        "outcomes": compact_outcomes(mean_outcomes(outcomes)),
        **fields,
    }
