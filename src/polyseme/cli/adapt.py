"""polyseme adapt"""

import shlex
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from polyseme.cli.console import reading, say
from polyseme.cli.pretrain import conclude, follow, go_on, introduce
from polyseme.errors import ConfigError


def adapt(
    model: Annotated[str, typer.Argument(help="Directory of a model, ours or of transformers; or hf:NAME.")],
    out: Annotated[Path, typer.Option(help="Directory to write; new or empty.")],
    corpus: Annotated[
        list[str] | None, typer.Option(help="Text: file, folder, pattern or sample; en=PATH names a language.")
    ] = None,
    dev: Annotated[list[str] | None, typer.Option(help="Text to measure on, never learnt from.")] = None,
    budget: Annotated[
        str | None, typer.Option(help="90s, 10m, 2h, 500steps, 2Mtokens or 3epochs; 10m if none.")
    ] = None,
    vocabulary: Annotated[
        int, typer.Option(min=0, help="New words at most, of those in the text that are cut in pieces.")
    ] = 0,
    seed: Annotated[int, typer.Option(help="The same seed gives the same model.")] = 0,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="Change any setting: --set plan.rate=3e-4. May be repeated.")
    ] = None,
    column: Annotated[str, typer.Option(help="Where the text is in jsonl, csv, tsv and parquet.")] = "text",
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --out, if there is one.")] = False,
) -> int:
    """Go on training a model on other text.

    \b
    Examples:
      polyseme adapt runs/bert --corpus letters/ --dev dev.txt --budget 10m --out runs/bert-letters
      polyseme adapt bert-base-uncased --corpus clinic.jsonl --vocabulary 1000 --out runs/clinic
      polyseme adapt runs/bert --out runs/bert-letters --resume
    """
    from polyseme.making import base_name, open_base
    from polyseme.train.pretraining import Pretraining
    from polyseme.train.recipe import RECIPE, Recipe

    if resume and (out / RECIPE).exists():
        began = Recipe.load(out).plan.base
        if began != base_name(model):
            wanted = f"adapt {began}" if began else f"pretrain {Recipe.load(out).family}"
            raise ConfigError(f"{out} goes on from {began or 'no model'}, not from {model}; say {wanted} --resume")
        given = {"--corpus": corpus, "--dev": dev, "--budget": budget, "--vocabulary": vocabulary, "--set": settings}
        training = go_on(out, given)
    else:
        base = open_base(model)
        data: dict[str, Any] = {"corpus": corpus or [], "dev": dev or [], "column": column}
        plan: dict[str, Any] = {"seed": seed} | ({"budget": budget} if budget else {})
        recipe = base.plan(settings or [], data=data, plan=plan)
        training = Pretraining.start(
            recipe, out, base=base, num_words=vocabulary, watch=partial(reading, "reading the text")
        )
        if vocabulary:
            say(f"{training.recipe.model.vocab_size - base.vocab_size:,} new words in the vocabulary")
        introduce(training)
    code = follow(training, f"adapt {shlex.quote(model)}")
    if not code:
        conclude(training)
    return code
