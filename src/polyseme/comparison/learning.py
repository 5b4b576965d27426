"""What labels are worth: each task learnt from few examples and from many, by linear probes and by fine-tuning."""

from __future__ import annotations

import math
import shutil
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from polyseme.comparison.labelled import Task, label_counts
from polyseme.comparison.linear import KINDS, probe, read_sides
from polyseme.comparison.pacing import remembered
from polyseme.comparison.results import Row
from polyseme.files import sha256
from polyseme.making import finetune
from polyseme.models.directory import CONFIG
from polyseme.pretrained import Pretrained
from polyseme.train.recipe import RECIPE
from polyseme.train.run import read_history
from polyseme.train.tuning_recipe import epochs_for

_ROWS = 32  # examples of a step of fine-tuning
_LEAST_STEPS, _ENOUGH_STEPS = 40, 100  # of a fine-tuning
_OVER = 2  # times its share of the time that the least fine-tuning may take
_TRIED_STEPS = 8
_LOOKS = 4  # at the dev set during a fine-tuning
_READING = 1 / 3  # what it takes to read an example, for what it takes to learn from it


def draw(task: Task, number: int, seed: int) -> list[int]:
    """The examples that are learnt from, as fine-tuning draws them: by the seed, the same for all families."""
    order = np.random.default_rng([seed, 7]).permutation(len(task.sides["train"]))
    return sorted(order[:number].tolist())


def linear_rows(model: Pretrained, task: Task, labels: Sequence[int], seeds: Sequence[int]) -> Iterator[Row]:
    """The scores of linear probes."""
    if task.kind not in KINDS:
        return
    draws = {number: [tuple(draw(task, number, seed)) for seed in seeds] for number in label_counts(task, labels)}
    vectors = read_sides(model, task, chain(*draws.values()))
    for number, drawn in draws.items():
        started = time.perf_counter()
        # Where all examples are learnt from, every seed draws the same.
        fitted = {numbers: probe(task, vectors, numbers) for numbers in set(drawn)}
        found = [fitted[numbers] for numbers in drawn]
        values = [one.value for one in found if one.value is not None]
        if len(values) == len(found):
            layers = statistics.mode([one.layer for one in found])
            yield _row(task, "linear", number, values, time.perf_counter() - started, layer=layers)


def tuned_rows(
    folder: Path,
    task: Task,
    files: Mapping[str, Path],
    *,
    steps_of: Mapping[int, int],
    seeds: Sequence[int],
    threads: int,
    beside: Path,
) -> Iterator[Row]:
    """The scores of models that are fine-tuned as a whole, for each number of labels in so many steps."""
    gold = task.sides["test"]
    for number, steps in steps_of.items():
        started = time.perf_counter()
        values = []
        for seed in seeds:
            tuned = _finetune(
                folder, task, files, number=number, seed=seed, steps=steps, threads=threads, beside=beside
            )
            shutil.rmtree(beside, ignore_errors=True)
            (head,) = tuned.tasks.values()
            values.append(head.score(tuned.predict(gold), gold)[task.metric])
        yield _row(task, "full", number, values, time.perf_counter() - started, steps=steps)


def _finetune(
    folder: Path,
    task: Task,
    files: Mapping[str, Path],
    *,
    number: int,
    seed: int,
    steps: int,
    threads: int,
    beside: Path,
) -> Pretrained:
    shutil.rmtree(beside, ignore_errors=True)  # what a crash left
    return finetune(
        folder,
        task=task.kind,
        train=files["train"],
        dev=files["dev"],
        labels=number,
        seed=seed,
        budget=f"{steps}steps",
        # In so few steps, a look without gain says nothing.
        settings=[
            f"plan.threads={threads}",
            f"plan.evaluate_every={math.ceil(steps / _LOOKS)}",
            f"data.num_rows={_ROWS}",
            "tuning.patience=0",
        ],
        out=beside,
    )


def plan_steps(task: Task, labels: Sequence[int], *, seconds: float, step_seconds: float) -> dict[int, int]:
    """Steps of a fine-tuning for each number of labels, all of which together have so much time of a processor.

    As many as are usual for so few examples, where there is time for them; else fewer, but before they become too few
    to say anything, some numbers of labels are left out: first those between all and the fewest, in the end all.
    Looking at the dev set and answering the test set take their part of the time.
    """
    counts = label_counts(task, labels)
    affordable = seconds / step_seconds
    read = math.ceil(_READING * (_LOOKS * len(task.sides["dev"]) + len(task.sides["test"])) / _ROWS)  # as steps
    if _OVER * affordable < min(_LEAST_STEPS, _usual(counts[-1])) + read:
        return {}
    number = max(1, min(len(counts), int(affordable / (_ENOUGH_STEPS + read))))
    kept = sorted([counts[-1], *counts[:-1]][:number])
    most = max(_LEAST_STEPS, int(affordable / len(kept)) - read)
    return {count: min(most, _usual(count)) for count in kept}


def _usual(count: int) -> int:
    return math.ceil(count / _ROWS) * epochs_for(count)


def step_seconds(folder: Path, task: Task, files: Mapping[str, Path], *, threads: int, beside: Path) -> float:
    """What a step of fine-tuning takes a processor, measured once on a machine for all models of a shape."""
    shape = [sha256(path) for path in (folder / CONFIG, folder / "tokenizer.json") if path.exists()]
    key = [task.kind, sha256(files["train"]), threads, (folder / RECIPE).exists(), *shape]

    def measure() -> float:
        _finetune(folder, task, files, number=0, seed=0, steps=_TRIED_STEPS, threads=threads, beside=beside)
        ends = [row["processor_seconds"] for row in read_history(beside)]
        shutil.rmtree(beside, ignore_errors=True)
        return (ends[-1] - ends[0]) / (len(ends) - 1) or 1e-3

    return float(remembered("tuning", key, measure))


def _row(task: Task, method: str, number: int, values: list[float], seconds: float, **facts: Any) -> Row:
    return {
        "row": "task",
        "task": task.name,
        "kind": task.kind,
        "method": method,
        "labels": number,
        "metric": task.metric,
        "values": values,
        "mean": statistics.fmean(values),
        "deviation": statistics.stdev(values) if len(values) > 1 else None,
        "seconds": round(seconds, 2),
        **facts,
    }
