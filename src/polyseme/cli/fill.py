"""polyseme fill"""

from pathlib import Path
from typing import Annotated

import typer

from polyseme.cli.console import table, texts, write_json


def fill(
    model: Annotated[str, typer.Argument(help="Directory of a masked model.")],
    text: Annotated[list[str] | None, typer.Argument(help="Texts with [MASK] in them; else standard input.")] = None,
    file: Annotated[Path | None, typer.Option(help="A text a line.")] = None,
    top: Annotated[int, typer.Option(min=1, help="How many guesses for each blank.")] = 5,
    json: Annotated[bool, typer.Option("--json", help="A JSON object a text.")] = False,
) -> None:
    """Guess the words at [MASK].

    \b
    Example:
      polyseme fill runs/bert 'The [MASK] barked.' --top 3
    """
    given = texts(text, file)
    from polyseme.opening import load

    loaded = load(model)
    for sentence in given:
        blanks = loaded.fill(sentence, top=top)
        if json:
            guesses = [[{"token": g.token, "probability": round(g.probability, 6)} for g in blank] for blank in blanks]
            write_json({"text": sentence, "blanks": guesses})
            continue
        rows = [
            [sentence if number == place == 0 else "", str(number + 1), guess.token, f"{guess.probability:.3f}"]
            for number, blank in enumerate(blanks)
            for place, guess in enumerate(blank)
        ]
        table(rows, header=["text", "blank", "guess", "probability"])
