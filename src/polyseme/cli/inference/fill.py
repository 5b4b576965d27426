"""polyseme fill"""

from typing import Annotated

import typer

from polyseme.cli.console import print_json, print_table, read_texts, suggest
from polyseme.cli.options import Json, Model, TextFile, load_model


def fill(
    model: Model,
    text: Annotated[
        list[str] | None, typer.Argument(help="Texts with [MASK]; by default the lines of --file or standard input.")
    ] = None,
    file: TextFile = None,
    top: Annotated[int, typer.Option(min=1, help="Number of candidates for each [MASK].")] = 5,
    json: Json = False,
) -> None:
    """Predict masked tokens with a masked language model.

    Write one [MASK] per token (fill-mask); in most Chinese models, that is one per character.

    \b
    Examples:
      polyseme fill runs/bert 'The [MASK] barked.' --top 3
      polyseme fill runs/ernie '她把钱存进了[MASK][MASK]。'
    """
    texts = read_texts(text, file)
    loaded = load_model(model)
    for sentence in texts:
        masks = loaded.fill(sentence, top=top)
        if json:
            predictions = [[{"token": p.token, "probability": round(p.probability, 6)} for p in mask] for mask in masks]
            print_json({"text": sentence, "masks": predictions})
            continue
        rows = [
            [sentence if number == rank == 1 else "", str(number), one.token, f"{one.probability:.3f}"]
            for number, mask in enumerate(masks, start=1)
            for rank, one in enumerate(mask, start=1)
        ]
        print_table(rows, header=["text", "mask", "token", "probability"])
    suggest("embed {} --file FILE --out vectors.npy", model)
