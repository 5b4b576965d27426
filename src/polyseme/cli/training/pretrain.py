"""polyseme pretrain"""

from functools import partial
from typing import Annotated

import typer

from polyseme.cli.console import report
from polyseme.cli.options import Corpus, Dev, RecipeKind, Resume, RunFolder, Settings, TextColumn, given
from polyseme.cli.progress import reading_bar, spinner
from polyseme.cli.training.session import run_pretraining
from polyseme.errors import ConfigError
from polyseme.training.recipes.presets import preset_families


def pretrain(
    context: typer.Context,
    family: Annotated[str, typer.Argument(help=f"Model family: {', '.join(preset_families())}.")],
    out: RunFolder,
    corpus: Corpus = None,
    dev: Dev = None,
    target: Annotated[
        list[str] | None, typer.Option(help="Translations of the corpus, line by line, if it is plain text.")
    ] = None,
    dev_target: Annotated[list[str] | None, typer.Option(help="Translations of the validation corpus.")] = None,
    size: Annotated[
        str, typer.Option(help="tiny (seconds), small (minutes), medium (hours), base; auto: by budget and corpus.")
    ] = "small",
    budget: Annotated[
        str | None, typer.Option(help="90s, 10m, 2h, 500steps, 2Mtokens or 3epochs; each size has a default.")
    ] = None,
    recipe: RecipeKind = "fast",
    seed: Annotated[
        int, typer.Option(help="Random seed. Word vectors are deterministic with training.threads=1 only.")
    ] = 0,
    masking: Annotated[
        str | None, typer.Option(help="Unit that masked language models mask: token, word, ngram or unit.")
    ] = None,
    settings: Settings = None,
    column: TextColumn = "text",
    resume: Resume = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Estimate memory and time; write nothing.")] = False,
) -> int:
    """Pretrain a model on raw text.

    \b
    Examples:
      polyseme pretrain bert --corpus text/ --dev dev.txt --budget 10m --out runs/bert
      polyseme pretrain gpt2 --corpus 'news/*.jsonl.gz' --size auto --budget 2h --out runs/gpt2
      polyseme pretrain mbert --corpus en=en.txt --corpus zh=zh.txt --corpus de=de.txt --out runs/mbert
      polyseme pretrain transformer --corpus pairs.tsv --dev dev.tsv --out runs/en-de
      polyseme pretrain cove --corpus en.txt --target de.txt --set model.vectors=runs/skipgram --out runs/cove
      polyseme pretrain bert --out runs/bert --resume
      polyseme pretrain bert --out runs/bert --resume --budget 20m
    """
    from polyseme.api import estimate_pretraining, open_pretraining

    options = given(context)
    if dry_run:
        if resume:
            raise ConfigError("--dry-run and --resume exclude each other; omit one")
        from polyseme.system.formatting import format_bytes, format_clock, format_count

        del options["out"], options["dry_run"]
        with spinner("measuring"):
            estimate = estimate_pretraining(**options)
        print(f"parameters  {estimate.parameters:,}")
        print(f"memory      about {format_bytes(estimate.memory)}")
        print(f"steps       {estimate.steps:,}, {format_count(estimate.tokens)} tokens")
        print(f"time        about {format_clock(estimate.seconds)} after the corpus is tokenized")
        report("nothing was written; run the command without --dry-run to train")
        return 0
    session = open_pretraining(**options, watch=partial(reading_bar, "reading the corpus"))
    return run_pretraining(session, "pretrain", family)
