"""polyseme attention"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from polyseme.cli.console import check_output, print_rows, read_texts, report, suggest, write_output
from polyseme.cli.options import Json, Model, load_model
from polyseme.cli.progress import spinner
from polyseme.errors import ConfigError
from polyseme.system.formatting import format_bytes, format_number_of

if TYPE_CHECKING:
    from polyseme.analysis.attention import Attention


def attention(
    model: Model,
    text: Annotated[
        list[str] | None, typer.Argument(help="One text, or two to show side by side; by default standard input.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Page (.html) to write; without it, the statistics of heads are printed.")
    ] = None,
    pair: Annotated[
        bool, typer.Option("--pair", help="Encode two texts in one sequence: [CLS] a [SEP] b [SEP].")
    ] = False,
    words: Annotated[bool, typer.Option("--words", help="Statistics over whole words instead of tokens.")] = False,
    json: Json = False,
) -> None:
    """Show the attention weights of every head of a Transformer.

    For translation models, the cross-attention is shown as well.

    The page is a single file: each head as lines and as a matrix, all heads at a glance, and the statistics of each.

    \b
    Examples:
      polyseme attention runs/bert 'The bank of the river was steep.' --out attention.html
      polyseme attention runs/gpt2 'The doctor asked the nurse. She' 'The doctor asked the nurse. He' --out both.html
      polyseme attention runs/bert 'It rains.' 'The street is wet.' --pair --json
    """
    texts = read_texts(text, None)
    if len(texts) > 2:
        raise ConfigError(f"attention shows one or two texts, not {len(texts)}; omit some")
    if pair and len(texts) < 2:
        raise ConfigError("--pair needs two texts; add the second")
    check_output(out, ".html", ".htm")
    loaded = load_model(model)
    with spinner("encoding"):
        maps = [loaded.attention(*texts)] if pair else [loaded.attention(one) for one in texts]
    for one in maps:
        if one.num_truncated:
            report(f"the text is too long for the model; the last {one.num_truncated:,} tokens are omitted")
    if out is not None:
        with spinner("drawing"):
            page = maps[0].page(*maps[1:])
        write_output(out, page)
        report(f"Saved {out}: {_summary(maps[0])}, {format_bytes(len(page.encode()))}; open it in a browser.")
    if json or out is None:
        shown = [one.by_word() for one in maps] if words else maps
        parts = [(number, part) for number, one in enumerate(shown, start=1) for part in (one, one.cross) if part]
        named = json or len(parts) > 1
        rows = [
            ({"text": number, "weights": part.name} if named else {}) | row
            for number, part in parts
            for row in part.table()
        ]
        print_rows(rows, as_json=json)
    option = "--out attention.html" if out is None else "--json"
    suggest("attention {} {} " + option, model, texts[0])


def _summary(attention: "Attention") -> str:
    from polyseme.analysis.attention import ATTENTION_SINK

    num_layers, num_heads, num_tokens, _ = attention.weights.shape
    shape = f"{num_layers} × {num_heads} heads over {format_number_of(num_tokens, 'token')}"
    num_sinks = sum(head.label == ATTENTION_SINK for head in attention.heads)
    return f"{shape}, {num_sinks} attend mostly to the first token" if num_sinks else shape
