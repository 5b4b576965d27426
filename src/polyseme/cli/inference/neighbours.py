"""polyseme neighbours"""

from typing import Annotated

import typer

from polyseme.cli.console import print_json, print_table, read_texts, report, suggest
from polyseme.cli.options import Json, Model, load_model


def neighbours(
    model: Model,
    word: Annotated[list[str] | None, typer.Argument(help="Words; by default the lines of standard input.")] = None,
    top: Annotated[int, typer.Option(min=1, help="Number of neighbours of each word.")] = 10,
    json: Json = False,
) -> None:
    """Find the nearest neighbours of words in the embedding.

    Ranks words by the cosine similarity of their layer-0 vectors, which do not depend on context.

    \b
    Examples:
      polyseme neighbours runs/skipgram bank river
      polyseme neighbours vectors.bin bank --top 3
    """
    words = read_texts(word, None)
    loaded = load_model(model)
    found = [(name, loaded.neighbours(name, top=top)) for name in words]
    if json:
        for name, near in found:
            print_json({"word": name, "neighbours": [{"word": n.word, "score": round(n.score, 6)} for n in near]})
    else:
        rows = [
            [name if rank == 0 else "", neighbour.word, f"{neighbour.score:.3f}"]
            for name, near in found
            for rank, neighbour in enumerate(near)
        ]
        print_table(rows, header=["word", "neighbour", "cosine"])
        for name, near in found:
            if not any(neighbour.score for neighbour in near):
                report(f"no vector is similar to that of {name!r}; the order of its neighbours is arbitrary")
    suggest("senses {} --word {} --texts FILE", model, words[0])
