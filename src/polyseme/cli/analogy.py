"""polyseme analogy"""

from typing import Annotated, Any

import typer

from polyseme.cli.console import table, texts, write_json


def analogy(
    model: Annotated[str, typer.Argument(help="Directory of a model, or a file of word vectors.")],
    first: Annotated[str, typer.Argument(help="Such as man …")],
    second: Annotated[str, typer.Argument(help="… who is to king …")],
    third: Annotated[str, typer.Argument(help="… as woman is to whom?")],
    method: Annotated[str, typer.Option(help="3cosadd: a sum of vectors. 3cosmul: a product of cosines.")] = "3cosadd",
    top: Annotated[int, typer.Option(min=1, help="How many answers.")] = 10,
    json: Annotated[bool, typer.Option("--json", help="As one JSON object.")] = False,
) -> None:
    """Find what is to the third word as the second is to the first.

    \b
    Example:
      polyseme analogy runs/skipgram man king woman
    """
    given = texts([first, second, third], None)
    from polyseme.opening import load

    choice: Any = method
    answers = load(model).analogy(*given, top=top, method=choice)
    if json:
        found = [{"word": answer.word, "score": round(answer.score, 6)} for answer in answers]
        write_json({"question": given, "answers": found})
        return
    table([[answer.word, f"{answer.score:.3f}"] for answer in answers], header=["answer", "score"])
