"""Options and arguments that several commands share."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from polyseme.errors import ConfigError

if TYPE_CHECKING:
    from polyseme.pretrained import Pretrained

Model = Annotated[
    str, typer.Argument(help="Model directory (Polyseme or transformers), file of word vectors, or hf:NAME.")
]
Texts = Annotated[list[str] | None, typer.Argument(help="Texts; by default the lines of --file or standard input.")]
TextFile = Annotated[Path | None, typer.Option("--file", help="File with one text per line.")]
Weights = Annotated[str, typer.Option(help="float32, or int8: a quarter of the memory, and faster.")]
Verify = Annotated[
    bool, typer.Option("--verify/--no-verify", help="Compare the checksums of the files with those in the manifest.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON lines.")]

RunFolder = Annotated[Path, typer.Option(help="Directory of the run, new or empty; it becomes a model directory.")]
CORPUS_HELP = (
    "Text: file, folder, pattern, or a built-in sample (docstrings, town). Repeatable; en=PATH sets the language."
)
Corpus = Annotated[list[str] | None, typer.Option(help=CORPUS_HELP)]
Dev = Annotated[list[str] | None, typer.Option(help="Validation corpus. Repeatable.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", help="Any setting of the recipe: --set training.learning_rate=3e-4. Repeatable."),
]
Resume = Annotated[
    bool, typer.Option("--resume", help="Resume the run in --out, if there is one; another --budget extends it.")
]
RecipeKind = Annotated[
    str, typer.Option(help="fast: lowest validation loss for the time. paper: hyperparameters as published.")
]
TextColumn = Annotated[str, typer.Option(help="Column of the text in jsonl, csv, tsv and parquet.")]
Columns = Annotated[
    list[str] | None,
    typer.Option("--column", help="Column under another name: text=review; for tags by position: tag=4. Repeatable."),
]


def given(context: typer.Context, **parsed: Any) -> dict[str, Any]:
    """Those parameters that are on the command line, even with their default; `parsed` has values of another form."""
    sources = {name: context.get_parameter_source(name) for name in context.params}
    names = [name for name, source in sources.items() if source and source.name != "DEFAULT"]
    return {name: parsed.get(name, context.params[name]) for name in names}


def load_model(path: str | Path, weights: str = "float32") -> "Pretrained":
    """Load a model; torch is imported now, not when the program starts."""
    from polyseme.loading import load

    return load(path, weights=weights)


def parse_columns(options: list[str] | None) -> dict[str, str]:
    """--column FIELD=COLUMN, repeated, as a mapping."""
    columns = dict(text.partition("=")[::2] for text in options or [])
    wrong = next((name for name, column in columns.items() if not (name and column)), None)
    if wrong is not None:
        raise ConfigError(f"--column {wrong}: name the field and the column, such as text=review")
    return columns


def parse_named(options: list[str] | None) -> dict[str, str]:
    """The values of a repeated option by name, from NAME=VALUE; a single value needs no name."""
    named: dict[str, str] = {}
    for text in options or []:
        name, value = split_name(text)
        if len(options or []) > 1 and not name:
            raise ConfigError(f"{text:.60} has no name; with several, write NAME={text:.30}")
        if name in named:
            raise ConfigError(f"{text:.60}: this name is used twice; choose another")
        named[name] = value
    return named


def split_name(text: str) -> tuple[str, str]:
    """The name and the value of NAME=VALUE; no name for another text, or a path that exists."""
    match = re.fullmatch(r"([\w.-]+)=(.+)", text)
    return (match[1], match[2]) if match and not Path(text).exists() else ("", text)
