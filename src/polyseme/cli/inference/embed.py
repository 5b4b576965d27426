"""polyseme embed"""

import io
from pathlib import Path
from typing import Annotated, Any

import typer

from polyseme.cli.console import check_output, print_json, read_texts, report, suggest, write_output
from polyseme.cli.options import Model, TextFile, Texts, Weights, load_model
from polyseme.cli.progress import spinner
from polyseme.system.formatting import format_number_of


def embed(
    model: Model,
    text: Texts = None,
    file: TextFile = None,
    pool: Annotated[str, typer.Option(help="Pooling over tokens: mean, first, last or max.")] = "mean",
    layer: Annotated[int, typer.Option(help="Layer: 0 is the embedding, -1 the top layer.")] = -1,
    weights: Weights = "float32",
    out: Annotated[Path | None, typer.Option(help="NumPy file (.npy) to write, instead of JSON lines.")] = None,
) -> None:
    """Embed texts: one vector per text.

    \b
    Examples:
      polyseme embed runs/bert 'a sentence' 'another one'
      polyseme embed runs/bert --file lines.txt --pool first --out vectors.npy
    """
    texts = read_texts(text, file)
    check_output(out, ".npy")
    import numpy as np

    loaded = load_model(model, weights=weights)
    pooling: Any = pool
    with spinner("embedding"):
        vectors = loaded.embed(texts, pool=pooling, layer=layer)
    if out is None:
        for sentence, vector in zip(texts, vectors, strict=True):
            print_json({"text": sentence, "vector": [round(float(value), 6) for value in vector]})
    else:
        buffer = io.BytesIO()
        np.save(buffer, vectors)
        write_output(out, buffer.getvalue())
        report(f"Saved {out}: {format_number_of(len(vectors), 'vector')} of {vectors.shape[1]} dimensions.")
    suggest("evaluate {} --suite words --data FILE", model)
