"""Charts of probing results like those of Tenney et al. (ACL 2019): mixing weights above, gains in score below.

A cell is one task on one model. The SVG file is a grid of cells, tasks by models; on the HTML page each cell is a chart
of its own, which adapts to the width of the screen.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from polyseme.analysis.probing import MeanStd, ProbeResult
from polyseme.rendering import html as pages
from polyseme.rendering.html import COLOURS
from polyseme.rendering.svg import nice_ticks
from polyseme.system.atomic_io import write_file
from polyseme.system.io_errors import writable

_WIDTH, _HEIGHT, _SHORT_HEIGHT, _TITLE_HEIGHT = 330, 300, 44, 34  # of a cell; a single layer has a short one
_LEFT, _RIGHT = 46, 318  # edges of its panels
_MAX_LAYER_LABELS = 13  # below a panel
_MAX_TICKS = 4

# Attributes are for the SVG file; the page overrides them by CSS with light and dark colours.
_BAR, _GAIN, _MARKER, _FAINT, _LINE = COLOURS[0], COLOURS[4], COLOURS[1], "#666", "#ddd"
_ABOUT = (
    "Each probe reads a frozen model through a trained mix of its layers. Upper panel: the mixing weights; the centre "
    "of gravity is marked, and the dashed line is uniform weights. Lower panel: the gain in score of each layer over a "
    "probe of all layers below it; the expected layer, at which a target is predicted correctly on average, is marked. "
    "Layer 0 does not depend on the context (Tenney et al., 2019)."
)


def probes_svg(results: Sequence[ProbeResult]) -> str:
    """A grid of all cells as SVG; the tasks of a single model are side by side."""
    tasks, models = (list(dict.fromkeys(getattr(result, name) for result in results)) for name in ("task", "model"))
    height, single_model = _TITLE_HEIGHT + _HEIGHT, len(models) == 1
    parts = []
    for index, task in enumerate(tasks):
        left, top = (index * _WIDTH, 0) if single_model else (0, index * height)
        parts.append(f'<text x="{left + 14}" y="{top + 26}" font-size="16" font-weight="bold">{escape(task)}</text>')
        for result in results:
            if result.task == task:
                x = left + models.index(result.model) * _WIDTH
                parts += [f'<g transform="translate({x} {top + _TITLE_HEIGHT})">', *_cell(result, results), "</g>"]
    num_columns, num_rows = (len(tasks), 1) if single_model else (len(models), len(tasks))
    return _svg(parts, _WIDTH * num_columns, height * num_rows, "Probing results by layer")


def probe_page(results: Sequence[ProbeResult]) -> str:
    """A stand-alone page with charts and tables."""
    tasks = dict.fromkeys(result.task for result in results)
    title = f"Probing by layer: {', '.join(tasks)}"
    parts = [f"<h1>{escape(title)}</h1>", f"<p>{escape(_ABOUT)}</p>"]
    for task in tasks:
        cells = [result for result in results if result.task == task]
        first = cells[0]
        seeds = "one seed" if first.num_seeds == 1 else f"mean and standard deviation of {first.num_seeds} seeds"
        parts.append(f"<h2>{escape(task)}</h2>")
        parts.append(
            f'<p class="faint">{first.num_labels:,} labels; {first.num_train:,} training and {first.num_dev:,} dev '
            f"targets; {seeds}; majority baseline {first.majority_baseline:.3f} "
            f"({escape(first.metric)})</p>"
        )
        charts = []
        for result in cells:
            height = _HEIGHT if result.num_layers > 1 else _SHORT_HEIGHT
            charts.append(_svg(_cell(result, results), _WIDTH, height, _summary(result)))
        parts.append(f'<div class="cells">{"".join(charts)}</div>')
        parts.append(pages.table(METRIC_COLUMNS, [metric_row(result) for result in cells]))
        rows = [row for result in cells for row in layer_rows(result)]
        parts.append(f"<details><summary>By layer</summary>{pages.table(LAYER_COLUMNS, rows)}</details>")
    return pages.page(title, "\n".join(parts), style=pages.read_asset("probe_page.css"))


def write_probe_files(results: Sequence[ProbeResult], out: Path) -> list[Path]:
    """Write probe.html, probe.svg and probe.json to a folder, or a named page with the others beside it."""
    page = out if out.suffix == ".html" else out / "probe.html"
    described = {"probes": [result.describe() for result in results]}
    files = {
        page: probe_page(results),
        page.with_suffix(".svg"): probes_svg(results),
        page.with_suffix(".json"): json.dumps(described, ensure_ascii=False, indent=1) + "\n",
    }
    with writable(page, "choose another --out"):
        page.parent.mkdir(parents=True, exist_ok=True)
        for path, content in files.items():
            write_file(path, content)
    return list(files)


METRIC_COLUMNS = ["model", "score", "uniform", "layer 0", "majority", "centre of gravity", "expected layer", "KL", "γ"]
LAYER_COLUMNS = ["model", "layer", "weight", "score up to layer", "gain"]


def metric_row(result: ProbeResult) -> list[str]:
    """The row of a result in the table of metrics."""
    several = result.num_layers > 1
    return [
        result.model,
        format_mean_std(result.score),
        format_mean_std(result.uniform_score),
        format_mean_std(result.scores[0]),
        f"{result.majority_baseline:.3f}",
        format_mean_std(result.centre_of_gravity, 2) if several else "–",
        format_mean_std(result.expected_layer, 2),
        format_mean_std(result.kl_from_uniform) if several else "–",
        format_mean_std(result.scale, 2),
    ]


def layer_rows(result: ProbeResult) -> list[list[str]]:
    """The rows of a result in the table of layers."""
    return [
        [
            result.model,
            str(layer),
            format_mean_std(result.layer_weights[layer]),
            format_mean_std(result.scores[layer]),
            format_mean_std(result.gains[layer - 1]) if layer else "",
        ]
        for layer in range(result.num_layers)
    ]


def format_mean_std(value: MeanStd | None, digits: int = 3) -> str:
    """A mean, with its standard deviation if there is one."""
    if value is None:
        return "–"
    std = "" if value.std is None else f" ± {value.std:.{digits}f}"
    return f"{value.mean:z.{digits}f}{std}"


def _summary(result: ProbeResult) -> str:
    if result.num_layers == 1:
        return f"{result.model}, {result.task}: one layer, {result.metric} {format_mean_std(result.score)}"
    return (
        f"{result.model}, {result.task}: {result.metric} {format_mean_std(result.score)}, centre of gravity "
        f"{format_mean_std(result.centre_of_gravity, 2)}, expected layer {format_mean_std(result.expected_layer, 2)}"
    )


def _headline(result: ProbeResult) -> str:
    if result.num_layers == 1:
        return f"{result.metric} {format_mean_std(result.score)}; a single layer"
    layer_0, uniform = result.scores[0].mean, result.uniform_score.mean
    return f"{result.metric} {result.score.mean:.3f} (layer 0 {layer_0:.3f}, uniform weights {uniform:.3f})"


def _svg(parts: Iterable[str], width: int, height: int, description: str) -> str:
    header = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{escape(description)}" font-family="sans-serif" font-size="11">'
    )
    ground = f'<rect class="ground" width="{width}" height="{height}" fill="white"/>'
    return "\n".join([header, ground, *parts, "</svg>", ""])


def _cell(result: ProbeResult, results: Sequence[ProbeResult]) -> Iterator[str]:
    """The chart of a result; weights have the same scale in all charts, gains in all charts of a task."""
    model = result.model if len(result.model) <= 40 else f"{result.model[:39]}…"
    yield f'<text x="14" y="16" font-size="13" font-weight="bold">{escape(model)}</text>'
    yield f'<text class="faint" x="14" y="33" fill="{_FAINT}">{escape(_headline(result))}</text>'
    if result.num_layers == 1:
        return
    max_weight = max(weight.high for one in results if one.num_layers > 1 for weight in one.layer_weights)
    gains = [gain for one in results if one.task == result.task for gain in one.gains]
    min_gain, max_gain = min([0.0, *(gain.low for gain in gains)]), max([1e-3, *(gain.high for gain in gains)])

    weight_panel = _Panel(top=76, bottom=170, low=0.0, high=1.05 * max_weight, num_layers=result.num_layers)
    yield from weight_panel.axis("weight")
    yield from weight_panel.bars("bar", _BAR, result.layer_weights)
    y = weight_panel.y(1 / result.num_layers)
    yield f'<path class="even" d="M{_LEFT} {y:.1f}H{_RIGHT}" stroke="{_FAINT}" stroke-dasharray="4 3"/>'
    yield from weight_panel.marker("centre of gravity", result.centre_of_gravity)

    gain_panel = _Panel(top=216, bottom=274, low=1.05 * min_gain, high=1.05 * max_gain, num_layers=result.num_layers)
    yield from gain_panel.axis("gain")
    yield from gain_panel.bars("gain", _GAIN, result.gains, first=1)
    yield from gain_panel.marker("expected layer", result.expected_layer)
    for panel in (weight_panel, gain_panel):
        yield from panel.layer_labels()


@dataclass(frozen=True, kw_only=True)
class _Panel:
    """One of the two panels of a chart: layers from left to right, values from `low` to `high`."""

    top: int
    bottom: int
    low: float
    high: float
    num_layers: int

    def x(self, layer: float) -> float:
        return _LEFT + (_RIGHT - _LEFT) / self.num_layers * (layer + 0.5)

    def y(self, value: float) -> float:
        return self.top + (self.bottom - self.top) * (self.high - value) / (self.high - self.low)

    def axis(self, name: str) -> Iterator[str]:
        yield f'<text class="faint" x="14" y="{self.top - 14}" fill="{_FAINT}">{name}</text>'
        ticks = nice_ticks(self.low, self.high)
        every = -(-len(ticks) // _MAX_TICKS)
        for tick in ticks[ticks.index(0.0) % every :: every]:
            y = self.y(tick)
            yield f'<path class="grid" d="M{_LEFT} {y:.1f}H{_RIGHT}" stroke="{_LINE}"/>'
            yield f'<text x="{_LEFT - 5}" y="{y + 4:.1f}" text-anchor="end">{tick:g}</text>'

    def layer_labels(self) -> Iterator[str]:
        yield f'<text class="faint" x="14" y="{self.bottom + 14}" fill="{_FAINT}">layer</text>'
        for layer in range(0, self.num_layers, -(-self.num_layers // _MAX_LAYER_LABELS)):
            yield f'<text x="{self.x(layer):.1f}" y="{self.bottom + 14}" text-anchor="middle">{layer}</text>'

    def bars(self, kind: str, colour: str, values: Sequence[MeanStd], *, first: int = 0) -> Iterator[str]:
        step, zero = (_RIGHT - _LEFT) / self.num_layers, self.y(0.0)
        for layer, value in enumerate(values, start=first):
            x, end = self.x(layer), self.y(value.mean)
            yield (
                f'<rect class="{kind}" x="{x - 0.36 * step:.1f}" y="{min(zero, end):.1f}" width="{0.72 * step:.1f}" '
                f'height="{abs(zero - end):.1f}" fill="{colour}">'
                f"<title>layer {layer}: {format_mean_std(value)}</title></rect>"
            )
            if value.std:
                upper, lower = self.y(value.high), self.y(value.low)
                yield f'<path class="whisker" d="M{x:.1f} {upper:.1f}V{lower:.1f}" stroke="#1c1c1c"/>'

    def marker(self, name: str, value: MeanStd | None) -> Iterator[str]:
        """A position between layers: a triangle above the panel, a line through it, and the value on the right."""
        yield f'<text x="{_RIGHT}" y="{self.top - 14}" text-anchor="end">'
        yield f'<tspan class="mark" fill="{_MARKER}">▼</tspan> {name} {format_mean_std(value, 2)}</text>'
        if value is None:
            return
        x = min(max(self.x(value.mean), _LEFT), _RIGHT)  # with negative gains it may lie outside
        yield f'<path class="marked" d="M{x:.1f} {self.top}V{self.bottom}" stroke="{_MARKER}" stroke-width="1.5"/>'
        yield f'<path class="mark" d="M{x:.1f} {self.top}l-5 -8h10z" fill="{_MARKER}"/>'
