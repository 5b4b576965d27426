"""What a command shows: texts in, tables out, and one live line while it works."""

import json
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polyseme.errors import ConfigError, DataError

if TYPE_CHECKING:
    from polyseme.text.corpus import Corpus
    from polyseme.train.pretraining import Progress

_PLAIN_SECONDS = 10


def say(message: str) -> None:
    """Tell the person, not the pipe."""
    print(message, file=sys.stderr)


def suggest(command: str) -> None:
    """End with the next command to try."""
    say(f"next: {command}")


def texts(given: Sequence[str] | None, file: Path | None) -> list[str]:
    """The texts to work on: arguments, the lines of a file, or those of standard input."""
    if given:  # bytes that are no text come from the shell as lone surrogates
        return [text.encode("utf-8", "surrogateescape").decode("utf-8", "replace") for text in given]
    if file is None and (sys.stdin is None or sys.stdin.isatty()):
        raise ConfigError("there is no text; give it as an argument, by --file, or on standard input")
    try:
        content = file.read_bytes() if file else sys.stdin.buffer.read()
    except OSError as error:
        raise DataError(f"{file} cannot be read ({error.strerror}); check the path") from None
    lines = [line for line in content.decode("utf-8", errors="replace").splitlines() if line.strip()]
    if not lines:
        raise DataError(f"{file or 'standard input'} holds no text; write one text a line")
    return lines


def write_json(row: Mapping[str, Any]) -> None:
    """One JSON object on a line."""
    print(json.dumps(row, ensure_ascii=False))


def table(rows: Iterable[Sequence[str]], *, header: Sequence[str]) -> None:
    """Print columns, as wide as they need to be; tab-separated where a program reads them."""
    if not sys.stdout.isatty():
        for row in chain([header], rows):
            print("\t".join(row))
        return
    from rich import box
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    drawn = Table(box=box.SIMPLE, header_style="bold")
    for title in header:
        drawn.add_column(title, overflow="fold")
    for row in rows:
        drawn.add_row(*(escape(cell) for cell in row))
    Console().print(drawn)


def duration(seconds: float) -> str:
    """Seconds as a clock shows them: 3:05, 1:02:03."""
    minutes, rest = divmod(round(max(0.0, seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def count(number: float) -> str:
    """A number as people read it: 12.3k, 4.1M."""
    for unit in ("", "k", "M"):
        if abs(number) < 1000:
            return f"{number:.3g}{unit}" if unit else f"{number:.0f}"
        number /= 1000
    return f"{number:.3g}G"


@contextmanager
def working(what: str) -> Iterator[None]:
    """Show that something is going on, from the second second on, and how long it has taken."""
    with _ticking(lambda seconds: f"{what} … {duration(seconds)}"):
        yield


@contextmanager
def reading(what: str, corpus: "Corpus") -> Iterator[None]:
    """Show how far a corpus has been read, with the time left."""

    def line(seconds: float) -> str:
        share = min(1.0, corpus.bytes_read / max(1, corpus.num_bytes))
        left = duration(seconds / share * (1 - share)) if share > 0.02 else "?"
        return f"{what} {share:4.0%}, {left} left"

    with _ticking(line):
        yield


@contextmanager
def counting(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show how many of so many things are done, with the time left; the caller says how many."""
    done = 0

    def count(number: int) -> None:
        nonlocal done
        done = number

    def line(seconds: float) -> str:
        left = duration(seconds / done * (total - done)) if done else "?"
        return f"{what} {done}/{total}, {left} left"

    with _ticking(line):
        yield count


@contextmanager
def _ticking(line: Any) -> Iterator[None]:
    """Redraw a line twice a second in a thread, because the work itself knows nothing of it."""
    if not sys.stderr.isatty():
        yield
        return
    over = threading.Event()
    started = time.monotonic()

    def draw() -> None:
        if over.wait(1.5):
            return
        while not over.wait(0.5):
            _redraw(line(time.monotonic() - started))
        _redraw("")

    thread = threading.Thread(target=draw, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _redraw(line: str) -> None:
    print(f"\r\033[K{line}", end="", file=sys.stderr, flush=True)


class TrainingLine:
    """One line that lives while a model learns: step, losses, speed, time left; a plain one now and then in a log."""

    def __init__(self, total: int, *, done: int = 0) -> None:
        self.total = total
        self.live = sys.stderr.isatty()
        self.started = self.drawn = time.monotonic()
        self.first = done
        self.tokens: int | None = None
        self.smooth: dict[str, float] = {}

    def show(self, progress: "Progress") -> None:
        """Take in a step, and redraw if it is time."""
        step = progress.step
        for name, loss in step.losses.items():
            self.smooth[name] = loss if name not in self.smooth else 0.95 * self.smooth[name] + 0.05 * loss
        if self.tokens is None:
            self.tokens = step.tokens
        now = time.monotonic()
        if progress.dev is not None:
            self._clear()
            say(f"  step {step.number:,}: dev {figures(progress.dev)}")
        if now - self.drawn < (0.2 if self.live else _PLAIN_SECONDS):
            return
        self.drawn = now
        seconds = now - self.started
        done = step.number - self.first
        left = seconds / done * (self.total - step.number)
        speed = (step.tokens - self.tokens) / seconds
        line = (
            f"step {step.number:,}/{self.total:,}  {figures(self.smooth)}  "
            f"{count(speed)} tokens/s  {duration(left)} left"
        )
        if self.live:
            bar = round(20 * step.number / self.total)
            _redraw(f"{'━' * bar}{'╌' * (20 - bar)} {line}")
        else:
            say(f"  {line}")

    def end(self) -> None:
        """Leave a clean line."""
        self._clear()

    def _clear(self) -> None:
        if self.live:
            _redraw("")


def figures(values: Mapping[str, float]) -> str:
    """Figures by name on a line."""
    return ", ".join(f"{name.replace('_', ' ')} {value:.3f}" for name, value in values.items())
