"""The tables of a report: scores, costs, commands and evaluation settings."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

from polyseme.comparison.report.charts import family_badge
from polyseme.comparison.report.labels import capitalize, format_score, method_name, metric_name, truncate
from polyseme.comparison.report.results_view import ResultsView, get_number, get_text
from polyseme.comparison.report.scores import Measurement, suite_measurements, task_measurements
from polyseme.comparison.results import Row
from polyseme.system.formatting import format_bytes, format_count, format_duration

MISSING = "–"
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
class Table:
    """Columns with descriptions, and the cells of each family."""

    columns: Sequence[str]
    descriptions: Sequence[str]
    rows: dict[str, list[Cell]]
    lower_is_better: Sequence[bool] = ()  # by column


def score_table(results: ResultsView) -> Table:
    """All scores; significantly best ones are highlighted."""
    measurements = [*task_measurements(results), *suite_measurements(results)]
    rows: dict[str, list[Cell]] = {family: [] for family in results.families}
    for one in measurements:
        best = one.significantly_best()
        for family, cells in rows.items():
            score = one.scores.get(family)
            if score is None:
                cells.append(Cell())
                continue
            method = method_name(score.method) if score.method else ""
            cells.append(Cell(text=str(score), value=score.value, best=family == best, tooltip=method))
    return Table(
        columns=[truncate(one.name, 40) for one in measurements],
        descriptions=[_describe(one) for one in measurements],
        rows=rows,
        lower_is_better=[not one.higher_is_better for one in measurements],
    )


def _describe(measurement: Measurement) -> str:
    one = measurement
    parts = [metric_name(one.metric) if one.kind != "likelihood" else f"{one.metric} likelihood".strip()]
    parts += [f"{one.num_labels:,} labels"] if one.num_labels else []
    parts += [] if one.higher_is_better else ["lower is better"]
    parts += [one.description] if one.kind != "likelihood" else []
    parts += [] if one.baseline is None else [f"{one.baseline_name} {format_score(one.baseline)}"]
    return "; ".join(truncate(part, 120) for part in [*parts, *one.exclusions()] if part)


_COSTS: tuple[tuple[str, str, Callable[[float], str], str], ...] = (
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
    ("embedding_seconds", "inference", format_duration, "time to embed 1,000 sentences of the test text"),
)


def cost_table(results: ResultsView) -> Table:
    """Size, training cost and inference cost of all families."""
    rows: dict[str, list[Cell]] = {}
    for family, row in results.families.items():
        reason = truncate(get_text(row, "size_reason"), 300)
        cells = [Cell(text=truncate(get_text(row, "size"), 20) or MISSING, tooltip=reason)]
        cells.append(Cell(text=get_text(row, "context")[:20] or MISSING))
        for key, _, formatted, _ in _COSTS:
            value = get_number(row, key)
            if key == "tokens_per_second" and (get_number(row, "seconds") or 0.0) < _MIN_SECONDS:
                value = None
            cells.append(Cell() if value is None else Cell(text=formatted(value), value=value))
        cells.append(Cell(text=truncate(get_text(row, "stopped_by"), 20) or MISSING))
        rows[family] = cells
    return Table(
        columns=["size", "context", *(column for _, column, _, _ in _COSTS), "stopped by"],
        descriptions=[
            "chosen for the budget",
            "the context that a vector depends on",
            *(description for *_, description in _COSTS),
            "budget, or completion where the training is a fixed number of passes",
        ],
        rows=rows,
    )


def draw_table(table: Table, results: ResultsView, label: str) -> str:
    """An HTML table that scrolls within itself; the script makes it sortable."""
    lower = [" data-lower" if one else "" for one in table.lower_is_better or [False] * len(table.columns)]
    head = "".join(
        f'<th scope="col" title="{escape(description)}"{attribute}>{escape(column)}</th>'
        for column, description, attribute in zip(table.columns, table.descriptions, lower, strict=True)
    )
    lines = []
    for family, cells in table.rows.items():
        line = [f'<th scope="row">{family_badge(family, results)}</th>']
        for cell in cells:
            value = "" if cell.value is None else f' data-value="{cell.value!r}"'
            title = f' title="{escape(cell.tooltip)}"' if cell.tooltip else ""
            text = _ERROR.sub(r" <small>\1</small>", escape(cell.text))
            line.append(f"<td{value}{title}>{f'<b>{text}</b>' if cell.best else text}</td>")
        lines.append(f"<tr>{''.join(line)}</tr>")
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="{escape(label)}"><table class="sortable">'
        f'<thead><tr><th scope="col">family</th>{head}</tr></thead><tbody>{"".join(lines)}</tbody></table></div>'
    )


def draw_commands(results: ResultsView) -> str:
    """The commands that reproduce the comparison and each family; the script adds copy buttons."""
    parts = []
    command = get_text(results.comparison, "command")
    if command:
        parts.append(f"<h3>The whole comparison</h3>{_draw_command(command)}")
    for family, row in results.families.items():
        command = get_text(row, "command")
        if command:
            reason = truncate(get_text(row, "size_reason"), 300)
            why = f'<p class="faint">{escape(capitalize(reason))}</p>' if reason else ""
            parts.append(f"<h3>{family_badge(family, results)}</h3>{why}{_draw_command(command)}")
    return "".join(parts)


def _draw_command(text: str) -> str:
    return f'<div class="command"><pre tabindex="0"><code>{escape(text[:2000])}</code></pre></div>'


def list_settings(results: ResultsView) -> list[tuple[str, str]]:
    """Data, budget, tasks, hardware and versions, as pairs of a name and a description."""
    of = results.comparison
    settings = [("corpus", truncate(get_text(of, "corpus"), 300))]
    for unit in ("documents", "words", "characters"):
        counts = (_format(get_number(of, unit, split), "{:,.0f} " + split) for split in ("train", "dev", "test"))
        settings.append((unit, _join(*counts)))
    seconds = get_number(of, "processor_seconds")
    cores = _format(get_number(of, "cores"), "{:.0f} cores")
    spent = "" if seconds is None else f"{format_duration(seconds)} of processor time per family"
    settings.append(("budget", _join(truncate(get_text(of, "budget"), 40), cores, spent)))
    same = "the same {:,.0f} characters of the test text for all families"
    settings.append(("likelihood", _format(get_number(of, "scored_characters"), same)))
    settings.append(("SHA-256 of this text", truncate(get_text(of, "scored_sha256"), 64)))
    settings += [(f"task {truncate(task, 60)}", _describe_task(row)) for task, row in results.tasks.items()]
    seeds = "{:.0f} for tasks; models are trained once"
    settings.append(("seeds", _format(get_number(of, "seeds"), seeds)))
    machine, versions = (row if isinstance(row := of.get(key), dict) else {} for key in ("machine", "versions"))
    memory = get_number(machine, "memory_bytes")
    threads = _format(get_number(machine, "threads"), "{:.0f} threads")
    memory_text = "" if memory is None else f"{format_bytes(memory)} of memory"
    settings.append(("machine", _join(truncate(get_text(machine, "processor"), 80), threads, memory_text)))
    every = (f"{truncate(str(key), 30)} {truncate(str(value), 30)}" for key, value in versions.items())
    settings.append(("versions", _join(*every)))
    settings.append(("date", truncate(get_text(of, "date"), 30)))
    return [(name, value) for name, value in settings if value]


def _describe_task(row: Row) -> str:
    return _join(
        truncate(get_text(row, "kind"), 20),
        truncate(get_text(row, "about"), 200),
        truncate(metric_name(get_text(row, "metric")), 30),
        _format(get_number(row, "train"), "{:,.0f} training examples"),
        _format(get_number(row, "test"), "{:,.0f} test examples"),
        "derived from the corpus" if row.get("derived") is True else "",
        separator="; ",
    )


def _format(value: float | None, template: str) -> str:
    return "" if value is None else template.format(value)


def _join(*parts: str, separator: str = ", ") -> str:
    return separator.join(filter(None, parts))
