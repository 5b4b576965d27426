"""The same fine-tuning several times: by seed, and on more and more labels."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from polyseme.errors import ConfigError
from polyseme.files import write_file
from polyseme.models.directory import read_json
from polyseme.plots import Point, draw_curves
from polyseme.train.finetuning import MERIT, SCORES

SUMMARY, CURVE = "summary.json", "curve.svg"


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One of them."""

    folder: Path
    num_labels: int  # 0: all
    seed: int

    @property
    def done(self) -> bool:
        """Whether it has ended."""
        return (self.folder / SCORES).exists()


@dataclass(frozen=True, kw_only=True)
class Figure:
    """What the trials on so many labels found."""

    num_labels: int
    name: str
    values: Sequence[float]  # one a seed

    @property
    def mean(self) -> float:
        return statistics.mean(self.values)

    @property
    def deviation(self) -> float:
        """Of one trial from another; nothing where there is one."""
        return statistics.stdev(self.values) if len(self.values) > 1 else 0.0


def plan_trials(out: Path, labels: Sequence[int], seeds: Sequence[int]) -> list[Trial]:
    """A folder for each number of labels and each seed; a single trial has the whole to itself."""
    trials = []
    for number in labels:
        for seed in seeds:
            folder = out / f"labels-{number or 'all'}" if len(labels) > 1 else out
            folder = folder / f"seed-{seed}" if len(seeds) > 1 else folder
            trials.append(Trial(folder=folder, num_labels=number, seed=seed))
    return trials


def read_labels(text: str) -> list[int]:
    """Numbers of labels, such as 100,300,all."""
    numbers = []
    for part in text.split(","):
        part = part.strip()
        if part != "all" and not (part.isdecimal() and int(part) > 0):
            raise ConfigError(f"--labels {part!r:.30}: say numbers of examples, such as 100,300,all")
        numbers.append(0 if part == "all" else int(part))
    return numbers


def summarize(out: Path, trials: Sequence[Trial]) -> list[Figure]:
    """What all trials found on their dev sets, which is written down and drawn too."""
    found: dict[tuple[int, str], list[float]] = {}
    for trial in trials:
        for name, value in read_json(trial.folder / SCORES)["dev"].items():
            found.setdefault((trial.num_labels, name), []).append(value)
    figures = [Figure(num_labels=number, name=name, values=values) for (number, name), values in found.items()]
    rows = [
        {
            "labels": f.num_labels or "all",
            "figure": f.name,
            "mean": f.mean,
            "deviation": f.deviation,
            "values": f.values,
        }
        for f in figures
    ]
    write_file(out / SUMMARY, json.dumps(rows, indent=2) + "\n")
    curve = [figure for figure in figures if figure.name == MERIT]
    if len(curve) > 1:
        points = [Point(figure.num_labels or _size(trials), figure.mean, figure.deviation) for figure in curve]
        drawn = draw_curves(
            {out.name: points}, title="What labels are worth", across="labels", up="score on the dev set"
        )
        write_file(out / CURVE, drawn)
    return figures


def _size(trials: Sequence[Trial]) -> int:
    """How many examples all are."""
    whole = next(trial for trial in trials if not trial.num_labels)
    return int(read_json(whole.folder / SCORES)["examples"])
