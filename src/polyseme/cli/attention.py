"""polyseme attention"""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from polyseme.cli.console import say, suggest, table, texts, working, write_json
from polyseme.errors import ConfigError, DataError

if TYPE_CHECKING:
    from polyseme.inside.attention import Attention


def attention(
    model: Annotated[str, typer.Argument(help="Directory of a Transformer, or of a cove.")],
    text: Annotated[
        list[str] | None, typer.Argument(help="A text, or two to see beside each other; else standard input.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The .html file to write; without it, the numbers of heads.")] = None,
    pair: Annotated[bool, typer.Option("--pair", help="Two texts in one frame: [CLS] a [SEP] b [SEP].")] = False,
    words: Annotated[bool, typer.Option("--words", help="Numbers by whole words instead of pieces.")] = False,
    json: Annotated[bool, typer.Option("--json", help="A JSON object a head.")] = False,
) -> None:
    """Show where each token looks, in every head of every layer.

    The page stands alone: one head in lines and as a matrix, all heads at a glance, and what each does in numbers. Of a
    model that translates, it shows where its translation looks too.

    \b
    Examples:
      polyseme attention runs/bert 'The bank of the river was steep.' --out attention.html
      polyseme attention runs/gpt2 'The doctor asked the nurse. She' 'The doctor asked the nurse. He' --out both.html
      polyseme attention runs/bert 'It rains.' 'The street is wet.' --pair --json
    """
    given = texts(text, None)
    if len(given) > 2:
        raise ConfigError(f"there are {len(given)} texts, and one or two can be shown; leave some away")
    if pair and len(given) < 2:
        raise ConfigError("--pair needs two texts; give the other one too")
    if out is not None and out.suffix not in (".html", ".htm"):
        raise ConfigError(f"{out} should end in .html; leave --out away for the numbers of heads")
    if out is not None and not out.absolute().parent.is_dir():
        raise DataError(f"{out} cannot be written ({out.parent} is no folder); choose another --out")
    from polyseme.files import size, write_file
    from polyseme.opening import load

    loaded = load(model)
    with working("looking"):
        found = [loaded.attention(*given)] if pair else [loaded.attention(one) for one in given]
    for one in found:
        if one.left_out:
            say(f"the model has no room for the last {one.left_out:,} tokens; they are left out")
    if out is not None:
        with working("drawing"):
            page = found[0].page(*found[1:])
        try:
            write_file(out, page)
        except OSError as error:
            raise DataError(f"{out} cannot be written ({error.strerror}); choose another --out") from None
        say(f"{out}: {_summary(found[0])}, {size(len(page.encode()))}; open it in a browser")
    if json or out is None:
        _show_numbers([one.by_word() for one in found] if words else found, json)
    if not json:
        place = shlex.quote(model)
        suggest(
            f"polyseme attention {place} {shlex.quote(given[0])} --out attention.html"
            if out is None
            else f"polyseme attention {place} {shlex.quote(given[0])} --json"
        )


def _summary(found: "Attention") -> str:
    from polyseme.inside.heads import PARKED

    num_layers, num_heads, num_tokens, _ = found.maps.shape
    shape = f"{num_layers} × {num_heads} heads over {num_tokens} tokens"
    num_parked = sum(head.label == PARKED for head in found.heads)
    return f"{shape}, {num_parked} parked on the first" if num_parked else shape


def _show_numbers(found: "list[Attention]", json: bool) -> None:
    parts = [(number, part) for number, one in enumerate(found, start=1) for part in (one, one.cross) if part]
    rows = [({"text": number, "weights": part.name}, row) for number, part in parts for row in part.table()]
    if json:
        for names, row in rows:
            write_json({**names, **{name: _rounded(value) for name, value in row.items()}})
        return
    several = len(parts) > 1
    table(
        [[*(map(str, names.values()) if several else ()), *map(_shown, row.values())] for names, row in rows],
        header=[*(rows[0][0] if several else ()), *(name.replace("_", " ") for name in rows[0][1])],
    )


def _rounded(value: Any) -> Any:
    return round(value, 6) if isinstance(value, float) else value


def _shown(value: Any) -> str:
    return "–" if value is None else f"{value:.3f}" if isinstance(value, float) else str(value)
