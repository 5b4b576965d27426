"""polyseme data"""

import shlex
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from polyseme.cli.check import check
from polyseme.cli.console import reading, suggest, write_json
from polyseme.cli.phrases import phrases

if TYPE_CHECKING:
    from polyseme.text.tokenizer import Tokenizer

data = typer.Typer(help="Look at what a model is asked, and prepare text.", no_args_is_help=True, rich_markup_mode=None)

_STYLES = {"masked": "bold red", "replaced": "bold yellow", "kept": "bold green", "answer": "dim", "plain": ""}

Pieces = list[tuple[str, str]]  # a style and the text in it


@data.callback()
def group() -> None:
    """Look at what a model is asked, and prepare text."""


data.command()(check)
data.command()(phrases)


@data.command()
def show(
    run: Annotated[Path, typer.Argument(help="Directory of a run.")],
    rows: Annotated[int, typer.Option(min=1, help="How many rows, at most those of the step.")] = 3,
    step: Annotated[int, typer.Option(min=0, help="Which step of the run; the first is 0.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="A JSON object a row.")] = False,
) -> None:
    """Print rows of a step as the model sees them, with {what was there} behind each token that is asked for.

    \b
    Example:
      polyseme data show runs/bert --rows 2 --step 100
    """
    import torch

    from polyseme.tensors import IGNORED
    from polyseme.train.pretraining import draw_batch

    batch, tokenizer, objective = draw_batch(run, step, watch=partial(reading, "reading the text"))
    labels = batch.labels.get("masked", torch.full_like(batch.ids, IGNORED)).tolist()
    translations = batch.labels.get("translation")
    joined = torch.zeros_like(batch.ids) if batch.units is None else batch.units
    judges = {name: part.answers for name, part in zip(objective.names, objective.parts, strict=True) if part.answers}
    for number in range(min(rows, len(batch.ids))):
        ids = batch.ids[number, batch.mask[number]].tolist()
        asked = {place: answer for place, answer in enumerate(labels[number]) if answer != IGNORED}
        pair = {name: answers[int(batch.labels[name][number])] for name, answers in judges.items()}
        if translations is not None:
            pair["translation"] = tokenizer.decode(id for id in translations[number].tolist() if id != IGNORED)
        if json:
            tokens = [
                {"place": place, "shown": tokenizer.token(ids[place]), "answer": tokenizer.token(answer)}
                for place, answer in asked.items()
            ]
            text = tokenizer.decode([asked.get(place, id) for place, id in enumerate(ids)], skip_specials=False)
            write_json({"step": step, "row": number, "text": text, "asked": tokens, **pair})
        else:
            print(f"row {number}" + "".join(f", {name}: {answer}" for name, answer in pair.items()))
            _print(_pieces(tokenizer, ids, asked, joined[number].tolist()))
    if not json:
        suggest(f"polyseme info {shlex.quote(str(run))}")


def _pieces(tokenizer: "Tokenizer", shown: list[int], asked: dict[int, int], joined: list[int]) -> Pieces:
    """The row in pieces; what is hidden together stands together, before what was there."""
    pieces: Pieces = []
    answer = ""
    for place, text in enumerate(_texts(tokenizer, [asked.get(place, id) for place, id in enumerate(shown)])):
        if place not in asked:
            pieces.append(("plain", text))
            continue
        if not answer:
            pieces.append(("plain", text[: len(text) - len(text.lstrip())]))
        answer += text
        id = shown[place]
        style = "masked" if id == tokenizer.specials.mask else "kept" if id == asked[place] else "replaced"
        pieces.append((style, tokenizer.decode([id], skip_specials=False)))
        if place + 1 not in asked or not joined[place + 1]:
            pieces.append(("answer", f"{{{answer.strip()}}}"))
            answer = ""
    return pieces


def _texts(tokenizer: "Tokenizer", ids: list[int]) -> list[str]:
    """What each token adds to the text; a character in several tokens comes with the last."""
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
