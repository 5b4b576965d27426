"""polyseme predict"""

import sys
from collections.abc import Iterator
from contextlib import ExitStack, redirect_stdout
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from polyseme.cli.console import check_output, print_json, print_table, report, suggest
from polyseme.cli.options import Columns, Json, load_model, parse_columns
from polyseme.cli.progress import spinner
from polyseme.errors import ConfigError
from polyseme.system.atomic_io import atomic_file
from polyseme.system.io_errors import writable

if TYPE_CHECKING:
    from polyseme.datasets.records import Example
    from polyseme.pretrained import Pretrained

_CHUNK = 1024  # examples in memory
_LONG_FIELDS = ("passage", "choices")  # omitted from tables


def predict(
    model: Annotated[str, typer.Argument(help="Directory of a fine-tuned model.")],
    file: Annotated[str | None, typer.Argument(help="File of inputs; - or nothing for standard input.")] = None,
    task: Annotated[str | None, typer.Option(help="Task name; required if the model has several tasks.")] = None,
    columns: Columns = None,
    out: Annotated[
        Path | None, typer.Option(help="File to write: JSON lines if it ends in .jsonl, else a table.")
    ] = None,
    json: Json = False,
) -> None:
    """Predict labels, scores or answers with a fine-tuned model.

    Inputs have the formats of the training files, with or without labels; or plain text, one text per line, or two with
    a tab between them. Sentences for sequence labelling are split at white space, Chinese into characters; other
    tokenizations are read from .conll files, or from lists in JSON. Questions for extractive question answering are
    SQuAD files, or lines {"question": …, "passage": …}.

    \b
    Examples:
      polyseme predict runs/reviews reviews.tsv --column text=review --out labels.tsv
      echo 'Ada lives in London.' | polyseme predict runs/ner --json
      polyseme predict runs/squad questions.json --out answers.jsonl
    """
    if file is None and (sys.stdin is None or sys.stdin.isatty()):
        raise ConfigError("no input; name a file, or pass text on standard input")
    check_output(out)
    names = parse_columns(columns)
    from polyseme.datasets.labelled_files import stream_examples

    loaded = load_model(model)
    source = sys.stdin.buffer if file in (None, "-") else file
    predictions = _predict(loaded, stream_examples(source, loaded.example_type(task), columns=names), task)
    with ExitStack() as stack:
        if out is not None:
            stack.enter_context(writable(out, "choose another --out"))
            table = stack.enter_context(atomic_file(out)).open("w", encoding="utf-8")
            stack.enter_context(redirect_stdout(stack.enter_context(table)))
        if json or (out is not None and out.suffix == ".jsonl"):
            for example, prediction in predictions:
                print_json({"row": example.row, **_inputs(example), **prediction.to_json(example)})
        else:
            rows = (
                {**_inputs(example, omit=_LONG_FIELDS), **prediction.to_row(example)}
                for example, prediction in predictions
            )
            first = next(rows)
            cells = ([" ".join(cell.split()) for cell in row.values()] for row in chain([first], rows))
            print_table(cells, header=[*first])
    if out is not None:
        report(f"Saved {out}.")
    suggest("evaluate {} --data LABELLED_FILE", model)


def _predict(model: "Pretrained", examples: "Iterator[Example]", task: str | None) -> "Iterator[tuple[Example, Any]]":
    done = 0
    while chunk := list(islice(examples, _CHUNK)):
        with spinner(f"{done:,} rows done"):
            predictions = model.predict(chunk, task=task)
        yield from zip(chunk, predictions, strict=True)
        done += len(chunk)


def _inputs(example: "Example", *, omit: tuple[str, ...] = ()) -> dict[str, Any]:
    return {name: getattr(example, name) for name in example.inputs if name not in omit}
