"""Probes as a chart, like the figures of Tenney et al. (ACL 2019): weights above, gains below, by layer.

A cell is one task on one model. On paper, cells make one sheet, tasks downwards and models to the right; on a page,
each is a drawing of its own, so that they find room on any screen.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from polyseme import pages
from polyseme.errors import DataError
from polyseme.files import write_file
from polyseme.inside.layer_worth import Probed, Spread
from polyseme.pages import COLOURS
from polyseme.plots import round_numbers

_WIDTH, _HEIGHT, _SHORT, _HEAD = 330, 300, 44, 34  # of a cell, of one with nothing to weigh, and above a row
_LEFT, _RIGHT = 46, 318  # of its panels
_WEIGHTS, _GAINS = (76, 170), (216, 274)  # their top and bottom
_MOST_NUMBERS = 13  # of layers, under a panel
_MOST_TICKS = 4

# What stands there is for paper; a page has colours for light and for dark.
_BAR, _GAIN, _MARK, _FAINT, _LINE = COLOURS[0], COLOURS[4], COLOURS[1], "#666", "#ddd"
_STYLE = """
.cells { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 19rem), 1fr)); gap: 1rem; }
.cells svg { width: 100%; max-width: 27rem; }
svg .bar { fill: var(--colour-0); } svg .gain { fill: var(--colour-4); } svg .whisker { stroke: var(--ink); }
svg .mark { fill: var(--colour-1); } svg .marked { stroke: var(--colour-1); } svg .even { stroke: var(--faint); }
svg .grid { stroke: var(--line); } svg text.faint { fill: var(--faint); } svg .ground { fill: none; }
th, td { white-space: nowrap; padding: .2rem .5rem; } details { margin: .6rem 0; } summary { cursor: pointer; }
"""
_ABOUT = (
    "A probe reads a frozen model through a mix of its layers, whose weights it learns. Tall bars above are the layers "
    "that the task reads; their centre of gravity is marked, and the dashed line is what even weights would be. Bars "
    "below are what each layer adds to the score of a probe that has all layers under it; the expected layer, at which "
    "an item is answered on average, is marked. Layer 0 knows no context. (Tenney et al., 2019)"
)


@dataclass(frozen=True, kw_only=True)
class _Scale:
    """How high bars go: weights the same everywhere, gains the same for all models on a task."""

    share: float
    least: float
    most: float

    @classmethod
    def of(cls, cells: Sequence[Probed], found: Sequence[Probed]) -> _Scale:
        """Of some cells among all."""
        shares = [_high(share) for probed in found if probed.num_layers > 1 for share in probed.shares]
        gains = [bound for probed in cells for gain in probed.gains for bound in (_low(gain), _high(gain))]
        return cls(
            share=1.05 * max(shares, default=1.0), least=1.05 * min([0.0, *gains]), most=1.05 * max([1e-3, *gains])
        )


def draw_probes(found: Sequence[Probed]) -> str:
    """All cells on one sheet; the tasks of a single model stand side by side."""
    tasks, models = _names(found)
    height, alone = _HEAD + _HEIGHT, len(models) == 1
    parts = []
    for number, task in enumerate(tasks):
        cells = [probed for probed in found if probed.task == task]
        left, top = (number * _WIDTH, 0) if alone else (0, number * height)
        parts.append(f'<text x="{left + 14}" y="{top + 26}" font-size="16" font-weight="bold">{escape(task)}</text>')
        for probed in cells:
            across = left + models.index(probed.model) * _WIDTH
            parts += [
                f'<g transform="translate({across} {top + _HEAD})">',
                *_cell(probed, _Scale.of(cells, found)),
                "</g>",
            ]
    num_across, num_down = (len(tasks), 1) if alone else (len(models), len(tasks))
    return _drawing(parts, _WIDTH * num_across, height * num_down, "What layers are worth to tasks")


def probe_page(found: Sequence[Probed]) -> str:
    """All cells and their figures as a page that stands alone."""
    tasks, _ = _names(found)
    title = "Which layers " + (f"{tasks[0]} reads" if len(tasks) == 1 else "tasks read")
    parts = [f"<h1>{escape(title)}</h1>", f"<p>{escape(_ABOUT)}</p>"]
    for task in tasks:
        cells = [probed for probed in found if probed.task == task]
        scale, first = _Scale.of(cells, found), cells[0]
        parts.append(f"<h2>{escape(task)}</h2>")
        parts.append(
            f'<p class="faint">{first.num_labels:,} labels; {first.num_train:,} items to learn from, '
            f"{first.num_items:,} to measure on; {_seeds(first.num_seeds)}; always saying the commonest: "
            f"{first.majority:.3f} ({escape(first.measure)})</p>"
        )
        drawings = [_drawing(list(_cell(probed, scale)), _WIDTH, _height(probed), _summary(probed)) for probed in cells]
        parts.append(f'<div class="cells">{"".join(drawings)}</div>')
        parts.append(pages.table(FIGURES, [figures(probed) for probed in cells]))
        rows = [row for probed in cells for row in by_layer(probed)]
        parts.append(f"<details><summary>By layer</summary>{pages.table(LAYERS, rows)}</details>")
    return pages.page(title, "\n".join(parts), style=_STYLE)


def write_probes(found: Sequence[Probed], out: Path) -> list[Path]:
    """Write the page, the sheet and the figures: probe.html, .svg and .json in a folder, or beside a named page."""
    page = out if out.suffix == ".html" else out / "probe.html"
    figures = {"probes": [probed.describe() for probed in found]}
    written = {
        page: probe_page(found),
        page.with_suffix(".svg"): draw_probes(found),
        page.with_suffix(".json"): json.dumps(figures, ensure_ascii=False, indent=1) + "\n",
    }
    try:
        page.parent.mkdir(parents=True, exist_ok=True)
        for path, content in written.items():
            write_file(path, content)
    except OSError as error:
        raise DataError(f"{page} cannot be written ({error.strerror}); choose another --out") from None
    return list(written)


FIGURES = ["model", "score", "even weights", "layer 0", "majority", "centre", "expected", "KL", "γ"]
LAYERS = ["model", "layer", "weight", "score of 0 to it", "gain"]


def figures(probed: Probed) -> list[str]:
    """A row of a table."""
    return [
        probed.model,
        shown(probed.score),
        shown(probed.uniform),
        shown(probed.scores[0]),
        f"{probed.majority:.3f}",
        shown(probed.gravity, 2) if probed.num_layers > 1 else "–",
        shown(probed.expected_layer, 2),
        shown(probed.divergence) if probed.num_layers > 1 else "–",
        shown(probed.scale, 2),
    ]


def by_layer(probed: Probed) -> list[list[str]]:
    """Rows of another, one a layer."""
    return [
        [
            probed.model,
            str(layer),
            shown(probed.shares[layer]),
            shown(probed.scores[layer]),
            shown(probed.gains[layer - 1]) if layer else "",
        ]
        for layer in range(probed.num_layers)
    ]


def shown(spread: Spread | None, digits: int = 3) -> str:
    """A figure with its deviation, where it has one."""
    if spread is None:
        return "–"
    around = "" if spread.deviation is None else f" ± {spread.deviation:.{digits}f}"
    return f"{round(spread.mean, digits) + 0.0:.{digits}f}{around}"  # 0 has no sign


def _names(found: Sequence[Probed]) -> tuple[list[str], list[str]]:
    return list(dict.fromkeys(probed.task for probed in found)), list(dict.fromkeys(probed.model for probed in found))


def _seeds(number: int) -> str:
    return "one seed" if number == 1 else f"mean and deviation of {number} seeds"


def _height(probed: Probed) -> int:
    return _HEIGHT if probed.num_layers > 1 else _SHORT


def _summary(probed: Probed) -> str:
    if probed.num_layers == 1:
        return f"{probed.model}, {probed.task}: one layer, {probed.measure} {shown(probed.score)}"
    return (
        f"{probed.model}, {probed.task}: {probed.measure} {shown(probed.score)}, centre of gravity "
        f"{shown(probed.gravity, 2)}, expected layer {shown(probed.expected_layer, 2)}"
    )


def _headline(probed: Probed) -> str:
    if probed.num_layers == 1:
        return f"{probed.measure} {shown(probed.score)}; one layer, so there is nothing to weigh"
    layer_0, even = probed.scores[0].mean, probed.uniform.mean
    return f"{probed.measure} {probed.score.mean:.3f} (layer 0 alone {layer_0:.3f}, even weights {even:.3f})"


def _drawing(parts: Sequence[str], width: int, height: int, about: str) -> str:
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
            f'aria-label="{escape(about)}" font-family="sans-serif" font-size="11">',
            f'<rect class="ground" width="{width}" height="{height}" fill="white"/>',
            *parts,
            "</svg>",
            "",
        ]
    )


def _cell(probed: Probed, scale: _Scale) -> Iterator[str]:
    yield f'<text x="14" y="16" font-size="13" font-weight="bold">{escape(_fit(probed.model))}</text>'
    yield f'<text class="faint" x="14" y="33" fill="{_FAINT}">{escape(_headline(probed))}</text>'
    if probed.num_layers == 1:
        return
    step = (_RIGHT - _LEFT) / probed.num_layers

    def middle(layer: float) -> float:
        return _LEFT + step * (layer + 0.5)

    even = 1 / probed.num_layers
    yield from _panel("weight", *_WEIGHTS, 0.0, scale.share)
    yield from _bars("bar", _BAR, probed.shares, 0, _WEIGHTS, (0.0, scale.share), middle, step)
    y = _down(even, *_WEIGHTS, 0.0, scale.share)
    yield f'<path class="even" d="M{_LEFT} {y:.1f}H{_RIGHT}" stroke="{_FAINT}" stroke-dasharray="4 3"/>'
    yield from _mark("centre of gravity", probed.gravity, middle, _WEIGHTS)

    yield from _panel("gain", *_GAINS, scale.least, scale.most)
    yield from _bars("gain", _GAIN, probed.gains, 1, _GAINS, (scale.least, scale.most), middle, step)
    yield from _mark("expected layer", probed.expected_layer, middle, _GAINS)
    every = -(-probed.num_layers // _MOST_NUMBERS)
    for bottom in (_WEIGHTS[1], _GAINS[1]):
        yield f'<text class="faint" x="14" y="{bottom + 14}" fill="{_FAINT}">layer</text>'
        for layer in range(0, probed.num_layers, every):
            yield f'<text x="{middle(layer):.1f}" y="{bottom + 14}" text-anchor="middle">{layer}</text>'


def _panel(name: str, top: int, bottom: int, low: float, high: float) -> Iterator[str]:
    yield f'<text class="faint" x="14" y="{top - 14}" fill="{_FAINT}">{name}</text>'
    ticks = round_numbers(low, high)
    every = -(-len(ticks) // _MOST_TICKS)
    for tick in ticks[ticks.index(0.0) % every :: every]:
        y = _down(tick, top, bottom, low, high)
        yield f'<path class="grid" d="M{_LEFT} {y:.1f}H{_RIGHT}" stroke="{_LINE}"/>'
        yield f'<text x="{_LEFT - 5}" y="{y + 4:.1f}" text-anchor="end">{tick:g}</text>'


def _bars(
    kind: str,
    colour: str,
    values: Sequence[Spread],
    first: int,
    panel: tuple[int, int],
    bounds: tuple[float, float],
    middle: Callable[[float], float],
    step: float,
) -> Iterator[str]:
    zero = _down(0.0, *panel, *bounds)
    for layer, value in enumerate(values, start=first):
        end = _down(value.mean, *panel, *bounds)
        x, y, width, height = middle(layer) - 0.36 * step, min(zero, end), 0.72 * step, abs(zero - end)
        yield (
            f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{colour}">'
            f"<title>layer {layer}: {shown(value)}</title></rect>"
        )
        if value.deviation:
            upper, lower = _down(_high(value), *panel, *bounds), _down(_low(value), *panel, *bounds)
            yield f'<path class="whisker" d="M{middle(layer):.1f} {upper:.1f}V{lower:.1f}" stroke="#1c1c1c"/>'


def _mark(name: str, value: Spread | None, middle: Callable[[float], float], panel: tuple[int, int]) -> Iterator[str]:
    """A place between layers: a triangle above the panel, a line through it, and the number to the right."""
    top, bottom = panel
    yield f'<text x="{_RIGHT}" y="{top - 14}" text-anchor="end">'
    yield f'<tspan class="mark" fill="{_MARK}">▼</tspan> {name} {shown(value, 2)}</text>'
    if value is None:
        return
    x = min(max(middle(value.mean), _LEFT), _RIGHT)  # with losses among the gains it may lie outside
    yield f'<path class="marked" d="M{x:.1f} {top}V{bottom}" stroke="{_MARK}" stroke-width="1.5"/>'
    yield f'<path class="mark" d="M{x:.1f} {top}l-5 -8h10z" fill="{_MARK}"/>'


def _down(value: float, top: int, bottom: int, low: float, high: float) -> float:
    return top + (bottom - top) * (high - value) / (high - low)


def _high(value: Spread) -> float:
    return value.mean + (value.deviation or 0.0)


def _low(value: Spread) -> float:
    return value.mean - (value.deviation or 0.0)


def _fit(name: str) -> str:
    return name if len(name) <= 40 else f"{name[:39]}…"
