"""Charts of probing results like those of Tenney et al. (ACL 2019): mixing weights above, gains in score below.

A cell is one task on one model. The SVG file is a grid of cells, tasks by models; on the HTML page each cell is a chart
of its own, which adapts to the width of the screen.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from polyseme.analysis.layer_statistics import MeanStd, ProbeResult
from polyseme.rendering import html as pages
from polyseme.rendering.html import COLOURS
from polyseme.rendering.svg import nice_ticks
from polyseme.system.atomic_io import write_file
from polyseme.system.io_errors import writable

_WIDTH, _HEIGHT, _SHORT_HEIGHT, _TITLE_HEIGHT = 330, 300, 44, 34  # of a cell; a single layer has a short one
_LEFT, _RIGHT = 46, 318  # edges of its panels
_WEIGHTS, _GAINS = (76, 170), (216, 274)  # top and bottom of each panel
_MAX_LAYER_LABELS = 13  # below a panel
_MAX_TICKS = 4

# Attributes are for the SVG file; the page overrides them by CSS with light and dark colours.
_BAR, _GAIN, _MARKER, _FAINT, _LINE = COLOURS[0], COLOURS[4], COLOURS[1], "#666", "#ddd"
_STYLE = """
.cells { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 19rem), 1fr)); gap: 1rem; }
.cells svg { width: 100%; max-width: 27rem; }
svg .bar { fill: var(--colour-0); } svg .gain { fill: var(--colour-4); } svg .whisker { stroke: var(--ink); }
svg .mark { fill: var(--colour-1); } svg .marked { stroke: var(--colour-1); } svg .even { stroke: var(--faint); }
svg .grid { stroke: var(--line); } svg text.faint { fill: var(--faint); } svg .ground { fill: none; }
th, td { white-space: nowrap; padding: .2rem .5rem; } details { margin: .6rem 0; } summary { cursor: pointer; }
"""
_ABOUT = (
    "Each probe reads a frozen model through a trained mix of its layers. Upper panel: the mixing weights; the centre "
    "of gravity is marked, and the dashed line is uniform weights. Lower panel: the gain in score of each layer over a "
    "probe of all layers below it; the expected layer, at which a target is predicted correctly on average, is marked. "
    "Layer 0 does not depend on the context (Tenney et al., 2019)."
)


@dataclass(frozen=True, kw_only=True)
class _Scale:
    """The ranges of the axes: of weights for all cells, of gains for all models on a task."""

    max_weight: float
    min_gain: float
    max_gain: float

    @classmethod
    def of(cls, cells: Sequence[ProbeResult], results: Sequence[ProbeResult]) -> _Scale:
        """The scale of the cells of a task among all results."""
        weights = [_high(weight) for result in results if result.num_layers > 1 for weight in result.layer_weights]
        gains = [bound for result in cells for gain in result.gains for bound in (_low(gain), _high(gain))]
        return cls(
            max_weight=1.05 * max(weights, default=1.0),
            min_gain=1.05 * min([0.0, *gains]),
            max_gain=1.05 * max([1e-3, *gains]),
        )


def probes_svg(results: Sequence[ProbeResult]) -> str:
    """A grid of all cells as SVG; the tasks of a single model are side by side."""
    tasks, models = _names(results)
    height, single_model = _TITLE_HEIGHT + _HEIGHT, len(models) == 1
    parts = []
    for index, task in enumerate(tasks):
        cells = [result for result in results if result.task == task]
        left, top = (index * _WIDTH, 0) if single_model else (0, index * height)
        parts.append(f'<text x="{left + 14}" y="{top + 26}" font-size="16" font-weight="bold">{escape(task)}</text>')
        for result in cells:
            x = left + models.index(result.model) * _WIDTH
            parts += [
                f'<g transform="translate({x} {top + _TITLE_HEIGHT})">',
                *_cell(result, _Scale.of(cells, results)),
                "</g>",
            ]
    num_columns, num_rows = (len(tasks), 1) if single_model else (len(models), len(tasks))
    return _svg(parts, _WIDTH * num_columns, height * num_rows, "Probing results by layer")


def probe_page(results: Sequence[ProbeResult]) -> str:
    """A stand-alone page with charts and tables."""
    tasks, _ = _names(results)
    title = f"Probing by layer: {', '.join(tasks)}"
    parts = [f"<h1>{escape(title)}</h1>", f"<p>{escape(_ABOUT)}</p>"]
    for task in tasks:
        cells = [result for result in results if result.task == task]
        scale, first = _Scale.of(cells, results), cells[0]
        parts.append(f"<h2>{escape(task)}</h2>")
        parts.append(
            f'<p class="faint">{first.num_labels:,} labels; {first.num_train:,} training and {first.num_dev:,} dev '
            f"targets; {_seeds(first.num_seeds)}; majority baseline {first.majority_baseline:.3f} "
            f"({escape(first.metric)})</p>"
        )
        charts = [_svg(list(_cell(result, scale)), _WIDTH, _height(result), _summary(result)) for result in cells]
        parts.append(f'<div class="cells">{"".join(charts)}</div>')
        parts.append(pages.table(METRIC_COLUMNS, [metric_row(result) for result in cells]))
        rows = [row for result in cells for row in layer_rows(result)]
        parts.append(f"<details><summary>By layer</summary>{pages.table(LAYER_COLUMNS, rows)}</details>")
    return pages.page(title, "\n".join(parts), style=_STYLE)


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
    return f"{round(value.mean, digits) + 0.0:.{digits}f}{std}"  # + 0.0 removes the sign of -0


def _names(results: Sequence[ProbeResult]) -> tuple[list[str], list[str]]:
    tasks, models = (dict.fromkeys(getattr(result, name) for result in results) for name in ("task", "model"))
    return list(tasks), list(models)


def _seeds(count: int) -> str:
    return "one seed" if count == 1 else f"mean and standard deviation of {count} seeds"


def _height(result: ProbeResult) -> int:
    return _HEIGHT if result.num_layers > 1 else _SHORT_HEIGHT


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


def _svg(parts: Sequence[str], width: int, height: int, description: str) -> str:
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
            f'aria-label="{escape(description)}" font-family="sans-serif" font-size="11">',
            f'<rect class="ground" width="{width}" height="{height}" fill="white"/>',
            *parts,
            "</svg>",
            "",
        ]
    )


def _cell(result: ProbeResult, scale: _Scale) -> Iterator[str]:
    yield f'<text x="14" y="16" font-size="13" font-weight="bold">{escape(_shorten(result.model))}</text>'
    yield f'<text class="faint" x="14" y="33" fill="{_FAINT}">{escape(_headline(result))}</text>'
    if result.num_layers == 1:
        return
    step = (_RIGHT - _LEFT) / result.num_layers
    weight_range, gain_range = (0.0, scale.max_weight), (scale.min_gain, scale.max_gain)

    def x_of(layer: float) -> float:
        return _LEFT + step * (layer + 0.5)

    yield from _axis("weight", *_WEIGHTS, *weight_range)
    yield from _bars("bar", _BAR, result.layer_weights, 0, _WEIGHTS, weight_range, x_of, step)
    y = _y_of(1 / result.num_layers, *_WEIGHTS, *weight_range)
    yield f'<path class="even" d="M{_LEFT} {y:.1f}H{_RIGHT}" stroke="{_FAINT}" stroke-dasharray="4 3"/>'
    yield from _marker("centre of gravity", result.centre_of_gravity, x_of, _WEIGHTS)

    yield from _axis("gain", *_GAINS, *gain_range)
    yield from _bars("gain", _GAIN, result.gains, 1, _GAINS, gain_range, x_of, step)
    yield from _marker("expected layer", result.expected_layer, x_of, _GAINS)
    every = -(-result.num_layers // _MAX_LAYER_LABELS)
    for bottom in (_WEIGHTS[1], _GAINS[1]):
        yield f'<text class="faint" x="14" y="{bottom + 14}" fill="{_FAINT}">layer</text>'
        for layer in range(0, result.num_layers, every):
            yield f'<text x="{x_of(layer):.1f}" y="{bottom + 14}" text-anchor="middle">{layer}</text>'


def _axis(name: str, top: int, bottom: int, low: float, high: float) -> Iterator[str]:
    yield f'<text class="faint" x="14" y="{top - 14}" fill="{_FAINT}">{name}</text>'
    ticks = nice_ticks(low, high)
    every = -(-len(ticks) // _MAX_TICKS)
    for tick in ticks[ticks.index(0.0) % every :: every]:
        y = _y_of(tick, top, bottom, low, high)
        yield f'<path class="grid" d="M{_LEFT} {y:.1f}H{_RIGHT}" stroke="{_LINE}"/>'
        yield f'<text x="{_LEFT - 5}" y="{y + 4:.1f}" text-anchor="end">{tick:g}</text>'


def _bars(
    kind: str,
    colour: str,
    values: Sequence[MeanStd],
    first: int,
    panel: tuple[int, int],
    bounds: tuple[float, float],
    x_of: Callable[[float], float],
    step: float,
) -> Iterator[str]:
    zero = _y_of(0.0, *panel, *bounds)
    for layer, value in enumerate(values, start=first):
        end = _y_of(value.mean, *panel, *bounds)
        x, y, width, height = x_of(layer) - 0.36 * step, min(zero, end), 0.72 * step, abs(zero - end)
        yield (
            f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{colour}">'
            f"<title>layer {layer}: {format_mean_std(value)}</title></rect>"
        )
        if value.std:
            upper, lower = _y_of(_high(value), *panel, *bounds), _y_of(_low(value), *panel, *bounds)
            yield f'<path class="whisker" d="M{x_of(layer):.1f} {upper:.1f}V{lower:.1f}" stroke="#1c1c1c"/>'


def _marker(name: str, value: MeanStd | None, x_of: Callable[[float], float], panel: tuple[int, int]) -> Iterator[str]:
    """A position between layers: a triangle above the panel, a line through it, and the value on the right."""
    top, bottom = panel
    yield f'<text x="{_RIGHT}" y="{top - 14}" text-anchor="end">'
    yield f'<tspan class="mark" fill="{_MARKER}">▼</tspan> {name} {format_mean_std(value, 2)}</text>'
    if value is None:
        return
    x = min(max(x_of(value.mean), _LEFT), _RIGHT)  # with negative gains it may lie outside
    yield f'<path class="marked" d="M{x:.1f} {top}V{bottom}" stroke="{_MARKER}" stroke-width="1.5"/>'
    yield f'<path class="mark" d="M{x:.1f} {top}l-5 -8h10z" fill="{_MARKER}"/>'


def _y_of(value: float, top: int, bottom: int, low: float, high: float) -> float:
    return top + (bottom - top) * (high - value) / (high - low)


def _high(value: MeanStd) -> float:
    return value.mean + (value.std or 0.0)


def _low(value: MeanStd) -> float:
    return value.mean - (value.std or 0.0)


def _shorten(name: str) -> str:
    return name if len(name) <= 40 else f"{name[:39]}…"
