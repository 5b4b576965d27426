"""polyseme compare"""

import os
import shlex
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from polyseme.cli.console import duration, say, suggest, write_json

if TYPE_CHECKING:
    from polyseme.comparison.race import Progress


def compare(
    out: Annotated[Path, typer.Option(help="Folder to write; new, or one that the same command began.")],
    corpus: Annotated[
        list[str],
        typer.Option(
            "--corpus",
            "--data",
            help="Text: file, folder, pattern, or the sample docstrings or town. Repeat it for more; en=PATH names a "
            "language.",
        ),
    ],
    models: Annotated[
        list[str] | None, typer.Argument(help="Directories of models to compare as they are, without training.")
    ] = None,
    families: Annotated[
        str, typer.Option(help="Families to train, such as skipgram,elmo,bert,gpt2; else a few of every kind.")
    ] = "",
    budget: Annotated[
        str, typer.Option(help="For each family: 5m on two cores are ten minutes of a processor. Or 500steps, 3epochs.")
    ] = "5m",
    size: Annotated[
        str, typer.Option(help="tiny, small, medium or base; auto: what the budget is enough for.")
    ] = "auto",
    params: Annotated[str, typer.Option(help="Or the size nearest to so many parameters, such as 2M.")] = "",
    tasks: Annotated[
        str, typer.Option(help="Labelled sets: a folder of them, or a file that lists them; samples bring their own.")
    ] = "",
    labels: Annotated[str, typer.Option(help="Examples that tasks are learnt from.")] = "100,300,1000,all",
    seeds: Annotated[int, typer.Option(min=1, help="Learn each task so many times.")] = 1,
    seed: Annotated[int, typer.Option(min=0, help="The same seed and budget give the same figures on a machine.")] = 0,
    recipe: Annotated[str, typer.Option(help="fast: the lowest loss for the time. paper: as published.")] = "fast",
    column: Annotated[str, typer.Option(help="Where the text is in jsonl, csv, tsv and parquet.")] = "text",
    parallel: Annotated[
        int, typer.Option(min=1, help="Train so many families side by side, with the cores divided.")
    ] = 1,
    json: Annotated[bool, typer.Option("--json", help="Print what was measured, a JSON object a row.")] = False,
) -> None:
    """Train families on one text with one budget each, measure them alike, and report which to use for what.

    The text is divided by document into train, dev and test; every figure is of text that no family has learnt from.
    The same command goes on with what was broken off. A file of tasks lists sets as [name] with task, train, dev,
    test and columns; a folder has folders with train, dev and test files, and others called words, minimal_pairs and
    senses. docs/comparing.md says what is measured, and how.

    \b
    Examples:
      polyseme compare --corpus docstrings --families onehot,svd,skipgram,elmo,bert,gpt2 --budget 20s --out runs/demo
      polyseme compare --corpus text/ --families skipgram,bert,gpt2 --budget 5m --tasks tasks.toml --out report
      polyseme compare --corpus en=en.txt --corpus zh=zh.txt --families mbert,ulmfit --budget 10m --out report
      polyseme compare runs/bert runs/gpt2 --data test.txt --out report
    """
    from polyseme.comparison.children import QUIET

    os.environ.update(QUIET)  # before torch reads it

    from polyseme.comparison.race import DEFAULT_FAMILIES, Race
    from polyseme.comparison.results import read_rows
    from polyseme.train.trials import read_labels

    named = [family.strip() for family in families.split(",") if family.strip()]
    values: dict[str, Any] = {
        "corpus": corpus,
        "models": models or [],
        "families": named or ([] if models else list(DEFAULT_FAMILIES)),
        "budget": budget,
        "size": size,
        "params": params,
        "tasks": tasks,
        "labels": read_labels(labels),
        "seeds": seeds,
        "seed": seed,
        "recipe": recipe,
        "column": column,
        "parallel": parallel,
    }
    line = _Line()
    race = Race.open(values, out, command=shlex.join(["polyseme", *sys.argv[1:]]))
    try:
        for progress in race.run():
            line.show(progress)
    except KeyboardInterrupt:
        line.end()
        say(f"stopped; the same command goes on with {out}")
        raise
    line.end()
    if json:
        for row in read_rows(out):
            if row["row"] != "done":
                write_json(row)
    else:
        print(race.report)
    say(f"the report is {race.report}")
    places = " ".join(shlex.quote(model) for model in models or [])
    suggest(f"polyseme serve {places or shlex.quote(str(out))}")


class _Line:
    """One line that lives while families are trained and measured; a plain one for each piece of work in a log."""

    def __init__(self) -> None:
        self.live = sys.stderr.isatty()
        self.began = time.monotonic()
        self.first: float | None = None  # pieces that were done before
        self.last = ""

    def show(self, progress: "Progress") -> None:
        """Take in what is done now."""
        if progress.news:
            self.end()
            say(f"  {progress.news}")
        done = progress.done + progress.share
        if self.first is None and progress.total:
            self.first, self.began = done, time.monotonic()
        left = ""
        if self.first is not None and done > self.first:
            seconds = (time.monotonic() - self.began) / (done - self.first) * (progress.total - done)
            left = f", about {duration(seconds)} left"
        step = f"{progress.done}/{progress.total} " if progress.total else ""
        if self.live:
            share = f" {progress.share:.0%}" if progress.share else ""
            print(f"\r\033[K{step}{progress.what}{share}{left}", end="", file=sys.stderr, flush=True)
        elif progress.what != self.last:
            say(f"  {step}{progress.what}{left}")
        self.last = progress.what

    def end(self) -> None:
        """Leave a clean line."""
        if self.live:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
