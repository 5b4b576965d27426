"""Progress bars on stderr; plain lines now and then, or nothing, where stderr is not a terminal."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from polyseme.cli.console import format_metrics, report
from polyseme.system.formatting import format_clock, format_count

if TYPE_CHECKING:
    from polyseme.comparison.runner import StageProgress
    from polyseme.corpora.corpus import Corpus
    from polyseme.training.session import Progress as TrainingProgress

_LOG_SECONDS = 10  # between plain lines of a training
_SMOOTHING = 0.95  # of losses


def spinner(description: str) -> AbstractContextManager[object]:
    """Show that work is in progress, and for how long."""
    return _bars(description)


def reading_bar(description: str, corpus: "Corpus") -> AbstractContextManager[object]:
    """Show how much of a corpus has been read."""
    return _bars(description, total=1.0, completed=lambda: corpus.bytes_read / max(1, corpus.num_bytes))


@contextmanager
def counting_bar(description: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show how many of `total` items are done; the caller reports the number."""
    with _bars(f"{description} 0/{total}", total=total) as (bars, task):

        def update(done: int) -> None:
            if bars:
                bars.update(task, completed=done, description=f"{description} {done}/{total}")

        yield update


class _Bar(ExitStack):
    """A progress bar as a context; plain lines where stderr is not a terminal."""

    def __init__(self, total: int | None = None) -> None:
        super().__init__()
        self._bars, self._task = self.enter_context(_bars(total=total))

    def _print(self, line: str) -> None:
        if self._bars:
            self._bars.console.print(f"  {line}", markup=False, highlight=False)
        else:
            report(f"  {line}")


class TrainingBar(_Bar):
    """Step, losses, throughput and time left of a training; a plain line every ten seconds in a log."""

    def __init__(self, total: int, *, first: int = 0) -> None:
        super().__init__(total)
        self.first = first  # step at which the training started or resumed
        self.losses: dict[str, float] = {}  # moving averages
        self._first_tokens: int | None = None
        self._started = self._logged = time.monotonic()

    def update(self, progress: "TrainingProgress", total: int) -> None:
        """Show a step; the total may have changed."""
        step = progress.step
        for name, loss in step.losses.items():
            self.losses[name] = _SMOOTHING * self.losses.get(name, loss) + (1 - _SMOOTHING) * loss
        if self._first_tokens is None:
            self._first_tokens = step.tokens
        if progress.dev is not None:
            self._print(f"step {step.number:,}: dev {format_metrics(progress.dev)}")
        now = time.monotonic()
        seconds, done = now - self._started, step.number - self.first
        if self._bars is None and now - self._logged < _LOG_SECONDS:
            return
        throughput = (step.tokens - self._first_tokens) / max(seconds, 1e-9)
        line = f"step {step.number:,}/{total:,}  {format_metrics(self.losses)}  {format_count(throughput)} tokens/s"
        if self._bars:
            self._bars.update(self._task, completed=step.number, total=total, description=line)
        else:
            self._logged = now
            self._print(f"{line}  {format_clock(seconds / max(1, done) * (total - step.number))} left")


class ComparisonBar(_Bar):
    """The stage of a comparison and the time left; a plain line for each stage in a log."""

    _last = ""

    def update(self, progress: "StageProgress") -> None:
        """Show the stage that is running."""
        activity = (f"{progress.done}/{progress.total} " if progress.total else "") + progress.activity
        if progress.message:
            self._print(progress.message)
        if self._bars:
            fraction = f" {progress.fraction:.0%}" if progress.fraction else ""
            total, completed = progress.total or None, progress.done + progress.fraction
            self._bars.update(self._task, total=total, completed=completed, description=activity + fraction)
        elif progress.activity != self._last:
            self._print(activity)
        self._last = progress.activity


@contextmanager
def _bars(
    description: str = "", *, total: float | None = None, completed: Callable[[], float] | None = None
) -> Iterator[tuple[Any, Any]]:
    """A rich progress display with one bar; None where stderr is not a terminal.

    `completed` is called at each refresh, for work that does not report by itself.
    """
    if not sys.stderr.isatty():
        yield None, None
        return
    from rich import progress
    from rich.console import Console
    from rich.table import Column
    from rich.text import Text

    class Display(progress.Progress):
        def get_renderables(self) -> Any:
            if completed is not None:
                for task in self.tasks:
                    self.update(task.id, completed=completed())
            return super().get_renderables()

    class TimeLeft(progress.TimeRemainingColumn):
        def render(self, task: Any) -> Text:
            if task.total is None:
                return Text(format_clock(task.elapsed or 0.0), style="progress.elapsed")
            left = task.time_remaining
            return Text("" if left is None else f"{format_clock(left)} left", style="progress.remaining")

    columns = (
        progress.BarColumn(bar_width=12, table_column=Column(no_wrap=True, min_width=12)),
        progress.TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True)),
        TimeLeft(table_column=Column(no_wrap=True, min_width=12)),
    )
    display = Display(
        *columns, console=Console(stderr=True), transient=True, refresh_per_second=4, speed_estimate_period=60
    )
    with display:
        yield display, display.add_task(description, total=total)
