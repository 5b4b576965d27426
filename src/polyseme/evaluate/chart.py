"""Figures as a drawing: a dot each, with two standard errors to either side."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from polyseme.errors import DataError
from polyseme.evaluate.figures import Figure
from polyseme.pages import COLOURS
from polyseme.plots import round_numbers

_LEFT, _WIDTH, _RIGHT, _ROW, _TOP, _BOTTOM = 330, 360, 30, 19, 54, 26
_MOST_LETTERS = 44  # of a name
_MOST_ROWS = 40  # of a panel; of more, sections and totals alone are shown


def draw_figures(figures: Sequence[Figure], *, title: str) -> str:
    """One panel a measure, one below the other, with a row a figure."""
    panels: dict[str, list[Figure]] = {}
    for figure in figures:
        if figure.value is not None:
            panels.setdefault(figure.measure, []).append(figure)
    for measure, rows in panels.items():
        if len(rows) > _MOST_ROWS:
            panels[measure] = [figure for figure in rows[:-1] if figure.section] + rows[-1:]
    if not panels:
        raise DataError("there is no figure to draw: the model knows too little of this data")
    parts, top = [f'<text x="20" y="28" font-size="15">{escape(title)}</text>'], 40
    for measure, rows in panels.items():
        parts += [f'<g transform="translate(0 {top})">', *_panel(measure, rows), "</g>"]
        top += _TOP + _ROW * len(rows) + _BOTTOM
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_LEFT + _WIDTH + _RIGHT} {top}" '
            'font-family="sans-serif" font-size="12">',
            '<rect width="100%" height="100%" fill="white"/>',
            *parts,
            "</svg>",
            "",
        ]
    )


def _panel(measure: str, figures: Sequence[Figure]) -> list[str]:
    bounds = [(figure.value or 0) + side * 2 * (figure.error or 0) for figure in figures for side in (-1, 1)]
    margin = 0.06 * (max(bounds) - min(bounds)) or 0.05
    low, high = min(bounds) - margin, max(bounds) + margin
    end = _TOP + _ROW * len(figures)

    def right(value: float) -> float:
        return _LEFT + _WIDTH * (value - low) / (high - low)

    parts = [f'<text x="{_LEFT}" y="{_TOP - 30}" font-weight="bold">{escape(measure)}</text>']
    for value in round_numbers(low, high):
        parts.append(f'<path d="M{right(value):.1f} {_TOP - 6}V{end}" stroke="#ddd"/>')
        parts.append(f'<text x="{right(value):.1f}" y="{_TOP - 12}" text-anchor="middle" fill="#555">{value:g}</text>')
    for number, figure in enumerate(figures):
        y, value, error = _TOP + _ROW * number + 8, figure.value or 0, 2 * (figure.error or 0)
        whole = f"{figure.name}: {figure.section}" if figure.section else figure.name
        name = whole if len(whole) <= _MOST_LETTERS else whole[: _MOST_LETTERS - 1] + "…"
        parts += [
            f'<text x="{_LEFT - 12}" y="{y + 4}" text-anchor="end">{escape(name)}</text>',
            f'<path d="M{right(value - error):.1f} {y}H{right(value + error):.1f}" stroke="{COLOURS[0]}" '
            'stroke-width="2"/>',
            f'<circle cx="{right(value):.1f}" cy="{y}" r="4" fill="{COLOURS[0]}">'
            f"<title>{escape(whole)}: {value:.4g}</title></circle>",
        ]
    return parts
