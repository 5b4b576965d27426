"""Repetition of a fine-tuning over random seeds and numbers of labelled examples."""

import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from polyseme.errors import ConfigError
from polyseme.rendering.svg import Axis, Chart, Point
from polyseme.system.atomic_io import write_file
from polyseme.training.finetuning import SCORES, SELECTION_METRIC, FineTuningScores
from polyseme.training.storage.manifest import is_finished, is_unchanged

SUMMARY, CURVE = "summary.json", "curve.svg"


@dataclass(frozen=True, kw_only=True)
class SweepRun:
    """A fine-tuning run of a sweep."""

    folder: Path
    num_labels: int  # 0: all
    seed: int

    @property
    def done(self) -> bool:
        """Whether the run has finished, and is not being extended to a longer budget."""
        return (self.folder / SCORES).exists() and is_finished(self.folder) and is_unchanged(self.folder)


@dataclass(frozen=True, kw_only=True)
class SweepMetric:
    """A dev metric at a number of labels, over all seeds."""

    num_labels: int
    name: str
    values: Sequence[float]  # by seed

    @property
    def mean(self) -> float:
        return statistics.mean(self.values)

    @property
    def deviation(self) -> float:
        """Standard deviation; 0 for a single seed."""
        return statistics.stdev(self.values) if len(self.values) > 1 else 0.0


def plan_sweep(out: Path, labels: Sequence[int], seeds: Sequence[int]) -> list[SweepRun]:
    """Assign a folder to each number of labels and seed; a single run has `out` itself."""
    runs = []
    for number, seed in product(labels, seeds):
        folder = out / f"labels-{number or 'all'}" if len(labels) > 1 else out
        folder = folder / f"seed-{seed}" if len(seeds) > 1 else folder
        runs.append(SweepRun(folder=folder, num_labels=number, seed=seed))
    return runs


def parse_label_counts(text: str) -> list[int]:
    """Parse numbers of labels such as 100,300,all; 0 stands for all."""
    parts = [part.strip() for part in text.split(",")]
    for part in parts:
        if part != "all" and not (part.isdecimal() and int(part) > 0):
            raise ConfigError(f"--labels {part!r:.30}: give numbers of examples, such as 100,300,all")
    return [0 if part == "all" else int(part) for part in parts]


def summarize(out: Path, runs: Sequence[SweepRun]) -> list[SweepMetric]:
    """Collect the dev metrics of all runs, and write them to a summary and a learning curve."""
    values: dict[tuple[int, str], list[float]] = {}
    for run in runs:
        for name, value in FineTuningScores.read(run.folder).dev.items():
            values.setdefault((run.num_labels, name), []).append(value)
    metrics = [SweepMetric(num_labels=number, name=name, values=found) for (number, name), found in values.items()]
    columns = ("labels", "metric", "mean", "deviation", "values")
    rows = [
        (metric.num_labels or "all", metric.name, metric.mean, metric.deviation, metric.values) for metric in metrics
    ]
    write_file(out / SUMMARY, json.dumps([dict(zip(columns, row, strict=True)) for row in rows], indent=2) + "\n")
    curve = [metric for metric in metrics if metric.name == SELECTION_METRIC]
    if len(curve) > 1:
        # The number of examples of a run with all labels.
        total = next((FineTuningScores.read(run.folder).examples for run in runs if not run.num_labels), 0)
        points = [Point(metric.num_labels or total, metric.mean, metric.deviation) for metric in curve]
        sizes = [point.x for point in points]
        ends = [point.y + sign * point.error for point in points for sign in (-1, 1)]
        chart = Chart(
            x_axis=Axis.around(
                sizes, name="number of labels (log)", logarithmic=True, format="{:,.0f}".format, tick_values=sizes
            ),
            y_axis=Axis.around(ends, name=f"score on the dev set: {out.name}"),
        )
        write_file(out / CURVE, chart.render([chart.line(points, 0)], "Label efficiency", file=True))
    return metrics
