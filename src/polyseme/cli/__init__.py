"""One file per command; nothing heavy is imported before a command runs."""

import io
import logging
import os
import sys
from collections.abc import Sequence
from typing import Any

import typer

from polyseme.cli.adapt import adapt
from polyseme.cli.analogy import analogy
from polyseme.cli.ask import ask
from polyseme.cli.attention import attention
from polyseme.cli.compare import compare
from polyseme.cli.data import data
from polyseme.cli.doctor import doctor
from polyseme.cli.embed import embed
from polyseme.cli.evaluate import evaluate
from polyseme.cli.export import export
from polyseme.cli.fill import fill
from polyseme.cli.finetune import finetune
from polyseme.cli.generate import generate
from polyseme.cli.import_ import import_
from polyseme.cli.info import info
from polyseme.cli.neighbours import neighbours
from polyseme.cli.predict import predict
from polyseme.cli.pretrain import pretrain
from polyseme.cli.probe import probe
from polyseme.cli.sample import sample
from polyseme.cli.score import score
from polyseme.cli.senses import senses
from polyseme.cli.serve import serve
from polyseme.cli.tokenizer import tokenizer
from polyseme.cli.translate import translate
from polyseme.errors import PolysemeError

# The command parser's own errors: typer carries the parser inside, or takes it from outside, by version.
UsageError: type[Exception] = typer.BadParameter.__bases__[0]
ParserError: type[Exception] = UsageError.__bases__[0]

COMMANDS = (
    pretrain,
    adapt,
    finetune,
    predict,
    fill,
    generate,
    ask,
    translate,
    score,
    embed,
    neighbours,
    analogy,
    attention,
    senses,
    probe,
    evaluate,
    compare,
    serve,
    import_,
    export,
    info,
    doctor,
    sample,
)


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
        app.command(command.__name__.rstrip("_"))(command)
    app.add_typer(tokenizer, name="tokenizer")
    app.add_typer(data, name="data")
    return app


def run(arguments: Sequence[str]) -> int:
    """Run one command line and say how it ended."""
    logging.basicConfig(format="polyseme: %(message)s", level=logging.WARNING)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a path may hold what the terminal cannot show
            stream.reconfigure(errors="backslashreplace")
    try:
        code = int(build()(list(arguments), prog_name="polyseme", standalone_mode=False) or 0)
        sys.stdout.flush()  # here, where a reader who has left is noticed
        return code
    except PolysemeError as error:
        return _complain(str(error), error.exit_code)
    except ParserError as error:
        return _usage(error)
    except (typer.Abort, KeyboardInterrupt):
        return _complain("stopped", 130)
    except BrokenPipeError:
        # Whoever read our output has left; what Python flushes at its end must not complain again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except OSError as error:
        return _complain(f"{error.filename or 'the system'}: {error.strerror}; check the disk and the path", 1)
    except MemoryError:
        return _complain("memory runs out; choose a smaller model, batch or text", 1)


def _usage(error: Any) -> int:
    if type(error).__name__ == "NoArgsIsHelpError":
        print(error.format_message())
        return 2
    path = error.ctx.command_path if getattr(error, "ctx", None) else "polyseme"
    return _complain(f"{error.format_message().rstrip('.')}; see {path} --help", 2)


def _complain(message: str, code: int) -> int:
    print("polyseme: " + " ".join(message.split()), file=sys.stderr)
    return code
