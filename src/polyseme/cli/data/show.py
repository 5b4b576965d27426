"""polyseme data show"""

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from polyseme.cli.console import print_json, suggest
from polyseme.cli.options import Json
from polyseme.cli.progress import reading_bar

if TYPE_CHECKING:
    from polyseme.tokenization.tokenizer import Tokenizer

_STYLES = {"masked": "bold red", "replaced": "bold yellow", "unchanged": "bold green", "target": "dim", "plain": ""}

Pieces = list[tuple[str, str]]  # a style and the text in it


def show(
    run: Annotated[Path, typer.Argument(help="Run directory.")],
    rows: Annotated[int, typer.Option(min=1, help="Maximum number of sequences.")] = 3,
    step: Annotated[int, typer.Option(min=0, help="Training step, counted from 0.")] = 0,
    json: Json = False,
) -> None:
    """Print sequences of a training batch as the model sees them.

    Each masked token is followed by its {target}.

    \b
    Example:
      polyseme data show runs/bert --rows 2 --step 100
    """
    import torch

    from polyseme.batch import IGNORED
    from polyseme.training.pretraining import draw_batch

    batch, tokenizer, objective = draw_batch(run, step, watch=partial(reading_bar, "reading the corpus"))
    labels = batch.labels.get("masked_lm", torch.full_like(batch.ids, IGNORED)).tolist()
    translations = batch.labels.get("translation")
    joined = torch.zeros_like(batch.ids) if batch.units is None else batch.units
    classes = {
        name: part.label_names for name, part in zip(objective.names, objective.parts, strict=True) if part.label_names
    }
    for number in range(min(rows, len(batch.ids))):
        ids = batch.ids[number, batch.mask[number]].tolist()
        targets = {position: target for position, target in enumerate(labels[number]) if target != IGNORED}
        pair = {name: names[int(batch.labels[name][number])] for name, names in classes.items()}
        if translations is not None:
            pair["translation"] = tokenizer.decode(id for id in translations[number].tolist() if id != IGNORED)
        if json:
            tokens = [
                {"position": position, "input": tokenizer.token(ids[position]), "target": tokenizer.token(target)}
                for position, target in targets.items()
            ]
            text = tokenizer.decode([targets.get(n, id) for n, id in enumerate(ids)], skip_specials=False)
            print_json({"step": step, "row": number, "text": text, "targets": tokens, **pair})
        else:
            print(f"row {number}" + "".join(f", {name}: {answer}" for name, answer in pair.items()))
            _print(_pieces(tokenizer, ids, targets, joined[number].tolist()))
    suggest("info {}", run)


def _pieces(tokenizer: "Tokenizer", ids: list[int], targets: dict[int, int], joined: list[int]) -> Pieces:
    """A sequence as styled text; tokens that are masked as a unit are printed together, before their targets."""
    pieces: Pieces = []
    target = ""
    for position, text in enumerate(_token_texts(tokenizer, [targets.get(n, id) for n, id in enumerate(ids)])):
        if position not in targets:
            pieces.append(("plain", text))
            continue
        if not target:
            pieces.append(("plain", text[: len(text) - len(text.lstrip())]))
        target += text
        id = ids[position]
        style = "masked" if id == tokenizer.specials.mask else "unchanged" if id == targets[position] else "replaced"
        pieces.append((style, tokenizer.decode([id], skip_specials=False)))
        if position + 1 not in targets or not joined[position + 1]:
            pieces.append(("target", f"{{{target.strip()}}}"))
            target = ""
    return pieces


def _token_texts(tokenizer: "Tokenizer", ids: list[int]) -> list[str]:
    """Split the decoded text by token; a character that spans several tokens belongs to the last one."""
    texts, done = [], ""
    for end in range(1, len(ids) + 1):
        text = tokenizer.decode(ids[:end], skip_specials=False)
        if text.endswith("\ufffd") and end < len(ids):
            texts.append("")
        else:
            texts.append(text[len(done) :])
            done = text
    return texts


def _print(pieces: Pieces) -> None:
    if not sys.stdout.isatty():
        print("".join(text for _, text in pieces))
        return
    from rich.console import Console
    from rich.text import Text

    Console().print(Text.assemble(*((text, _STYLES[style]) for style, text in pieces)))
