"""polyseme score"""

from polyseme.cli.console import print_rows, read_texts, suggest
from polyseme.cli.options import Json, Model, TextFile, Texts, Weights, load_model
from polyseme.cli.progress import spinner


def score(
    model: Model, text: Texts = None, file: TextFile = None, weights: Weights = "float32", json: Json = False
) -> None:
    """Score texts by log-likelihood and perplexity.

    Prints nats, bits per character and perplexity. Masked language models are scored by pseudo-likelihood, which is
    not comparable with a likelihood. Out-of-vocabulary words incur the cost of spelling them.

    \b
    Example:
      polyseme score runs/gpt2 'The cat sat on the mat.' 'Mat the on sat cat the.'
    """
    texts = read_texts(text, file)
    from polyseme.inference.scores import total

    loaded = load_model(model, weights=weights)
    with spinner("scoring"):
        scores = loaded.score(texts)
    results = [*zip(texts, scores, strict=True), *([("(all)", total(scores))] if len(texts) > 1 else [])]
    rows = [
        {
            "text": sentence,
            "kind": result.kind,
            "nats": result.nats,
            "bits_per_character": result.bits_per_character,
            "perplexity": result.perplexity,
            "word_perplexity": result.word_perplexity,
            "tokens": result.num_tokens,
            "words": result.num_words,
            "characters": result.num_characters,
            "oov": result.num_oov,
        }
        for sentence, result in results
    ]
    print_rows(rows, as_json=json)
    suggest("evaluate {} --suite likelihood --data FILE", model)
