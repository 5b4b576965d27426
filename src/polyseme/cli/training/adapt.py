"""polyseme adapt"""

from functools import partial
from typing import Annotated

import typer

from polyseme.cli.console import report
from polyseme.cli.options import Corpus, Dev, Model, Resume, RunFolder, Settings, TextColumn, given
from polyseme.cli.progress import reading_bar
from polyseme.cli.training.session import run_pretraining


def adapt(
    context: typer.Context,
    model: Model,
    out: RunFolder,
    corpus: Corpus = None,
    dev: Dev = None,
    budget: Annotated[
        str | None, typer.Option(help="90s, 10m, 2h, 500steps, 2Mtokens or 3epochs; 10m by default.")
    ] = None,
    new_words: Annotated[
        int, typer.Option(min=0, help="Maximum number of words to add: frequent ones that the tokenizer splits.")
    ] = 0,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    settings: Settings = None,
    column: TextColumn = "text",
    resume: Resume = False,
) -> int:
    """Continue pretraining a model on other text.

    With text of a domain, this is domain-adaptive pretraining (Gururangan et al., 2020).

    \b
    Examples:
      polyseme adapt runs/bert --corpus clinic/ --dev dev.txt --budget 10m --out runs/bert-clinic
      polyseme adapt bert-base-uncased --corpus clinic.jsonl --new-words 1000 --out runs/clinic
      polyseme adapt runs/bert --out runs/bert-clinic --resume
    """
    from polyseme.api import open_adaptation

    session = open_adaptation(**given(context), watch=partial(reading_bar, "reading the corpus"))
    if new_words and not session.resumed_at:
        report(f"vocabulary: {session.recipe.model.vocab_size:,} tokens with the new words")
    return run_pretraining(session, "adapt", model)
