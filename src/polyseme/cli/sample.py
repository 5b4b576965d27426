"""polyseme sample"""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from polyseme.cli.console import say, suggest, working


def sample(
    name: Annotated[str, typer.Argument(help="docstrings or town.")],
    out: Annotated[Path, typer.Option(help="Directory to write; new or empty.")],
    seed: Annotated[int, typer.Option(help="Another seed makes another town.")] = 0,
) -> None:
    """Write a built-in corpus, so that every command has something to run on.

    docstrings is real English: the documentation inside the Python packages of this machine. town is a made-up
    bilingual little world with labelled sets for every kind of task.

    \b
    Example:
      polyseme sample town --out town
    """
    from polyseme.text.samples import write_sample

    with working(f"writing {name}"):
        write_sample(name, out, seed=seed)
    for path in sorted(out.rglob("*")):
        if path.is_file():
            say(f"  {path}")
    text = next(iter(sorted(out.glob("*train.txt"))), out)
    suggest(f"polyseme pretrain bert --corpus {shlex.quote(str(text))} --size tiny --out runs/first")
