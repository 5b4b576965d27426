"""polyseme neighbours"""

from typing import Annotated

import typer

from polyseme.cli.console import say, table, texts, write_json


def neighbours(
    model: Annotated[str, typer.Argument(help="Directory of a model, or a file of word vectors.")],
    word: Annotated[list[str] | None, typer.Argument(help="Words; else standard input, one a line.")] = None,
    top: Annotated[int, typer.Option(min=1, help="How many for each word.")] = 10,
    json: Annotated[bool, typer.Option("--json", help="A JSON object a word.")] = False,
) -> None:
    """Show the words whose vectors, before any context, are nearest to that of a word.

    \b
    Examples:
      polyseme neighbours runs/skipgram bank river
      polyseme neighbours vectors.bin bank --top 3
    """
    given = texts(word, None)
    from polyseme.opening import load

    loaded = load(model)
    found = [(name, loaded.neighbours(name, top=top)) for name in given]
    if json:
        for name, near in found:
            write_json({"word": name, "neighbours": [{"word": n.word, "score": round(n.score, 6)} for n in near]})
        return
    rows = [
        [name if place == 0 else "", neighbour.word, f"{neighbour.score:.3f}"]
        for name, near in found
        for place, neighbour in enumerate(near)
    ]
    table(rows, header=["word", "neighbour", "cosine"])
    for name, near in found:
        if not any(neighbour.score for neighbour in near):
            say(f"no vector is like that of {name!r}; these are as good as any")
