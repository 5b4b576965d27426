"""Label efficiency: each task with few to many labelled examples, by fine-tuning."""

import math
import shutil
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from polyseme.api import open_finetuning
from polyseme.comparison.measure.datasets import LabelledDataset, label_counts
from polyseme.comparison.measure.outcomes import compact_outcomes, mean_outcomes, prediction_outcomes
from polyseme.comparison.rows import Row
from polyseme.comparison.train.throughput import cached
from polyseme.loading import load
from polyseme.pretrained import Pretrained
from polyseme.system.atomic_io import sha256
from polyseme.system.formatting import enumerate_words
from polyseme.tasks.head_initialization import STRENGTHS
from polyseme.training.finetuning import SELECTION_METRIC, FineTuningScores, FineTuningSession
from polyseme.training.recipes.finetune_recipe import epochs_for
from polyseme.training.recipes.recipe import RECIPE
from polyseme.training.storage.model_dir import CONFIG
from polyseme.training.sweep import SweepRun

_BATCH_SIZE = 32  # examples per fine-tuning step
_SELECTION_PASSES = len(STRENGTHS)  # over the dev set, to choose the probe that fine-tuning starts from
_MIN_STEPS, _SUFFICIENT_STEPS = 40, 100  # of a fine-tuning run
_MAX_OVERRUN = 2  # of the time budget, by the shortest fine-tuning run
_TRIAL_STEPS = 8
_NUM_VALIDATIONS = 10  # per fine-tuning run that does not stop early, beside the one at the start
_INFERENCE_COST = 1 / 3  # per example, relative to training


def sample_examples(dataset: LabelledDataset, number: int, seed: int) -> list[int]:
    """The training examples of a run, as fine-tuning samples them: by the seed, the same for all families."""
    order = np.random.default_rng([seed, 7]).permutation(len(dataset.splits["train"]))
    return sorted(order[:number].tolist())


@dataclass(frozen=True, kw_only=True)
class FineTuner:
    """Fine-tunes a model on samples of a dataset, in a temporary folder."""

    model: Path
    dataset: LabelledDataset
    files: Mapping[str, Path]
    threads: int
    folder: Path

    def rows(self, steps_by_labels: Mapping[int, int], seeds: Sequence[int]) -> Iterator[Row]:
        """The scores after fine-tuning, for each number of labels and its number of steps, at most."""
        gold = self.dataset.splits["test"]
        for number, steps in steps_by_labels.items():
            started = time.perf_counter()
            values, outcomes, scores = [], [], []
            for seed in seeds:
                model, of_run = self._finetune(number, seed, steps)
                scores.append(of_run)
                (head,) = model.tasks.values()
                predictions = model.predict(gold)
                values.append(head.score(predictions, gold)[self.dataset.metric])
                language = getattr(getattr(head, "config", None), "language", "en")
                outcomes.append(prediction_outcomes(self.dataset, predictions, language=language))
            seconds = time.perf_counter() - started
            starts = [one.initial for one in scores if one.initial is not None and self.dataset.spec.probe]
            fields = {
                "steps": steps,
                "converged": all(one.converged for one in scores),
                "dev": statistics.fmean(one.dev[SELECTION_METRIC] for one in scores),
                "probe_dev": statistics.fmean(starts) if starts else None,
            }
            yield task_row(self.dataset, "fine_tuning", number, values, outcomes, seconds, **fields)

    def _finetune(self, number: int, seed: int, steps: int) -> tuple[Pretrained, FineTuningScores]:
        """Fine-tune with some labels until the dev score stops improving, and load the model."""
        session = self._open(number, seed, steps)
        for _ in session.steps():
            pass
        session.finish()
        loaded = load(self.folder), FineTuningScores.read(self.folder)
        shutil.rmtree(self.folder, ignore_errors=True)
        return loaded

    def _open(self, number: int, seed: int, steps: int) -> FineTuningSession:
        shutil.rmtree(self.folder, ignore_errors=True)  # left over from a crash
        run = SweepRun(folder=self.folder, num_labels=number, seed=seed)
        options: dict[str, Any] = {
            "task": self.dataset.kind,
            "train": self.files["train"],
            "dev": self.files["dev"],
            "budget": f"{steps}steps",
            "settings": [
                f"training.threads={self.threads}",
                f"training.num_evaluations={_NUM_VALIDATIONS}",
                f"data.batch_size={_BATCH_SIZE}",
                "finetuning.linear_path=true",  # the model need not open in transformers
            ],
        }
        session = next(open_finetuning(self.model, [run], **options))
        assert isinstance(session, FineTuningSession)
        return session

    def step_seconds(self) -> float:
        """Processor time per step, measured once per machine for all models of the same shape."""
        shape = [sha256(path) for path in (self.model / CONFIG, self.model / "tokenizer.json") if path.exists()]
        has_recipe = (self.model / RECIPE).exists()
        key = [self.dataset.kind, sha256(self.files["train"]), self.threads, has_recipe, *shape]
        return cached("finetuning", key, self._measure_step, float)

    def _measure_step(self) -> float:
        session = self._open(0, 0, _TRIAL_STEPS)
        try:
            return session.measure_step_time(math.inf, num_steps=_TRIAL_STEPS).processor_seconds or 1e-3
        finally:
            session.pause()
            shutil.rmtree(self.folder, ignore_errors=True)


def plan_steps(
    dataset: LabelledDataset, labels: Sequence[int], *, seconds: float | None, step_seconds: Callable[[], float]
) -> dict[int, int]:
    """Fine-tuning steps for each number of labels, at most; most runs stop early.

    Without a limit of processor time, that is the usual number for a number of examples. With a limit, it is less, and
    before it would be too little to be meaningful, numbers of labels are omitted: first those between the fewest and
    all, in the end all of them. Validation and the test set are part of the limit.
    """
    counts = label_counts(dataset, labels)
    if seconds is None:
        return {count: _usual_steps(count) for count in counts}
    affordable = seconds / step_seconds()
    num_dev, num_test = len(dataset.splits["dev"]), len(dataset.splits["test"])
    num_evaluated = (1 + _NUM_VALIDATIONS + _SELECTION_PASSES) * num_dev + num_test + counts[-1]
    evaluation = math.ceil(_INFERENCE_COST * num_evaluated / _BATCH_SIZE)  # in steps
    if _MAX_OVERRUN * affordable < min(_MIN_STEPS, _usual_steps(counts[-1])) + evaluation:
        return {}
    number = max(1, min(len(counts), int(affordable / (_SUFFICIENT_STEPS + evaluation))))
    selected = sorted([counts[-1], *counts[:-1]][:number])
    most = max(_MIN_STEPS, int(affordable / len(selected)) - evaluation)
    return {count: min(most, _usual_steps(count)) for count in selected}


def describe_bound(datasets: Sequence[LabelledDataset], labels: Sequence[int]) -> str:
    """How long fine-tuning without a budget continues at most, for a message."""
    counts = sorted({count for dataset in datasets for count in label_counts(dataset, labels)})
    bounds = enumerate_words([f"{epochs_for(count)} epochs of {count:,} examples" for count in counts])
    return f"fine-tuning ends when dev scores no longer improve, after at most {bounds}"


def _usual_steps(num_examples: int) -> int:
    return math.ceil(num_examples / _BATCH_SIZE) * epochs_for(num_examples)


def task_row(
    dataset: LabelledDataset,
    method: str,
    num_labels: int,
    values: list[float],
    outcomes: Sequence[Sequence[float]],
    seconds: float,
    **fields: Any,
) -> Row:
    """The row of a method with a number of labels, given the values and outcomes of each seed."""
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
