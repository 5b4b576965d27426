"""Tiny models of every family, pretrained on the town corpus and fine-tuned on each of its tasks.

Each model is pretrained on the English text of the town (translation models on its parallel sentences, mBERT also on
its Chinese text) and fine-tuned on each task with the method `full`; ELMo with `mix`, as in its paper. Scores are
those of the test files; the first row is the majority baseline.

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
from polyseme.datasets.builtin import sample_folder
from polyseme.datasets.labelled_files import read_examples
from polyseme.families import FAMILIES
from polyseme.tasks import TASKS

METRICS = {"tag": "f1", "similarity": "spearman", "span": "f1"}  # otherwise accuracy
SETTINGS = ("training.evaluate_every=50", "data.batch_size=16", "finetuning.width=64", "finetuning.patience=0")
METHODS = {"elmo": "mix"}  # otherwise full
TRANSLATING = ("cove", "transformer")
BEGIN, END = "<!-- begin: every_task.py -->", "<!-- end: every_task.py -->"


def file_of(kind: str, split: str) -> Path:
    """A labelled file of the town sample."""
    (file,) = (sample_folder("town") / kind).glob(f"{split}.*")
    return file


def majority(kind: str, suffix: str = "") -> float:
    """The score of always predicting the majority label; the suffix selects the language of the test file."""
    if kind in ("similarity", "tag"):
        return 0.0  # constant scores have no rank correlation, and O tags no entities
    files = file_of(kind, "train"), file_of(kind + suffix, "test")
    train, gold = (read_examples(file, TASKS[kind].Example) for file in files)
    if kind == "span":
        return mean(example.labels == ("unanswerable",) for example in gold)  # never answering is the baseline
    ((label, _),) = Counter(example.labels for example in train).most_common(1)
    return mean(example.labels == label for example in gold)


def pretrained(family: str, args: argparse.Namespace, out: Path) -> Path:
    """Pretrain a tiny model on the town and return its directory."""
    town = sample_folder("town")
    corpus: Any = town / "en.train.txt"
    settings = [f"training.threads={args.threads}"]
    if family == "mbert":
        corpus = {language: town / f"{language}.train.txt" for language in ("en", "zh")}
    elif family in TRANSLATING:
        corpus = file_of("translate", "train")
    if family == "cove":
        settings.append(f"model.vectors={pretrained('glove', args, out.with_name('vectors-of-cove'))}")
    elif "max_length" in FAMILIES[family].Config.model_fields:
        settings.append("model.max_length=128")  # the longest examples
    # Static embeddings use the budgets of their presets.
    budget = None if FAMILIES[family].context == "none" else args.pretraining_budget
    ps.pretrain(family, corpus=corpus, out=out, size="tiny", budget=budget, settings=settings, resume=True)
    return out


def run(family: str, args: argparse.Namespace) -> Row:
    """Pretrain a family, fine-tune it on every task and return its test scores."""
    folder = args.runs / family
    model = pretrained(family, args, folder / "pretrained")
    row: Row = {"family": family}
    for kind in TASKS:
        tuned = ps.finetune(
            model,
            task=kind,
            train=file_of(kind, "train"),
            dev=file_of(kind, "dev"),
            out=folder / kind,
            method=METHODS.get(family, "full"),
            budget=args.finetuning_budget,
            settings=[*SETTINGS, f"training.threads={args.threads}"],
            resume=True,
        )
        row[kind] = tuned.score_task(file_of(kind, "test"))[METRICS.get(kind, "accuracy")]
    return row


def markdown(rows: list[Row], args: argparse.Namespace) -> str:
    """The rows as a Markdown table with the best scores in bold, and the conditions of the run."""
    best = {kind: max(row[kind] for row in rows) for kind in TASKS}
    lines = [
        "| | " + " | ".join(f"{kind} ({METRICS.get(kind, 'accuracy')})" for kind in TASKS) + " |",
        "|---" * (1 + len(TASKS)) + "|",
    ]
    for row in rows:
        cells = [f"**{row[kind]:.3f}**" if row[kind] == best[kind] else f"{row[kind]:.3f}" for kind in TASKS]
        lines.append(f"| {row['family']} | " + " | ".join(cells) + " |")
    facts = machine()
    conditions = (
        f"Pretrained for {args.pretraining_budget} (static embeddings: budget of the preset), fine-tuned for "
        f"{args.finetuning_budget}; {facts['date']}, {facts['processor']}, {args.threads} "
        f"thread{'s' * (args.threads > 1)} per model."
    )
    return "\n".join([*lines, "", conditions])


def write_page(page: Path, text: str) -> None:
    """Replace the table between the markers of a page."""
    marked = re.compile(f"(?<={re.escape(BEGIN)}\n).*(?={re.escape(END)})", re.DOTALL)
    page.write_text(marked.sub(lambda _: text + "\n", page.read_text("utf-8")), "utf-8")


def main() -> None:
    parser, parse_args = arguments(__doc__, rounds=1, long_rounds=1)
    parser.add_argument(
        "--families",
        default=",".join(name for name in FAMILIES if FAMILIES[name].has_vectors),
        help="comma-separated (default: all)",
    )
    parser.add_argument("--pretraining-budget", help="for each family (1000steps, 4000steps with --long)")
    parser.add_argument("--finetuning-budget", help="for each task (400steps, 2000steps with --long)")
    parser.add_argument("--parallel", type=int, default=1, help="number of families to train in parallel")
    parser.add_argument("--threads", type=int, default=1, help="per model")
    parser.add_argument("--runs", type=Path, help="folder to keep the runs in; existing runs are resumed")
    parser.add_argument("--page", type=Path, help="Markdown page to update")
    args = parse_args()
    args.pretraining_budget = args.pretraining_budget or ("4000steps" if args.long else "1000steps")
    args.finetuning_budget = args.finetuning_budget or ("2000steps" if args.long else "400steps")
    rows: list[Row] = [{"family": "majority", **{kind: majority(kind) for kind in TASKS}}]
    families = args.families.split(",")
    # One process per family, since the number of threads is set per process.
    context = multiprocessing.get_context("spawn")
    with (
        tempfile.TemporaryDirectory() as folder,
        ProcessPoolExecutor(args.parallel, context, max_tasks_per_child=1) as pool,
    ):
        args.runs = args.runs or Path(folder)
        for row in pool.map(run, families, [args] * len(families)):
            rows.append(row)
            if args.page:
                write_page(args.page, markdown(rows, args))
    report(rows, args.json)
    print(markdown(rows, args))


if __name__ == "__main__":
    main()
