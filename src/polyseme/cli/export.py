"""polyseme export"""

from pathlib import Path
from typing import Annotated

import typer

from polyseme.cli.console import say, texts, working


def export(
    model: Annotated[str, typer.Argument(help="Directory of a model; for a graph, one that reads both directions.")],
    out: Annotated[Path, typer.Option(help="What to write: a new or empty directory; for word vectors, a file.")],
    to: Annotated[
        str,
        typer.Option(
            help="onnx: a graph in floats. int8: the same in bytes. word2vec, word2vec-text, glove: word vectors. "
            "bilm, fastai, mtlstm: an ELMo, ULMFiT or CoVe by the names of its authors' program."
        ),
    ] = "onnx",
    file: Annotated[
        Path | None, typer.Option(help="Texts to check a graph on, one a line; else those of a sample.")
    ] = None,
) -> None:
    """Write a model for other programs: as a graph that is checked to give the same vectors, or as word vectors.

    \b
    Examples:
      polyseme export runs/bert --to onnx --out graphs/bert
      polyseme export runs/bert --to int8 --file lines.txt --out graphs/bert-int8
      polyseme export runs/skipgram --to word2vec --out vectors.bin
    """
    given = texts(None, file) if file else None
    from polyseme.interchange.onnx import GRAPHS, require_onnx
    from polyseme.opening import load

    if to in GRAPHS:
        require_onnx()
    loaded = load(model)
    with working("exporting"):
        written, parity = loaded.export(out, to=to, texts=given)
    if parity is None:
        print(f"{written}: vectors of {loaded.encoder.tokens.embedding_dim} numbers")
        return
    print(
        f"{written}: on {parity.num_rows} texts numbers differ by {parity.difference:.1e} at most, "
        f"cosine {parity.cosine:.6f} at least"
    )
    say("its vectors are last_hidden_state, averaged where attention_mask is 1")
