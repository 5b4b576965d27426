"""polyseme score"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from polyseme.cli.console import table, texts, working, write_json

if TYPE_CHECKING:
    from polyseme.scoring import Score


def score(
    model: Annotated[str, typer.Argument(help="Directory of a model.")],
    text: Annotated[list[str] | None, typer.Argument(help="Texts to score; else standard input.")] = None,
    file: Annotated[Path | None, typer.Option(help="A text a line.")] = None,
    weights: Annotated[str, typer.Option(help="float32; or int8, a quarter of the memory.")] = "float32",
    json: Annotated[bool, typer.Option("--json", help="A JSON object a text.")] = False,
) -> None:
    """Say how likely a text is: nats, bits a character, perplexity.

    Masked models have no likelihood; theirs is marked as a pseudo-likelihood, and the two are not to be compared. Words
    that a vocabulary lacks pay for their letters.

    \b
    Example:
      polyseme score runs/gpt2 'The cat sat on the mat.' 'Mat the on sat cat the.'
    """
    given = texts(text, file)
    from polyseme.opening import load
    from polyseme.scoring import total

    loaded = load(model, weights=weights)
    with working("scoring"):
        scores = loaded.score(given)
    rows = list(zip(given, scores, strict=True))
    if len(rows) > 1:
        rows.append(("(all)", total(scores)))
    if json:
        for sentence, result in rows:
            write_json({"text": sentence, **_figures(result)})
        return
    cells = [[sentence, *(_shown(value) for value in _figures(result).values())] for sentence, result in rows]
    table(cells, header=["text", *(name.replace("_", " ") for name in _figures(scores[0]))])


def _figures(score: "Score") -> dict[str, Any]:
    return {
        "kind": score.kind,
        "nats": _finite(score.nats),
        "bits_per_character": _finite(score.bits_per_character),
        "perplexity": _finite(score.perplexity),
        "word_perplexity": _finite(score.word_perplexity),
        "tokens": score.num_tokens,
        "words": score.num_words,
        "characters": score.num_characters,
        "unknown": score.num_unknown,
    }


def _finite(value: float) -> float | None:
    return round(value, 6) if abs(value) < float("inf") else None


def _shown(value: Any) -> str:
    return "–" if value is None else f"{value:.3f}" if isinstance(value, float) else str(value)
