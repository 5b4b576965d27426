"""polyseme export"""

from pathlib import Path
from typing import Annotated

import typer

from polyseme.cli.console import say, texts, working


def export(
    model: Annotated[str, typer.Argument(help="Directory of a model that reads both directions.")],
    out: Annotated[Path, typer.Option(help="Directory to write; new or empty.")],
    to: Annotated[str, typer.Option(help="onnx: a graph in floats. int8: the same in bytes.")] = "onnx",
    file: Annotated[Path | None, typer.Option(help="Texts to check it on, one a line; else those of a sample.")] = None,
) -> None:
    """Write a model as a graph for other programs, and check that it gives the same vectors.

    \b
    Examples:
      polyseme export runs/bert --to onnx --out graphs/bert
      polyseme export runs/bert --to int8 --file lines.txt --out graphs/bert-int8
    """
    given = texts(None, file) if file else None
    from polyseme.interchange.onnx import require_onnx
    from polyseme.pretrained import load

    require_onnx()
    loaded = load(model)
    with working("exporting"):
        graph, parity = loaded.export(out, to=to, texts=given)
    print(
        f"{graph}: on {parity.num_rows} texts numbers differ by {parity.difference:.1e} at most, "
        f"cosine {parity.cosine:.6f} at least"
    )
    say("its vectors are last_hidden_state, averaged where attention_mask is 1")
