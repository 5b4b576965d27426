"""polyseme embed"""

import io
from pathlib import Path
from typing import Annotated, Any

import typer

from polyseme.cli.console import say, texts, working, write_json
from polyseme.errors import ConfigError, DataError


def embed(
    model: Annotated[str, typer.Argument(help="Directory of a model.")],
    text: Annotated[list[str] | None, typer.Argument(help="Texts; else standard input.")] = None,
    file: Annotated[Path | None, typer.Option(help="A text a line.")] = None,
    pool: Annotated[str, typer.Option(help="mean, first, last or max over the tokens.")] = "mean",
    layer: Annotated[int, typer.Option(help="Which layer: 0 is the embedding, -1 the last.")] = -1,
    weights: Annotated[str, typer.Option(help="float32; or int8, half as fast again.")] = "float32",
    out: Annotated[Path | None, typer.Option(help="Write a NumPy array to this .npy file instead of JSONL.")] = None,
) -> None:
    """Turn texts into vectors.

    \b
    Examples:
      polyseme embed runs/bert 'a sentence' 'another one'
      polyseme embed runs/bert --file lines.txt --pool first --out vectors.npy
    """
    given = texts(text, file)
    if out is not None and out.suffix != ".npy":
        raise ConfigError(f"{out} should end in .npy; leave --out away for JSONL on standard output")
    if out is not None and not out.absolute().parent.is_dir():
        raise DataError(f"{out} cannot be written ({out.parent} is no folder); choose another --out")
    import numpy as np

    from polyseme.files import write_file
    from polyseme.opening import load

    loaded = load(model, weights=weights)
    choice: Any = pool
    with working("embedding"):
        vectors = loaded.embed(given, pool=choice, layer=layer)
    if out is not None:
        try:
            buffer = io.BytesIO()
            np.save(buffer, vectors)
            write_file(out, buffer.getvalue())
        except OSError as error:
            raise DataError(f"{out} cannot be written ({error.strerror}); choose another --out") from None
        say(f"{out}: {vectors.shape[0]} vectors of {vectors.shape[1]} numbers")
        return
    for sentence, vector in zip(given, vectors, strict=True):
        write_json({"text": sentence, "vector": [round(float(number), 6) for number in vector]})
