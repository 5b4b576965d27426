"""One file per command; nothing heavy is imported before a command runs."""

import logging
import os
import sys
from collections.abc import Sequence

import click
import typer

from polyseme.cli.doctor import doctor
from polyseme.cli.embed import embed
from polyseme.cli.fill import fill
from polyseme.cli.generate import generate
from polyseme.cli.info import info
from polyseme.cli.pretrain import pretrain
from polyseme.cli.sample import sample
from polyseme.cli.score import score
from polyseme.cli.tokenizer import tokenizer
from polyseme.errors import PolysemeError

COMMANDS = (pretrain, fill, generate, score, embed, info, doctor, sample)


def build() -> typer.Typer:
    """The program: every command, plain help, no shell completion to install."""
    app = typer.Typer(
        help="Pretrain, look inside, compare and serve language representations on your own text.",
        epilog="Try: polyseme pretrain bert --corpus docstrings --size tiny --budget 30s --out runs/first",
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
    for command in COMMANDS:
        app.command()(command)
    app.add_typer(tokenizer, name="tokenizer")
    return app


def run(arguments: Sequence[str]) -> int:
    """Run one command line and say how it ended."""
    logging.basicConfig(format="polyseme: %(message)s", level=logging.WARNING)
    try:
        return int(build()(list(arguments), standalone_mode=False) or 0)
    except PolysemeError as error:
        return _complain(str(error), error.exit_code)
    except click.exceptions.NoArgsIsHelpError as error:
        print(error.format_message())
        return 2
    except click.ClickException as error:
        hint = f"; see {error.ctx.command_path} --help" if isinstance(error, click.UsageError) and error.ctx else ""
        return _complain(error.format_message().rstrip(".") + hint, 2)
    except click.Abort:
        return _complain("stopped", 130)
    except KeyboardInterrupt:
        return _complain("stopped", 130)
    except BrokenPipeError:
        # Whoever read our output has left; what Python flushes at its end must not complain again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141


def _complain(message: str, code: int) -> int:
    print("polyseme: " + " ".join(message.split()), file=sys.stderr)
    return code
