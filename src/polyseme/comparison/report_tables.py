"""The tables of a report: what families scored, what they cost, and how each is made again."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

from polyseme.comparison.report_plots import badge
from polyseme.comparison.report_rows import Row, Rows, number_in, text_in
from polyseme.comparison.report_scores import measure_figures, measure_tasks
from polyseme.comparison.report_words import cut, duration, method, scored, short
from polyseme.files import size

MISSING = "–"
_SHORT = 0.05  # seconds in which no speed can be told
_ERROR = re.compile(r" (± \S+)")


@dataclass(frozen=True, kw_only=True)
class Cell:
    """What stands in a table: a text, and the number by which it is sorted."""

    text: str = MISSING
    value: float | None = None
    best: bool = False  # beyond noise
    about: str = ""


@dataclass(frozen=True, kw_only=True)
class Table:
    """Columns, and a row of cells for each family."""

    columns: Sequence[str]
    about: Sequence[str]  # what each column is, in a few words
    rows: dict[str, list[Cell]]
    lower: Sequence[bool] = ()  # of which columns less is better


def score_table(rows: Rows) -> Table:
    """What families scored; a figure that is better than all others beyond noise is marked."""
    measured = [*measure_tasks(rows), *measure_figures(rows)]
    table: dict[str, list[Cell]] = {family: [] for family in rows.families}
    for one in measured:
        best = one.best()
        for family, cells in table.items():
            score = one.scores.get(family)
            told = method(score.method) if score and score.method else ""
            cells.append(
                Cell()
                if score is None
                else Cell(text=scored(score.value, score.error), value=score.value, best=family == best, about=told)
            )
    about = []
    for one in measured:
        parts = [one.metric, f"{one.labels:,} labels" if one.labels else "", "" if one.higher else "lower is better"]
        parts += [one.about if one.kind != "likelihood" else ""]
        parts += [] if one.baseline is None else [f"nothing learnt: {scored(one.baseline)}"]
        parts += one.left_out
        about.append("; ".join(cut(part, 120) for part in parts if part))
    return Table(
        columns=[cut(one.name, 40) for one in measured],
        about=about,
        rows=table,
        lower=[not one.higher for one in measured],
    )


def _counted(value: float) -> str:
    return f"{value:,.0f}"


_COSTS: tuple[tuple[str, str, Callable[[float], str], str], ...] = (
    ("parameters", "parameters", short, "weights of the model"),
    ("steps", "steps", _counted, "of learning"),
    ("tokens", "tokens", short, "seen while learning"),
    ("epochs", "epochs", "{:.2g}".format, "times that it has seen the text"),
    ("processor_seconds", "processor time", duration, "of learning, all cores together"),
    ("seconds", "wall time", duration, "of learning"),
    ("tokens_per_second", "tokens/s", short, "of wall time"),
    ("preparation_seconds", "preparing", duration, "the text, outside the budget"),
    ("peak_bytes", "memory", size, "the most that it held"),
    ("disk_bytes", "on disk", size, "of the model"),
    ("embedding_seconds", "embedding", duration, "of 1,000 sentences of the test text"),
)


def cost_table(rows: Rows) -> Table:
    """What families cost."""
    table: dict[str, list[Cell]] = {}
    for family, row in rows.families.items():
        cells = [Cell(text=cut(text_in(row, "size"), 20) or MISSING, about=cut(text_in(row, "rule"), 300))]
        cells.append(Cell(text=text_in(row, "context")[:20] or MISSING))
        for key, _, written, _ in _COSTS:
            value = number_in(row, key)
            if key == "tokens_per_second" and (number_in(row, "seconds") or 0.0) < _SHORT:
                value = None
            cells.append(Cell() if value is None else Cell(text=written(value), value=value))
        cells.append(Cell(text=cut(text_in(row, "ends"), 20) or MISSING))
        table[family] = cells
    return Table(
        columns=["size", "context", *(column for _, column, _, _ in _COSTS), "ended"],
        about=[
            "as chosen for the budget",
            "what it sees around a word",
            *(about for *_, about in _COSTS),
            "by the budget, or because nothing was left to learn",
        ],
        rows=table,
    )


def draw_table(table: Table, rows: Rows, label: str) -> str:
    """A table whose columns sort it, by click or by key, once a program has come; it scrolls within itself."""
    lower = [" data-lower" if one else "" for one in table.lower or [False] * len(table.columns)]
    head = "".join(
        f'<th scope="col" title="{escape(about)}"{way}>{escape(column)}</th>'
        for column, about, way in zip(table.columns, table.about, lower, strict=True)
    )
    lines = []
    for family, cells in table.rows.items():
        line = [f'<th scope="row">{badge(family, rows)}</th>']
        for cell in cells:
            value = "" if cell.value is None else f' data-value="{cell.value!r}"'
            title = f' title="{escape(cell.about)}"' if cell.about else ""
            text = _ERROR.sub(r" <small>\1</small>", escape(cell.text))
            line.append(f"<td{value}{title}>{f'<b>{text}</b>' if cell.best else text}</td>")
        lines.append(f"<tr>{''.join(line)}</tr>")
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="{escape(label)}"><table class="sortable">'
        f'<thead><tr><th scope="col">family</th>{head}</tr></thead><tbody>{"".join(lines)}</tbody></table></div>'
    )


def draw_commands(rows: Rows) -> str:
    """How each row is made again; a program adds buttons that copy."""
    parts = []
    whole = text_in(rows.comparison, "command")
    if whole:
        parts.append(f"<h3>Everything</h3>{_command(whole)}")
    for family, row in rows.families.items():
        command = text_in(row, "command")
        if command:
            rule = cut(text_in(row, "rule"), 300)
            why = f'<p class="faint">{escape(rule[:1].upper() + rule[1:])}</p>' if rule else ""
            parts.append(f"<h3>{badge(family, rows)}</h3>{why}{_command(command)}")
    return "".join(parts)


def _command(text: str) -> str:
    return f'<div class="command"><pre tabindex="0"><code>{escape(text[:2000])}</code></pre></div>'


def facts(rows: Rows) -> list[tuple[str, str]]:
    """What was measured on what, with what, and when."""
    of = rows.comparison
    found = [("corpus", cut(text_in(of, "corpus"), 300))]
    verbs = {"train": "to learn from", "dev": "to look at on the way", "test": "to measure on"}
    for kind in ("documents", "words", "characters"):
        counts = (_told(number_in(of, kind, part), "{:,.0f} " + verb) for part, verb in verbs.items())
        found.append((kind, _joined(*counts)))
    seconds = number_in(of, "processor_seconds")
    cores = _told(number_in(of, "cores"), "{:.0f} cores")
    spent = "" if seconds is None else f"{duration(seconds)} of processor time for each family"
    found.append(("budget", _joined(cut(text_in(of, "budget"), 40), cores, spent)))
    same = "the same {:,.0f} characters of the test text for every family"
    found.append(("likelihood on", _told(number_in(of, "scored_characters"), same)))
    found.append(("their SHA-256", cut(text_in(of, "scored_sha256"), 64)))
    found += [(f"task {cut(task, 60)}", _task(row)) for task, row in rows.tasks().items()]
    seeds = "{:.0f} for what is learnt from labels, one for each training"
    found.append(("seeds", _told(number_in(of, "seeds"), seeds)))
    machine, versions = (row if isinstance(row := of.get(key), dict) else {} for key in ("machine", "versions"))
    memory = number_in(machine, "memory_bytes")
    threads = _told(number_in(machine, "threads"), "{:.0f} threads")
    held = "" if memory is None else f"{size(memory)} of memory"
    found.append(("machine", _joined(cut(text_in(machine, "processor"), 80), threads, held)))
    every = (f"{cut(str(key), 30)} {cut(str(value), 30)}" for key, value in versions.items())
    found.append(("versions", _joined(*every)))
    found.append(("date", cut(text_in(of, "date"), 30)))
    return [(key, value) for key, value in found if value]


def _task(row: Row) -> str:
    return _joined(
        cut(text_in(row, "kind"), 20),
        cut(text_in(row, "about"), 200),
        cut(text_in(row, "metric"), 30),
        _told(number_in(row, "train"), "{:,.0f} examples to learn from"),
        _told(number_in(row, "test"), "{:,.0f} to measure on"),
        "derived from the corpus" if row.get("derived") is True else "",
        by="; ",
    )


def _told(value: float | None, template: str) -> str:
    return "" if value is None else template.format(value)


def _joined(*parts: str, by: str = ", ") -> str:
    return by.join(filter(None, parts))
