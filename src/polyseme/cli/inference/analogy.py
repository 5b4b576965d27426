"""polyseme analogy"""

from typing import Annotated, Any

import typer

from polyseme.cli.console import print_json, print_table, read_texts, suggest
from polyseme.cli.options import Json, Model, load_model


def analogy(
    model: Model,
    first: Annotated[str, typer.Argument(help="First word, such as man.")],
    second: Annotated[str, typer.Argument(help="Word related to the first, such as king.")],
    third: Annotated[str, typer.Argument(help="Third word, such as woman.")],
    method: Annotated[
        str, typer.Option(help="3cosadd (Mikolov et al., 2013) or 3cosmul (Levy and Goldberg, 2014).")
    ] = "3cosadd",
    top: Annotated[int, typer.Option(min=1, help="Number of answers.")] = 10,
    json: Json = False,
) -> None:
    """Solve a word analogy: FIRST is to SECOND as THIRD is to what?

    \b
    Example:
      polyseme analogy runs/skipgram man king woman
    """
    words = read_texts([first, second, third], None)
    chosen: Any = method
    answers = load_model(model).analogy(*words, top=top, method=chosen)
    if json:
        rows = [{"word": answer.word, "score": round(answer.score, 6)} for answer in answers]
        print_json({"question": words, "answers": rows})
    else:
        print_table([[answer.word, f"{answer.score:.3f}"] for answer in answers], header=["answer", "score"])
    suggest("evaluate {} --suite words --data FILE", model)
