"""The tables of a report: scores, costs, commands and evaluation settings."""

import re
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from polyseme.comparison.report.charts import family_badge
from polyseme.comparison.report.labels import METHODS, capitalize, family_names, format_score, metric_name, truncate
from polyseme.comparison.report.measurements import suite_measurements, task_measurements
from polyseme.comparison.report.results_view import ResultsView, fill_template, get_number, get_text
from polyseme.comparison.report.scores import Measurement, Score
from polyseme.comparison.rows import Row
from polyseme.system.formatting import format_bytes, format_count, format_duration

MISSING = "–"
UNCONVERGED = " *"
SCORE_KEY = (
    "With standard errors. Bold: significantly better than all others. Tasks are shown at their largest number of "
    "labels, with the method of each family that is best on the dev set, if its score is "
    "recorded. *: fine-tuning did not converge."
)
_MIN_SECONDS = 0.05  # below which a throughput means nothing
_ERROR = re.compile(r" (± \S+)")


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A table cell, and the number to sort by."""

    text: str = MISSING
    value: float | None = None
    best: bool = False  # significantly better than all others
    tooltip: str = ""


@dataclass(frozen=True, kw_only=True)
class Column:
    """A table column, and the cells of families that have a value."""

    name: str
    description: str
    cells: Mapping[str, Cell]
    lower_is_better: bool = False


def score_columns(results: ResultsView) -> list[Column]:
    """All scores; significantly best ones are highlighted."""
    return [_score_column(one) for one in (*task_measurements(results), *suite_measurements(results))]


def _score_column(measurement: Measurement) -> Column:
    best = measurement.significantly_best()
    cells = {}
    for family, (option, score) in measurement.by_family(unconverged=True).items():
        mark = UNCONVERGED if option in measurement.unconverged else ""
        parts = [METHODS.get(option.method, ""), "did not converge" if mark else "", _range(score)]
        cells[family] = Cell(
            text=f"{score}{mark}", value=score.value, best=option == best, tooltip=", ".join(filter(None, parts))
        )
    return Column(
        name=truncate(measurement.name, 40),
        description=_describe(measurement),
        cells=cells,
        lower_is_better=measurement.sign < 0,
    )


def spread_columns(results: ResultsView) -> list[Column]:
    """The standard deviation over the trainings of each family, if there are several."""
    columns = []
    for one in (*task_measurements(results), *suite_measurements(results)):
        spreads = {
            family: statistics.stdev(score.by_training)
            for family, (_, score) in one.by_family(unconverged=True).items()
            if len(score.by_training) > 1
        }
        if spreads:
            cells = {family: Cell(text=f"{spread:.3f}", value=spread) for family, spread in spreads.items()}
            columns.append(Column(name=truncate(one.name, 40), description="", cells=cells, lower_is_better=True))
    return columns


def _range(score: Score) -> str:
    """The lowest and the highest score of several trainings."""
    if len(score.by_training) < 2:
        return ""
    return f"{len(score.by_training)} trainings from {min(score.by_training):.3f} to {max(score.by_training):.3f}"


def _describe(one: Measurement) -> str:
    parts = [metric_name(one.metric) if one.kind != "likelihood" else f"{one.metric} likelihood".strip()]
    parts += [f"{one.num_labels:,} labels"] if one.num_labels else []
    parts += ["lower is better"] if one.sign < 0 else []
    parts += [one.description] if one.kind != "likelihood" else []
    parts += [] if one.baseline is None else [f"{one.baseline_name} {format_score(one.baseline)}"]
    parts += [f"left out ({one.why_excluded}): {family_names(one.excluded)}"] if one.excluded else []
    return "; ".join(truncate(part, 120) for part in parts if part)


_COSTS: tuple[tuple[str, str, Callable[[float], str] | None, str], ...] = (
    ("size", "size", None, "chosen for the budget"),
    ("context", "context", None, "the context that a vector depends on"),
    ("parameters", "parameters", format_count, "of the encoder"),
    ("steps", "steps", "{:,.0f}".format, "training steps"),
    ("tokens", "tokens", format_count, "training tokens"),
    ("epochs", "epochs", "{:.2g}".format, "passes over the training text"),
    ("processor_seconds", "processor time", format_duration, "of training, summed over all cores"),
    ("seconds", "wall time", format_duration, "of training"),
    ("tokens_per_second", "tokens/s", format_count, "training throughput, by wall time"),
    ("preparation_seconds", "preparation", format_duration, "tokenizer training and encoding, outside the budget"),
    ("peak_memory_bytes", "peak memory", format_bytes, "during training"),
    ("disk_bytes", "on disk", format_bytes, "size of the model"),
    (
        "embedding_seconds",
        "inference",
        format_duration,
        "time to embed 1,000 texts; TF-IDF: to classify them",
    ),
    ("stopped_by", "stopped by", None, "budget, or completion where the training is a fixed number of passes"),
)


def cost_columns(results: ResultsView) -> list[Column]:
    """Size, training cost and inference cost of all families."""
    rows = results.families.items()
    return [
        Column(name=name, description=about, cells={family: _cost_cell(row, key, formatted) for family, row in rows})
        for key, name, formatted, about in _COSTS
    ]


def _cost_cell(row: Row, key: str, formatted: Callable[[float], str] | None) -> Cell:
    if formatted is None:
        tooltip = truncate(get_text(row, "size_reason"), 300) if key == "size" else ""
        return Cell(text=truncate(get_text(row, key), 20) or MISSING, tooltip=tooltip)
    value = get_number(row, key)
    if key == "tokens_per_second" and (get_number(row, "seconds") or 0.0) < _MIN_SECONDS:
        value = None
    return Cell() if value is None else Cell(text=formatted(value), value=value)


def draw_table(columns: Sequence[Column], results: ResultsView, label: str) -> str:
    """An HTML table that scrolls within itself, and its columns explained; the script makes it sortable."""
    if not columns:
        return ""
    head = "".join(
        f'<th scope="col" title="{escape(column.description)}"{" data-lower" * column.lower_is_better}>'
        f"{escape(column.name)}</th>"
        for column in columns
    )
    lines = []
    for family in results.families:
        line = [f'<th scope="row">{family_badge(family, results)}</th>']
        for cell in (column.cells.get(family, Cell()) for column in columns):
            value = "" if cell.value is None else f' data-value="{cell.value!r}"'
            title = f' title="{escape(cell.tooltip)}"' if cell.tooltip else ""
            text = _ERROR.sub(r" <small>\1</small>", escape(cell.text))
            line.append(f"<td{value}{title}>{f'<b>{text}</b>' if cell.best else text}</td>")
        lines.append(f"<tr>{''.join(line)}</tr>")
    terms = draw_terms((column.name, column.description) for column in columns)
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="{escape(label)}"><table class="sortable">'
        f'<thead><tr><th scope="col">family</th>{head}</tr></thead><tbody>{"".join(lines)}</tbody></table></div>'
        f"<details><summary>Columns explained</summary>{terms}</details>"
    )


def draw_terms(terms: Iterable[tuple[str, str]]) -> str:
    """Names and their descriptions; those without a description are left out."""
    items = "".join(f"<dt>{escape(name)}</dt><dd>{escape(about)}</dd>" for name, about in terms if about)
    return f'<dl class="terms">{items}</dl>' if items else ""


def draw_commands(results: ResultsView) -> str:
    """The commands that reproduce the comparison and each family; the script adds copy buttons."""
    titles = [("The whole comparison", results.comparison)]
    titles += [(family_badge(family, results), row) for family, row in results.families.items()]
    parts = []
    for title, row in titles:
        if command := get_text(row, "command"):
            reason = truncate(get_text(row, "size_reason"), 300)
            why = f'<p class="faint">{escape(capitalize(reason))}</p>' if reason else ""
            code = f'<pre tabindex="0"><code>{escape(command[:2000])}</code></pre>'
            parts.append(f'<h3>{title}</h3>{why}<div class="command">{code}</div>')
    return "".join(parts)


def list_settings(results: ResultsView) -> list[tuple[str, str]]:
    """Data, budget, tasks, hardware and versions, as pairs of a name and a description."""
    of = results.comparison
    machine, versions = of.get("machine", {}), of.get("versions", {})
    sizes = {
        unit: [fill_template("{:,.0f} " + split, of.get(unit, {}), split) for split in ("train", "dev", "test")]
        for unit in ("documents", "words", "characters")
    }
    cores = fill_template("{:.0f} cores", of, "cores")
    spent = fill_template("{} of processor time per family", of, "processor_seconds", format_duration)
    threads = fill_template("{:.0f} threads", machine, "threads")
    memory = fill_template("{} of memory", machine, "memory_bytes", format_bytes)
    settings = [
        ("corpus", truncate(get_text(of, "corpus"), 300)),
        *((unit, _join(*counts)) for unit, counts in sizes.items()),
        ("budget", _join(truncate(get_text(of, "budget"), 40), cores, spent)),
        (
            "likelihood",
            fill_template("the same {:,.0f} characters of the test text for all families", of, "scored_characters"),
        ),
        ("SHA-256 of this text", truncate(get_text(of, "scored_sha256"), 64)),
        *((f"task {truncate(task, 60)}", _describe_task(row)) for task, row in results.tasks.items()),
        ("seeds", fill_template("{:.0f} samples of labels for tasks", of, "seeds")),
        ("trainings", fill_template("{:.0f} of each family", of, "trainings")),
        ("machine", _join(truncate(get_text(machine, "processor"), 80), threads, memory)),
        ("versions", _join(*(truncate(f"{key} {one}", 60) for key, one in versions.items()))),
        ("date", truncate(get_text(of, "date"), 30)),
    ]
    return [(name, value) for name, value in settings if value]


def _describe_task(row: Row) -> str:
    return _join(
        truncate(get_text(row, "kind"), 20),
        truncate(get_text(row, "about"), 200),
        truncate(metric_name(get_text(row, "metric")), 30),
        fill_template("{:,.0f} training examples", row, "train"),
        fill_template("{:,.0f} test examples", row, "test"),
        "derived from the corpus" if row.get("derived") else "",
        separator="; ",
    )


def _join(*parts: str, separator: str = ", ") -> str:
    return separator.join(filter(None, parts))
