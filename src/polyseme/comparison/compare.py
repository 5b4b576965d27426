"""The public function `compare`; nothing heavy is imported before OpenMP is configured."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from polyseme.system.processes import PASSIVE_THREADS

if TYPE_CHECKING:
    from polyseme.comparison.runner import Comparison

Corpora = str | Path | Sequence[str | Path] | Mapping[str, str | Path]


def compare(
    *models: str | Path,
    corpus: Corpora,
    out: str | Path,
    families: str | Sequence[str] = (),
    budget: str = "5m",
    finetune_budget: str = "",
    size: str = "auto",
    params: str = "",
    tasks: str | Path = "",
    labels: str | Sequence[int] = "100,300,1000,all",
    trainings: int = 1,
    seeds: int = 1,
    seed: int = 0,
    recipe: str = "fast",
    column: str = "text",
    parallel: int = 1,
) -> Path:
    """Train families on one corpus with one budget each, evaluate them alike, and write a report that recommends one.

    The corpus is split by document into train, dev and test. Simple baselines always take part: an n-gram model, TF-IDF
    with a linear model, and BM25. Calling it again with the same arguments resumes a comparison that was stopped.

    Args:
        *models: Model directories to compare as they are, without training.
        corpus: Files, folders, patterns or a built-in sample (docstrings, town); a mapping by language.
        out: Folder of the comparison, new or started by the same call.
        families: Families to train, such as ["skipgram", "elmo", "bert", "gpt2"]; by default six of different kinds.
            The n-gram model is added.
        budget: Training budget of each family: a time, multiplied by the number of cores, or such as 500steps, 3epochs.
        finetune_budget: Time of each family for fine-tuning on all tasks, multiplied by the number of cores; by default
            until the dev scores converge, within a bound of epochs. What does not converge is marked.
        size: tiny, small, medium or base; auto chooses by budget and corpus.
        params: Choose the size closest to this number of parameters instead, such as "2M".
        tasks: Labelled datasets: a folder, or a TOML file that lists them; built-in samples have their own.
        labels: Numbers of training examples for the tasks.
        trainings: Trainings of each family with different seeds, so that tests of significance include their variance.
        seeds: Samples of labels for each task.
        seed: Seed of everything else.
        recipe: "fast" reaches the lowest loss in the time; "paper" trains as published.
        column: Column of the text in jsonl, csv, tsv and parquet.
        parallel: Number of families to train at the same time; they share the cores.

    Returns:
        The path of the report; results.jsonl beside it has every measurement.

    Example:
        >>> import polyseme as ps
        >>> report = ps.compare(corpus="docstrings", families=["skipgram", "bert"], budget="20s", out="runs/demo")
    """
    comparison = open_comparison(
        *models,
        corpus=corpus,
        out=out,
        families=families,
        budget=budget,
        finetune_budget=finetune_budget,
        size=size,
        params=params,
        tasks=tasks,
        labels=labels,
        trainings=trainings,
        seeds=seeds,
        seed=seed,
        recipe=recipe,
        column=column,
        parallel=parallel,
    )
    for _ in comparison.run():
        pass
    return comparison.report


def open_comparison(
    *models: str | Path,
    corpus: Corpora,
    out: str | Path,
    families: str | Sequence[str],
    tasks: str | Path,
    labels: str | Sequence[int],
    **settings: str | int,
) -> Comparison:
    """Check the arguments of `compare` and start or resume the comparison; iterate over its `run()`."""
    os.environ.update(PASSIVE_THREADS)  # OpenMP reads it when torch is imported

    from polyseme.comparison.runner import BASELINE_FAMILIES, DEFAULT_FAMILIES, Comparison
    from polyseme.training.sweep import parse_label_counts

    if isinstance(corpus, Mapping):
        paths = [f"{language}={path}" for language, path in corpus.items()]
    else:
        paths = [str(corpus)] if isinstance(corpus, str | Path) else [str(path) for path in corpus]
    if isinstance(families, str):
        families = [family.strip() for family in families.split(",") if family.strip()]
    if not models:
        families = [*(families or DEFAULT_FAMILIES)]
        families += [family for family in BASELINE_FAMILIES if family not in families]
    values = {
        **settings,
        "corpus": paths,
        "models": [str(model) for model in models],
        "families": list(families),
        "tasks": str(tasks),
        "labels": parse_label_counts(labels) if isinstance(labels, str) else list(labels),
    }
    return Comparison.open(values, Path(out))
