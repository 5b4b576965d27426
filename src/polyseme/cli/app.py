"""The command-line program: its commands, and how errors end it."""

import io
import logging
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import typer

from polyseme.cli.analysis.attention import attention
from polyseme.cli.analysis.evaluate import evaluate
from polyseme.cli.analysis.probe import probe
from polyseme.cli.analysis.senses import senses
from polyseme.cli.data import data
from polyseme.cli.data.sample import sample
from polyseme.cli.data.tokenizer import tokenizer
from polyseme.cli.inference.analogy import analogy
from polyseme.cli.inference.ask import ask
from polyseme.cli.inference.embed import embed
from polyseme.cli.inference.fill import fill
from polyseme.cli.inference.generate import generate
from polyseme.cli.inference.neighbours import neighbours
from polyseme.cli.inference.predict import predict
from polyseme.cli.inference.score import score
from polyseme.cli.inference.translate import translate
from polyseme.cli.models.doctor import doctor
from polyseme.cli.models.export import export
from polyseme.cli.models.import_ import import_
from polyseme.cli.models.info import info
from polyseme.cli.models.serve import serve
from polyseme.cli.other_tools import advise
from polyseme.cli.training.adapt import adapt
from polyseme.cli.training.compare import compare
from polyseme.cli.training.finetune import finetune
from polyseme.cli.training.pretrain import pretrain
from polyseme.errors import PolysemeError

# The base classes of the parser's errors; typer brings its own copy of click, or imports it, depending on the version.
UsageError: type[Exception] = typer.BadParameter.__bases__[0]
ParserError: type[Exception] = UsageError.__bases__[0]

COMMANDS = (  # in the order of --help
    *(pretrain, adapt, finetune, predict),
    *(fill, generate, ask, translate, score, embed, neighbours, analogy),
    *(attention, senses, probe, evaluate, compare),
    *(serve, import_, export, info, doctor, sample),
)


def build() -> typer.Typer:
    """Build the program with all commands."""
    app = typer.Typer(
        help="Pretrain, adapt, fine-tune, analyse, compare and serve language models and word vectors.",
        epilog="Try: polyseme pretrain bert --corpus docstrings --size tiny --budget 30s --out runs/first",
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
    for command in COMMANDS:
        app.command(command.__name__.rstrip("_"))(command)
    app.add_typer(tokenizer, name="tokenizer")
    app.add_typer(data, name="data")
    return app


def run(arguments: Sequence[str]) -> int:
    """Run one command line; return the exit code."""
    logging.basicConfig(format="polyseme: %(message)s", level=logging.WARNING)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a path may contain what the terminal cannot display
            stream.reconfigure(errors="backslashreplace")
    try:
        code = int(build()(list(arguments), prog_name="polyseme", standalone_mode=False) or 0)
        sys.stdout.flush()  # raises BrokenPipeError here if the reader is gone
        return code
    except PolysemeError as error:
        return _fail(str(error), error.exit_code)
    except ParserError as error:
        return _fail_usage(error)
    except (typer.Abort, KeyboardInterrupt):
        return _fail("stopped", 130)
    except BrokenPipeError:  # the reader of stdout is gone
        _discard_unwritable()
        return 141
    except OSError as error:
        _discard_unwritable()
        return _fail(f"{error.filename or 'output'}: {error.strerror}; check the disk and the path", 2)
    except MemoryError:
        return _fail("out of memory; choose a smaller model, batch or corpus", 1)


def _fail_usage(error: Any) -> int:
    if type(error).__name__ == "NoArgsIsHelpError":
        print(error.format_message())
        return 2
    context = getattr(error, "ctx", None)
    path = context.command_path if context else "polyseme"
    unknown = getattr(error, "option_name", "")
    if unknown and context and type(error).__name__ == "NoSuchOption":
        advice = advise(unknown, {name for parameter in context.command.params for name in parameter.opts})
        if advice:
            return _fail(f"no such option: {unknown}; write {advice} (see {path} --help)", 2)
    return _fail(f"{error.format_message().rstrip('.')}; see {path} --help", 2)


def _fail(message: str, code: int) -> int:
    with suppress(OSError):
        print("polyseme: " + " ".join(message.split()), file=sys.stderr)
    return code


def _discard_unwritable() -> None:
    """Send standard streams that cannot be written to the null device, so that flushing them at exit does not fail."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
