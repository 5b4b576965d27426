"""Input and output of commands: texts in, tables and JSON lines out, messages on stderr."""

import json
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from polyseme.errors import ConfigError, DataError
from polyseme.system.atomic_io import write_file
from polyseme.system.io_errors import readable, writable


def report(message: str) -> None:
    """Print a message for people, to stderr."""
    print(message, file=sys.stderr)


def suggest(command: str, *arguments: object) -> None:
    """Print the next command to try; arguments take the place of {} and are quoted as the shell needs it."""
    report("next: polyseme " + command.format(*(shlex.quote(str(argument)) for argument in arguments)))


def read_texts(arguments: Sequence[str] | None, file: Path | None) -> list[str]:
    """The texts of the command line, or else the lines of a file or of standard input."""
    if arguments:  # bytes that are not UTF-8 come from the shell as lone surrogates
        return [text.encode("utf-8", "surrogateescape").decode("utf-8", "replace") for text in arguments]
    if file is None and (sys.stdin is None or sys.stdin.isatty()):
        raise ConfigError("no text; pass it as an argument, with --file, or on standard input")
    lines = [line for line in _read(file).splitlines() if line.strip()]
    if not lines:
        raise DataError(f"{file or 'standard input'} contains no text; write one text per line")
    return lines


def read_document(file: Path | None) -> str:
    """A whole file, or all of standard input, as one text."""
    if file is None:
        return "\n".join(read_texts(None, None))
    content = _read(file).strip()
    if not content:
        raise DataError(f"{file} contains no text; add some")
    return content


def _read(file: Path | None) -> str:
    with readable(file or "standard input", "check the path"):
        return (file.read_bytes() if file else sys.stdin.buffer.read()).decode("utf-8", errors="replace")


def check_output(path: Path | None, *suffixes: str, option: str = "--out") -> None:
    """Check, before any work is done, that a file of one of these types can be written."""
    if path is None:
        return
    if suffixes and path.suffix not in suffixes:
        raise ConfigError(f"{path} has the wrong extension; give {option} a {' or '.join(suffixes)} file, or omit it")
    if not path.absolute().parent.is_dir():
        raise DataError(f"{path} cannot be written ({path.parent} is not a folder); choose another {option}")


def write_output(path: Path, content: str | bytes, *, option: str = "--out") -> None:
    """Write the file that an option names."""
    with writable(path, f"choose another {option}"):
        write_file(path, content)


def print_json(row: Mapping[str, Any]) -> None:
    """Print a JSON object on a line."""
    print(json.dumps(row, ensure_ascii=False))


def print_table(rows: Iterable[Sequence[str]], *, header: Sequence[str]) -> None:
    """Print a table; tab-separated where stdout is not a terminal."""
    if not sys.stdout.isatty():
        for row in chain([header], rows):
            print("\t".join(row))
        return
    from rich import box
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=box.SIMPLE, header_style="bold")
    for title in header:
        table.add_column(title, overflow="fold")
    for row in rows:
        table.add_row(*(escape(cell) for cell in row))
    Console().print(table)


def print_rows(rows: Sequence[Mapping[str, Any]], *, as_json: bool) -> None:
    """Print rows with the same columns, as JSON lines or as a table."""
    if as_json:
        for row in rows:
            print_json({name: round_float(value) for name, value in row.items()})
    else:
        cells = [list(map(format_cell, row.values())) for row in rows]
        print_table(cells, header=[name.replace("_", " ") for name in rows[0]])


def format_metrics(values: Mapping[str, float]) -> str:
    """Metrics by name on a line."""
    return ", ".join(f"{name.replace('_', ' ')} {value:.3f}" for name, value in values.items())


def format_cell(value: Any) -> str:
    """A value of a table: three decimals for floats, a dash for None."""
    return "–" if value is None else f"{value:.3f}" if isinstance(value, float) else str(value)


def round_float(value: Any) -> Any:
    """A value of a JSON row: six decimals for floats, None where they are not finite."""
    if not isinstance(value, float):
        return value
    return round(value, 6) if abs(value) < float("inf") else None
