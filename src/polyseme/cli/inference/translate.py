"""polyseme translate"""

from typing import Annotated

import typer

from polyseme.cli.console import print_json, print_table, read_texts, suggest
from polyseme.cli.options import Json, Model, TextFile, Texts, load_model
from polyseme.cli.progress import spinner


def translate(
    model: Model,
    text: Texts = None,
    file: TextFile = None,
    beam_size: Annotated[int, typer.Option(min=1, max=100, help="Hypotheses per text; 1: greedy decoding.")] = 4,
    length_penalty: Annotated[
        float, typer.Option(min=0, max=10, help="Above 0, longer translations are preferred.")
    ] = 0.6,
    attention: Annotated[
        bool, typer.Option("--attention", help="Print the cross-attention weights of each token.")
    ] = False,
    json: Json = False,
) -> None:
    """Translate texts by beam search.

    The model translates in the direction it was trained for.

    \b
    Examples:
      polyseme translate runs/en-de 'A man is sleeping.'
      polyseme translate runs/en-de --file english.txt --beam-size 8 > german.txt
      polyseme translate runs/en-de 'A man is sleeping.' --attention
    """
    texts = read_texts(text, file)
    loaded = load_model(model)
    options = {"beam_size": beam_size, "length_penalty": length_penalty}
    if attention:
        with spinner("translating"):
            alignments = loaded.align(texts, **options)
        for source, alignment in zip(texts, alignments, strict=True):
            weights = [[round(float(weight), 4) for weight in row] for row in alignment.weights]
            if json:
                row = {"text": source, "translation": alignment.translation, "source": alignment.source}
                print_json(row | {"target": alignment.target, "attention": weights})
                continue
            rows = [
                [token, *(f"{weight:.2f}" for weight in row)]
                for token, row in zip(alignment.target, weights, strict=True)
            ]
            print(alignment.translation)
            print_table(rows, header=["", *alignment.source])
    else:
        with spinner("translating"):
            translations = loaded.translate(texts, **options)
        for source, translation in zip(texts, translations, strict=True):
            if json:
                print_json({"text": source, "translation": translation})
            else:
                print(translation)
    suggest("evaluate {} --suite translation --data FILE", model)
