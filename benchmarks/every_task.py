"""Every family on every task: tiny models that have read the town, tuned on its labelled sets, as a table.

Each model is pretrained for a while on the town's English text (those that translate on its sentences with their
translations, an mBERT on its Chinese text too) and tuned on each set by the method `full`, an ELMo by `mix` as its
authors do. What is shown is measured on the test files; the first row says the same to every example, whatever most
examples to learn from say.

    python benchmarks/every_task.py [--long] [--families bert,gpt2] [--parallel 2] [--runs FOLDER] [--page PAGE]
"""

from __future__ import annotations

import argparse
import multiprocessing
import re
import tempfile
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from statistics import mean
from typing import Any

import polyseme as ps
from bench import Row, arguments, machine, report
from polyseme.models import FAMILIES
from polyseme.text.forms import TASKS
from polyseme.text.labelled import read_examples
from polyseme.text.samples import sample

FIGURES = {"tag": "f1", "similarity": "spearman", "span": "f1"}  # of the others, accuracy
SETTINGS = ("plan.evaluate_every=50", "data.num_rows=16", "tuning.width=64", "tuning.patience=0")
METHODS = {"elmo": "mix"}  # of the others, full
TRANSLATING = ("cove", "transformer")
BEGIN, END = "<!-- the table of every_task.py -->", "<!-- its end -->"


def file_of(kind: str, split: str) -> Path:
    """A labelled file of the town."""
    (file,) = (sample("town") / kind).glob(f"{split}.*")
    return file


def majority(kind: str, asked: str = "") -> float:
    """What it scores to say to every example what most examples to learn from say; `asked` may be another language."""
    if kind in ("similarity", "tag"):
        return 0.0  # there is no order in one score, and no entity in no tags
    files = file_of(kind, "train"), file_of(kind + asked, "test")
    train, gold = (read_examples(file, TASKS[kind]) for file in files)
    if kind == "span":
        return mean(example.labels == ("unanswerable",) for example in gold)  # who never answers is right there
    ((label, _),) = Counter(example.labels for example in train).most_common(1)
    return mean(example.labels == label for example in gold)


def pretrained(family: str, given: argparse.Namespace, out: Path) -> Path:
    """The directory of a tiny model that has read the town."""
    town = sample("town")
    corpus: Any = town / "en.train.txt"
    settings = [f"plan.threads={given.threads}"]
    if family == "mbert":
        corpus = {language: town / f"{language}.train.txt" for language in ("en", "zh")}
    elif family in TRANSLATING:
        corpus = file_of("translate", "train")
    if family == "cove":
        settings.append(f"model.vectors={pretrained('glove', given, out.with_name('vectors-of-cove'))}")
    elif "max_length" in FAMILIES[family].Config.model_fields:
        settings.append("model.max_length=128")  # the longest examples
    # Vectors without context take no longer than they need.
    budget = None if FAMILIES[family].context == "none" else given.pretraining
    ps.pretrain(family, corpus=corpus, out=out, size="tiny", budget=budget, settings=settings, resume=True)
    return out


def run(family: str, given: argparse.Namespace) -> Row:
    """The figures of a family."""
    folder = given.runs / family
    model = pretrained(family, given, folder / "pretrained")
    row: Row = {"family": family}
    for kind in TASKS:
        tuned = ps.finetune(
            model,
            task=kind,
            train=file_of(kind, "train"),
            dev=file_of(kind, "dev"),
            out=folder / kind,
            method=METHODS.get(family, "full"),
            budget=given.tuning,
            settings=[*SETTINGS, f"plan.threads={given.threads}"],
            resume=True,
        )
        row[kind] = tuned.score_task(file_of(kind, "test"))[FIGURES.get(kind, "accuracy")]
    return row


def markdown(rows: list[Row], given: argparse.Namespace) -> str:
    """The rows as a table, with the best of each column in bold, and where they come from."""
    best = {kind: max(row[kind] for row in rows) for kind in TASKS}
    lines = [
        "| | " + " | ".join(f"{kind} ({FIGURES.get(kind, 'accuracy')})" for kind in TASKS) + " |",
        "|---" * (1 + len(TASKS)) + "|",
    ]
    for row in rows:
        cells = [f"**{row[kind]:.3f}**" if row[kind] == best[kind] else f"{row[kind]:.3f}" for kind in TASKS]
        lines.append(f"| {row['family']} | " + " | ".join(cells) + " |")
    facts = machine()
    where = f"{facts['date']}, {facts['processor']}, {given.threads} thread{'s' * (given.threads > 1)} a model"
    made = f"Pretrained for {given.pretraining} (static vectors as presets say), tuned for {given.tuning}; {where}."
    return "\n".join([*lines, "", made])


def write_page(page: Path, text: str) -> None:
    """Put the table where the page has its place."""
    place = re.compile(f"(?<={re.escape(BEGIN)}\n).*(?={re.escape(END)})", re.DOTALL)
    page.write_text(place.sub(lambda _: text + "\n", page.read_text("utf-8")), "utf-8")


def main() -> None:
    parser, read = arguments(__doc__, rounds=1, long_rounds=1)
    parser.add_argument("--families", default=",".join(FAMILIES), help="which ones (all)")
    parser.add_argument("--pretraining", help="budget of each family (1000steps, 4000steps with --long)")
    parser.add_argument("--tuning", help="budget of each task (400steps, 2000steps with --long)")
    parser.add_argument("--parallel", type=int, default=1, help="families side by side")
    parser.add_argument("--threads", type=int, default=1, help="of each model")
    parser.add_argument("--runs", type=Path, help="keep the runs here, and go on with those that are there")
    parser.add_argument("--page", type=Path, help="a page to put the table into")
    given = read()
    given.pretraining = given.pretraining or ("4000steps" if given.long else "1000steps")
    given.tuning = given.tuning or ("2000steps" if given.long else "400steps")
    rows: list[Row] = [{"family": "majority", **{kind: majority(kind) for kind in TASKS}}]
    families = given.families.split(",")
    # Processes of their own, since each has threads of its own.
    spawning = multiprocessing.get_context("spawn")
    with (
        tempfile.TemporaryDirectory() as folder,
        ProcessPoolExecutor(given.parallel, spawning, max_tasks_per_child=1) as pool,
    ):
        given.runs = given.runs or Path(folder)
        for row in pool.map(run, families, [given] * len(families)):
            rows.append(row)
            if given.page:
                write_page(given.page, markdown(rows, given))
    report(rows, given.json)
    print(markdown(rows, given))


if __name__ == "__main__":
    main()
