"""polyseme data check"""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from polyseme.cli.console import say, table, working, write_json
from polyseme.errors import CheckpointError, ConfigError

if TYPE_CHECKING:
    from polyseme.text.checking import Survey

_MOST_LABELS = 20  # that are printed
_SPREADS = ("characters", "words", "tokens", "scores")


def check(
    file: Annotated[Path, typer.Argument(help="Labelled file, the one to learn from.")],
    task: Annotated[
        str | None, typer.Option(help="classify, pair, similarity, choice, tag or span; else the file tells.")
    ] = None,
    against: Annotated[
        list[Path] | None, typer.Option(help="File to measure on, such as dev or test. May be given several times.")
    ] = None,
    column: Annotated[
        list[str] | None, typer.Option(help="Column of another name: text=review; of tags by number: tag=4.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="Directory of a model that should read the texts.")] = None,
    json: Annotated[bool, typer.Option("--json", help="As one JSON object.")] = False,
) -> None:
    """Look over labelled files before training: what will hurt, and what is good to know.

    Ends with 1 if anything hurts: rows that cannot be used, bytes that are no text, the same text with different
    labels, rows that stand in two files, labels that are nowhere to be learnt from, a model that does not fit.

    \b
    Example:
      polyseme data check train.tsv --against dev.tsv --against test.tsv --model runs/bert
    """
    from polyseme.text.checking import check_files

    given: dict[str, Any] = {}
    if model is not None:
        from polyseme.opening import load

        loaded = load(model)
        if loaded.tokenizer is None:
            raise CheckpointError(f"{model} has no tokenizer files, so it cannot read text; choose another --model")
        given = {
            "tokenizer": loaded.tokenizer,
            "max_length": loaded.encoder.config.max_length,
            "reads_letters": loaded.encoder.reads_letters,
        }
    with working("looking through the files"):
        report = check_files(file, *(against or []), task=task, columns=columns_of(column or []), **given)
    facts = list(map(_facts, report.surveys))
    if json:
        findings = [{**asdict(finding), "file": str(finding.file)} for finding in report.findings]
        write_json({"task": report.task, "files": facts, "findings": findings})
    else:
        _print(report.task, facts)
        if report.findings:
            rows = [
                ["hurts" if finding.hurts else "note", str(finding.file), f"{finding.num_rows:,}", finding.what]
                for finding in report.findings
            ]
            table(rows, header=["finding", "file", "rows", "which"])
        else:
            say("all is well")
    if report.hurts:
        raise typer.Exit(1)


def columns_of(given: list[str]) -> dict[str, str]:
    """Columns of other names, as options say them."""
    columns = dict(text.partition("=")[::2] for text in given)
    wrong = next((name for name, column in columns.items() if not (name and column)), None)
    if wrong is not None:
        raise ConfigError(f"--column {wrong}: say what is where, such as text=review")
    return columns


def _facts(survey: "Survey") -> dict[str, Any]:
    reading = survey.reading
    spreads = {
        "characters": survey.characters,
        "words": survey.words,
        "tokens": reading and reading.tokens,
        "scores": survey.scores,
    }
    return {
        "file": str(survey.file),
        "rows": len(survey.examples) + len(survey.unusable),
        "unusable": len(survey.unusable),
        "damaged": len(survey.damaged),
        "contradicting": len(survey.contradicting),
        "repeated": len(survey.repeated),
        "leaked": len(survey.leaked),
        **{name: spread and asdict(spread) for name, spread in spreads.items()},
        "unknown_tokens": reading and round(reading.unknown, 6),
        "too_long": reading and len(reading.long),
        "labels": survey.labels,
    }


def _print(task: str, facts: list[dict[str, Any]]) -> None:
    """A column a file: its figures, and how often each label is met."""
    files = [fact.pop("file") for fact in facts]
    labels = [fact.pop("labels") for fact in facts]
    known = [name for name in facts[0] if any(fact[name] is not None for fact in facts)]
    table([[_title(name), *(_shown(fact[name]) for fact in facts)] for name in known], header=[task, *files])
    names = list(dict.fromkeys(label for counts in labels for label in counts))
    rows = [[name, *(_shown(counts.get(name, 0)) for counts in labels)] for name in names]
    if len(rows) > _MOST_LABELS:
        rows[_MOST_LABELS:] = [[f"… {len(rows) - _MOST_LABELS} more", *("" for _ in files)]]
    if rows:
        table(rows, header=["label", *files])


def _title(name: str) -> str:
    spread = " (least, median, 95 %, greatest)" if name in _SPREADS else ""
    return name.replace("_", " ") + spread


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return " / ".join(f"{figure:,.6g}" for figure in value.values())
    if isinstance(value, float):
        return f"{value:.2%}"
    return "–" if value is None else f"{value:,}"
