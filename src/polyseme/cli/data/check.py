"""polyseme data check"""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from polyseme.cli.console import print_json, print_table, report, suggest
from polyseme.cli.options import Columns, Json, load_model, parse_columns
from polyseme.cli.progress import spinner

if TYPE_CHECKING:
    from polyseme.datasets.quality import QualityReport

_MAX_LABELS = 20  # in the table


def check(
    file: Annotated[Path, typer.Argument(help="Labelled training file.")],
    task: Annotated[
        str | None,
        typer.Option(help="Kind of task, such as classify, pair or tag; inferred from the file by default."),
    ] = None,
    against: Annotated[list[Path] | None, typer.Option(help="Dev or test file. Repeatable.")] = None,
    columns: Columns = None,
    model: Annotated[
        str | None, typer.Option(help="Model directory; its tokenizer is checked on the texts, too.")
    ] = None,
    json: Json = False,
) -> None:
    """Check labelled files before training.

    Exits with status 1 if a check fails: invalid rows, encoding errors, identical texts with different labels, rows
    that occur in more than one file, labels without training examples, or texts that the model cannot read.

    \b
    Example:
      polyseme data check train.tsv --against dev.tsv --against test.tsv --model runs/bert
    """
    from polyseme.datasets.quality import check_files
    from polyseme.tasks import guess_task, task_spec

    names = parse_columns(columns)
    task = task or guess_task(file, columns=names)
    example_type = task_spec(task).Example
    options: dict[str, Any] = {}
    if model is not None:
        loaded = load_model(model)
        options = {
            "tokenizer": loaded.require_tokenizer(),
            "max_length": loaded.encoder.config.max_length,
            "uses_characters": loaded.encoder.uses_characters,
        }
    with spinner("checking the files"):
        quality = check_files(example_type, file, *(against or []), columns=names, **options)
    facts = list(map(_facts, quality.reports))
    if json:
        findings = [{**asdict(finding), "file": str(finding.file)} for finding in quality.findings]
        print_json({"task": task, "files": facts, "findings": findings})
    else:
        _print(task, facts)
        rows = [
            ["problem" if finding.is_problem else "note", str(finding.file), f"{finding.num_rows:,}", finding.message]
            for finding in quality.findings
        ]
        if rows:
            print_table(rows, header=["finding", "file", "rows", "which"])
        else:
            report("no problems found")
    if quality.has_problems:
        report("fix the rows above, and check again")
        raise typer.Exit(1)
    suggest("finetune {} --train {} --out DIR", model or "MODEL", file)


def _facts(report: "QualityReport") -> dict[str, Any]:
    tokenization = report.tokenization
    distributions = {
        "characters": report.characters,
        "words": report.words,
        "tokens": tokenization and tokenization.lengths,
        "scores": report.scores,
    }
    return {
        "file": str(report.file),
        "rows": len(report.examples) + len(report.invalid),
        **{name: len(getattr(report, name)) for name in ("invalid", "damaged", "contradicting", "repeated", "leaked")},
        **{name: values and asdict(values) for name, values in distributions.items()},
        "unknown_tokens": tokenization and round(tokenization.unknown_fraction, 6),
        "too_long": tokenization and len(tokenization.too_long),
        "labels": report.labels,
    }


def _print(task: str, facts: list[dict[str, Any]]) -> None:
    """A column per file: its statistics, and the count of each label."""
    files = [fact.pop("file") for fact in facts]
    labels = [fact.pop("labels") for fact in facts]
    known = [name for name in facts[0] if any(fact[name] is not None for fact in facts)]
    quantiles = dict.fromkeys(("characters", "words", "tokens", "scores"), " (minimum, median, 95 %, maximum)")
    titles = {name: name.replace("_", " ") + quantiles.get(name, "") for name in known}
    print_table([[titles[name], *(_cell(fact[name]) for fact in facts)] for name in known], header=[task, *files])
    names = list(dict.fromkeys(label for counts in labels for label in counts))
    rows = [[name, *(_cell(counts.get(name, 0)) for counts in labels)] for name in names]
    if len(rows) > _MAX_LABELS:
        rows[_MAX_LABELS:] = [[f"… {len(rows) - _MAX_LABELS} more", *("" for _ in files)]]
    if rows:
        print_table(rows, header=["label", *files])


def _cell(value: Any) -> str:
    if isinstance(value, dict):
        return " / ".join(f"{quantile:,.6g}" for quantile in value.values())
    if isinstance(value, float):
        return f"{value:.2%}"
    return "–" if value is None else f"{value:,}"
