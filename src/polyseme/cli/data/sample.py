"""polyseme sample"""

from pathlib import Path
from typing import Annotated

import typer

from polyseme.cli.console import report, suggest
from polyseme.cli.progress import spinner


def sample(
    name: Annotated[str, typer.Argument(help="docstrings or town.")],
    out: Annotated[Path, typer.Option(help="Directory to write, new or empty.")],
    seed: Annotated[int, typer.Option(help="Random seed of town.")] = 0,
) -> None:
    """Write a built-in corpus for trying the other commands.

    docstrings is English text: the documentation of the Python packages on this machine. town is a synthetic bilingual
    corpus with labelled data for every kind of task.

    \b
    Example:
      polyseme sample town --out town
    """
    from polyseme.datasets.builtin import write_sample

    with spinner(f"writing {name}"):
        write_sample(name, out, seed=seed)
    for path in sorted(out.rglob("*")):
        if path.is_file():
            report(f"  {path}")
    text = next(iter(sorted(out.glob("*train.txt"))), out)
    suggest("pretrain bert --corpus {} --size tiny --out runs/first", text)
