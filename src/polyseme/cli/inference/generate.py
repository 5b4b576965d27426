"""polyseme generate"""

import sys
from typing import Annotated

import typer

from polyseme.cli.console import print_json, read_texts, suggest
from polyseme.cli.options import Json, Model, TextFile, Weights, load_model

_CHUNK = 64  # prompts that are generated from before the first text is printed


def generate(
    model: Model,
    prompt: Annotated[
        list[str] | None, typer.Argument(help="Prompts; by default the lines of --file or standard input.")
    ] = None,
    file: TextFile = None,
    max_tokens: Annotated[int, typer.Option(min=1, help="Maximum number of new tokens.")] = 50,
    temperature: Annotated[
        float, typer.Option(min=0, help="0: greedy decoding; 1: the distribution of the model.")
    ] = 0.8,
    top_k: Annotated[int, typer.Option(min=0, help="Sample among the k most probable tokens; 0: all.")] = 0,
    top_p: Annotated[float, typer.Option(help="Nucleus sampling: probability mass to sample from.")] = 0.95,
    repetition_penalty: Annotated[
        float, typer.Option(help="Above 1, tokens that have occurred become less probable.")
    ] = 1.0,
    seed: Annotated[int, typer.Option(min=0, help="Random seed.")] = 0,
    stop: Annotated[list[str] | None, typer.Option(help="String that ends the text. Repeatable.")] = None,
    weights: Weights = "float32",
    json: Json = False,
) -> None:
    """Generate text from prompts with a causal language model.

    Several prompts are decoded in batches.

    \b
    Examples:
      polyseme generate runs/gpt2 'The function returns' --max-tokens 30 --seed 1
      polyseme generate runs/gpt2 'Once' --temperature 0 --weights int8
      polyseme generate runs/gpt2 --file prompts.txt --json
    """
    prompts = read_texts(prompt, file)
    loaded = load_model(model, weights=weights)
    options = {
        "max_tokens": max_tokens,
        "temperature": temperature,
        "top_k": top_k,
        "top_p": top_p,
        "repetition_penalty": repetition_penalty,
        "seed": seed,
        "stop": tuple(stop or ()),
    }
    if len(prompts) == 1 and not json:
        pieces = loaded.stream(prompts[0], **options)
        sys.stdout.write(prompts[0])
        for piece in pieces:
            sys.stdout.write(piece)
            sys.stdout.flush()
        sys.stdout.write("\n")
    else:
        for start in range(0, len(prompts), _CHUNK):
            chunk = prompts[start : start + _CHUNK]
            for text, generated in zip(chunk, loaded.generate(chunk, **options), strict=True):
                if json:
                    print_json({"prompt": text, "text": generated})
                else:
                    sys.stdout.write(f"{text}{generated}\n")
    suggest("score {} --file FILE", model)
