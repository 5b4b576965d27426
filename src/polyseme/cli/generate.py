"""polyseme generate"""

import sys
from pathlib import Path
from typing import Annotated

import typer

from polyseme.cli.console import texts, write_json

_AT_ONCE = 64  # prompts that are waited for before the first is shown


def generate(
    model: Annotated[str, typer.Argument(help="Directory of a left-to-right model.")],
    prompt: Annotated[list[str] | None, typer.Argument(help="Texts to go on from; else standard input.")] = None,
    file: Annotated[Path | None, typer.Option(help="A prompt a line.")] = None,
    max_tokens: Annotated[int, typer.Option(min=1, help="Tokens to write at most.")] = 50,
    temperature: Annotated[
        float, typer.Option(min=0, help="0: always the likeliest; 1: as likely as the model says.")
    ] = 0.8,
    top_k: Annotated[int, typer.Option(min=0, help="Choose among so many of the likeliest; 0: all.")] = 0,
    top_p: Annotated[float, typer.Option(help="Choose among the likeliest that make up this share.")] = 0.95,
    repetition_penalty: Annotated[float, typer.Option(help="Above 1: what was written already is less likely.")] = 1.0,
    seed: Annotated[int, typer.Option(min=0, help="The same seed writes the same text.")] = 0,
    stop: Annotated[list[str] | None, typer.Option(help="A text at which to end. May be repeated.")] = None,
    weights: Annotated[str, typer.Option(help="float32; or int8, several times as fast.")] = "float32",
    json: Annotated[bool, typer.Option("--json", help="A JSON object a prompt.")] = False,
) -> None:
    """Write on from a prompt; several are gone on from at once.

    \b
    Examples:
      polyseme generate runs/gpt2 'The function returns' --max-tokens 30 --seed 1
      polyseme generate runs/gpt2 'Once' --temperature 0 --weights int8
      polyseme generate runs/gpt2 --file prompts.txt --json
    """
    given = texts(prompt, file)
    from polyseme.opening import load

    loaded = load(model, weights=weights)
    settings = {
        "max_tokens": max_tokens,
        "temperature": temperature,
        "top_k": top_k,
        "top_p": top_p,
        "repetition_penalty": repetition_penalty,
        "seed": seed,
        "stop": tuple(stop or ()),
    }
    if len(given) == 1 and not json:
        pieces = loaded.stream(given[0], **settings)
        sys.stdout.write(given[0])
        for piece in pieces:
            sys.stdout.write(piece)
            sys.stdout.flush()
        sys.stdout.write("\n")
        return
    for start in range(0, len(given), _AT_ONCE):
        prompts = given[start : start + _AT_ONCE]
        for text, written in zip(prompts, loaded.generate(prompts, **settings), strict=True):
            if json:
                write_json({"prompt": text, "text": written})
            else:
                sys.stdout.write(f"{text}{written}\n")
