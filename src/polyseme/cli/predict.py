"""polyseme predict"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from polyseme.cli.check import columns_of
from polyseme.cli.console import say, table, working, write_json
from polyseme.errors import ConfigError, DataError

if TYPE_CHECKING:
    from polyseme.pretrained import Pretrained
    from polyseme.text.records import Example

_BLOCK = 1024  # examples that are held at once
_LONG = ("passage", "choices")  # what tables leave out


def predict(
    model: Annotated[str, typer.Argument(help="Directory of a fine-tuned model.")],
    file: Annotated[str | None, typer.Argument(help="File; else, or if it is -, standard input.")] = None,
    task: Annotated[str | None, typer.Option(help="Which task, if the model knows several.")] = None,
    column: Annotated[
        list[str] | None, typer.Option(help="Column of another name: text=review; of words by number: word=2.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write to this file, as JSONL if it ends in .jsonl.")] = None,
    json: Annotated[bool, typer.Option("--json", help="A JSON object a row, with all there is to say.")] = False,
) -> None:
    """Let a fine-tuned model answer: classes, scores, choices, tags, or where a passage has the answer.

    Files are such as it learnt from, with labels or without; or plain text, a text a line, or two with a tab between
    them. Sentences to tag are cut at white space, and Chinese into characters; words cut otherwise stand one a line in
    a .conll file, or in JSON as a list. Questions come as SQuAD has them, or as lines {"question": …, "passage": …}.

    \b
    Examples:
      polyseme predict runs/reviews reviews.tsv --column text=review --out labels.tsv
      echo 'Ada lives in London.' | polyseme predict runs/ner --json
      polyseme predict runs/squad questions.json --out answers.jsonl
    """
    if file is None and (sys.stdin is None or sys.stdin.isatty()):
        raise ConfigError("there is nothing to predict; name a file, or give text on standard input")
    if out is not None and not out.absolute().parent.is_dir():
        raise DataError(f"{out} cannot be written ({out.parent} is no folder); choose another --out")
    columns = columns_of(column or [])
    from polyseme.opening import load
    from polyseme.text.labelled import stream_examples

    loaded = load(model)
    source = sys.stdin.buffer if file in (None, "-") else file
    answers = _answers(loaded, stream_examples(source, loaded.form(task), columns=columns), task)
    with _printing_to(out):
        if json or (out is not None and out.suffix == ".jsonl"):
            for example, answer in answers:
                write_json({"row": example.row, **_given(example), **answer.describe(example)})
        else:
            rows = ({**_given(example, but=_LONG), **answer.outline(example)} for example, answer in answers)
            first = next(rows)
            cells = ([" ".join(cell.split()) for cell in row.values()] for row in chain([first], rows))
            table(cells, header=[*first])


def _answers(model: "Pretrained", examples: "Iterator[Example]", task: str | None) -> "Iterator[tuple[Example, Any]]":
    done = 0
    while block := list(islice(examples, _BLOCK)):
        with working(f"{done:,} rows done"):
            answers = model.predict(block, task=task)
        yield from zip(block, answers, strict=True)
        done += len(block)


def _given(example: "Example", *, but: tuple[str, ...] = ()) -> dict[str, Any]:
    return {name: getattr(example, name) for name in example.given if name not in but}


@contextmanager
def _printing_to(out: Path | None) -> Iterator[None]:
    """Let what is printed go to a file, which is there when it is whole."""
    from polyseme.files import whole_file

    if out is None:
        yield
        return
    try:
        with whole_file(out) as beside, beside.open("w", encoding="utf-8") as file, redirect_stdout(file):
            yield
    except OSError as error:
        raise DataError(f"{out} cannot be written ({error.strerror}); choose another --out") from None
    say(f"{out} is written")
