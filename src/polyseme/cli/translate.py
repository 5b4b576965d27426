"""polyseme translate"""

from pathlib import Path
from typing import Annotated

import typer

from polyseme.cli.console import table, texts, working, write_json


def translate(
    model: Annotated[str, typer.Argument(help="Directory of a transformer or a cove.")],
    text: Annotated[list[str] | None, typer.Argument(help="Texts; else standard input.")] = None,
    file: Annotated[Path | None, typer.Option(help="A text a line.")] = None,
    beam: Annotated[int, typer.Option(min=1, max=100, help="Translations of a text that are followed at once.")] = 4,
    length_penalty: Annotated[float, typer.Option(min=0, max=10, help="Above 0: longer ones are preferred.")] = 0.6,
    attention: Annotated[
        bool, typer.Option("--attention", help="Show where the model looked while it wrote each token.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="A JSON object a text.")] = False,
) -> None:
    """Translate texts, in the direction that the model was trained for.

    \b
    Examples:
      polyseme translate runs/en-de 'A man is sleeping.'
      polyseme translate runs/en-de --file english.txt --beam 8 > german.txt
      polyseme translate runs/en-de 'A man is sleeping.' --attention
    """
    given = texts(text, file)
    from polyseme.opening import load

    loaded = load(model)
    settings = {"size": beam, "length_penalty": length_penalty}
    if not attention:
        with working("translating"):
            written = loaded.translate(given, **settings)
        for source, translation in zip(given, written, strict=True):
            if json:
                write_json({"text": source, "translation": translation})
            else:
                print(translation)
        return
    with working("translating"):
        alignments = loaded.align(given, **settings)
    for source, alignment in zip(given, alignments, strict=True):
        weights = [[round(float(weight), 4) for weight in row] for row in alignment.weights]
        if json:
            write_json(
                {
                    "text": source,
                    "translation": alignment.translation,
                    "source": alignment.source,
                    "target": alignment.target,
                    "attention": weights,
                }
            )
            continue
        rows = [
            [token, *(f"{weight:.2f}" for weight in row)] for token, row in zip(alignment.target, weights, strict=True)
        ]
        print(alignment.translation)
        table(rows, header=["", *alignment.source])
