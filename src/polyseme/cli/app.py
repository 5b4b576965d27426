"""The command-line program: its commands, and how errors end it."""

import io
import logging
import os
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from types import ModuleType
from typing import Any

import typer

from polyseme.cli.analysis import attention, evaluate, probe, senses
from polyseme.cli.data import check, phrases, sample, show, train
from polyseme.cli.inference import analogy, ask, embed, fill, generate, neighbours, predict, score, search, translate
from polyseme.cli.models import doctor, export, import_, info, serve
from polyseme.cli.other_tools import advise
from polyseme.cli.training import adapt, compare, finetune, pretrain
from polyseme.errors import PolysemeError

# The base classes of the parser's errors; typer brings its own copy of click, or imports it, depending on the version.
UsageError: type[Exception] = typer.BadParameter.__bases__[0]
ParserError: type[Exception] = UsageError.__bases__[0]

# Modules, each with the command of its name, in the order of --help.
COMMANDS = (
    *(pretrain, adapt, finetune, predict),
    *(fill, generate, ask, translate, score, embed, search, neighbours, analogy),
    *(attention, senses, probe, evaluate, compare),
    *(serve, import_, export, info, doctor, sample),
)
GROUPS = {
    "tokenizer": ("Train tokenizers.", (train,)),
    "data": ("Inspect training batches, check labelled data, join phrases.", (check, phrases, show)),
}


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
    _add_commands(app, COMMANDS)
    for name, (description, commands) in GROUPS.items():
        group = typer.Typer(help=description, no_args_is_help=True, rich_markup_mode=None)
        _add_commands(group, commands)
        app.add_typer(group, name=name)
    return app


def _add_commands(app: typer.Typer, modules: Iterable[ModuleType]) -> None:
    for module in modules:
        name = module.__name__.rpartition(".")[2]
        app.command(name.rstrip("_"))(getattr(module, name))


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
