"""polyseme info"""

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from polyseme.cli.console import say, suggest, write_json


def info(
    model: Annotated[Path, typer.Argument(help="Directory of a model or run.")],
    json: Annotated[bool, typer.Option("--json", help="As one JSON object.")] = False,
) -> None:
    """Say what a model directory holds.

    \b
    Example:
      polyseme info runs/bert
    """
    from polyseme.opening import describe

    facts = describe(model)
    if json:
        write_json(facts)
        return
    for name, value in _flat(facts):
        print(f"{name:<28}{value}")
    if facts["state"] == "unfinished":
        suggest(f"polyseme pretrain {facts['family']} --out {shlex.quote(str(model))} --resume")
    elif facts.get("changed"):
        say(f"changed since it was written: {', '.join(facts['changed'])}")


def _flat(facts: dict[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    rows = []
    for name, value in facts.items():
        if isinstance(value, dict):
            rows += _flat(value, f"{prefix}{name}.")
        elif value not in (None, [], ""):
            shown = ", ".join(map(str, value)) if isinstance(value, list) else value
            rows.append((prefix + name, f"{shown:,}" if isinstance(shown, int) else f"{shown}"))
    return rows
