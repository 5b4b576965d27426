"""Commands for corpora, labelled data and tokenizers."""

import typer

from polyseme.cli.data.check import check
from polyseme.cli.data.phrases import phrases
from polyseme.cli.data.show import show

data = typer.Typer(
    help="Inspect training batches, check labelled data, join phrases.", no_args_is_help=True, rich_markup_mode=None
)
for command in (check, phrases, show):
    data.command()(command)
