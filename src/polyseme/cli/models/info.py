"""polyseme info"""

from pathlib import Path
from typing import Annotated, Any

import typer

from polyseme.cli.console import print_json, report, suggest
from polyseme.cli.options import Json, Verify


def info(
    model: Annotated[Path, typer.Argument(help="Model or run directory, or a file of word vectors.")],
    verify: Verify = True,
    json: Json = False,
) -> None:
    """Describe a model: family, sizes, training and scores.

    \b
    Example:
      polyseme info runs/bert
    """
    from polyseme.loading import describe

    facts = describe(model, verify=verify)
    if json:
        print_json(facts)
    else:
        for name, value in _flat(facts):
            print(f"{name:<28}{value}")
    if facts.get("changed"):
        report(f"changed since it was written: {', '.join(facts['changed'])}")
    if facts["state"] == "unfinished":
        recipe = facts["recipe"]
        base = recipe["training"]["base_model"]
        command = "finetune" if "finetuning" in recipe else "adapt" if base else "pretrain"
        suggest(command + " {} --out {} --resume", base or facts["family"], model)
    else:
        suggest("predict {} FILE" if facts["family"] == "tfidf" else "serve {}", model)


def _flat(facts: dict[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    rows = []
    for name, value in facts.items():
        if isinstance(value, dict):
            rows += _flat(value, f"{prefix}{name}.")
        elif value not in (None, [], ""):
            shown = ", ".join(map(str, value)) if isinstance(value, list) else value
            rows.append((prefix + name, f"{shown:,}" if isinstance(shown, int) else f"{shown}"))
    return rows
