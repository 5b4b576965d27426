"""polyseme score"""

import shlex
from typing import TYPE_CHECKING, Any

from polyseme.cli.console import format_cell, print_json, print_table, read_texts, round_float, suggest
from polyseme.cli.options import Json, Model, TextFile, Texts, Weights
from polyseme.cli.progress import spinner

if TYPE_CHECKING:
    from polyseme.inference.scores import Score


def score(
    model: Model,
    text: Texts = None,
    file: TextFile = None,
    weights: Weights = "float32",
    json: Json = False,
) -> None:
    """Score texts by log-likelihood: nats, bits per character, perplexity.

    Masked language models are scored by pseudo-likelihood, which cannot be compared with a likelihood.
    Out-of-vocabulary words are charged for their spelling.

    \b
    Example:
      polyseme score runs/gpt2 'The cat sat on the mat.' 'Mat the on sat cat the.'
    """
    texts = read_texts(text, file)
    from polyseme.inference.scores import total
    from polyseme.loading import load

    loaded = load(model, weights=weights)
    with spinner("scoring"):
        scores = loaded.score(texts)
    rows = list(zip(texts, scores, strict=True))
    if len(rows) > 1:
        rows.append(("(all)", total(scores)))
    if json:
        for sentence, result in rows:
            print_json({"text": sentence, **_columns(result)})
    else:
        cells = [[sentence, *map(format_cell, _columns(result).values())] for sentence, result in rows]
        print_table(cells, header=["text", *(name.replace("_", " ") for name in _columns(scores[0]))])
    suggest(f"polyseme evaluate {shlex.quote(model)} --suite likelihood --data FILE")


def _columns(score: "Score") -> dict[str, Any]:
    return {
        "kind": score.kind,
        "nats": round_float(score.nats),
        "bits_per_character": round_float(score.bits_per_character),
        "perplexity": round_float(score.perplexity),
        "word_perplexity": round_float(score.word_perplexity),
        "tokens": score.num_tokens,
        "words": score.num_words,
        "characters": score.num_characters,
        "oov": score.num_oov,
    }
