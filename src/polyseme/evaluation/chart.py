"""Dot plots of metrics with error bars of two standard errors."""

from collections.abc import Sequence
from html import escape

from polyseme.errors import DataError
from polyseme.evaluation.results import MetricResult
from polyseme.rendering.html import COLOURS
from polyseme.rendering.svg import nice_ticks

_LEFT, _WIDTH, _RIGHT, _ROW, _TOP, _BOTTOM = 330, 360, 30, 19, 54, 26
_MAX_NAME_LENGTH = 44  # characters
_MAX_ROWS = 40  # per panel; beyond that, only sections and totals are drawn


def draw_metrics(results: Sequence[MetricResult], *, title: str) -> str:
    """Draw one panel per metric, with one row per result, as SVG."""
    panels: dict[str, list[MetricResult]] = {}
    for result in results:
        if result.value is not None:
            panels.setdefault(result.metric, []).append(result)
    for metric, rows in panels.items():
        if len(rows) > _MAX_ROWS:
            panels[metric] = [result for result in rows[:-1] if result.section] + rows[-1:]
    if not panels:
        raise DataError("no result to draw: too few items could be scored by this model")
    parts, top = [f'<text x="20" y="28" font-size="15">{escape(title)}</text>'], 40
    for metric, rows in panels.items():
        parts += [f'<g transform="translate(0 {top})">', *_panel(metric, rows), "</g>"]
        top += _TOP + _ROW * len(rows) + _BOTTOM
    header = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_LEFT + _WIDTH + _RIGHT} {top}" '
        'font-family="sans-serif" font-size="12">'
    )
    return "\n".join([header, '<rect width="100%" height="100%" fill="white"/>', *parts, "</svg>", ""])


def _panel(metric: str, results: Sequence[MetricResult]) -> list[str]:
    bounds = [(result.value or 0) + sign * 2 * (result.standard_error or 0) for result in results for sign in (-1, 1)]
    margin = 0.06 * (max(bounds) - min(bounds)) or 0.05
    low, high = min(bounds) - margin, max(bounds) + margin
    end = _TOP + _ROW * len(results)

    def x_of(value: float) -> float:
        return _LEFT + _WIDTH * (value - low) / (high - low)

    parts = [f'<text x="{_LEFT}" y="{_TOP - 30}" font-weight="bold">{escape(metric)}</text>']
    for value in nice_ticks(low, high):
        parts.append(f'<path d="M{x_of(value):.1f} {_TOP - 6}V{end}" stroke="#ddd"/>')
        parts.append(f'<text x="{x_of(value):.1f}" y="{_TOP - 12}" text-anchor="middle" fill="#555">{value:g}</text>')
    for number, result in enumerate(results):
        y, value, error = _TOP + _ROW * number + 8, result.value or 0, 2 * (result.standard_error or 0)
        whole = f"{result.name}: {result.section}" if result.section else result.name
        name = whole if len(whole) <= _MAX_NAME_LENGTH else whole[: _MAX_NAME_LENGTH - 1] + "…"
        parts += [
            f'<text x="{_LEFT - 12}" y="{y + 4}" text-anchor="end">{escape(name)}</text>',
            f'<path d="M{x_of(value - error):.1f} {y}H{x_of(value + error):.1f}" stroke="{COLOURS[0]}" '
            'stroke-width="2"/>',
            f'<circle cx="{x_of(value):.1f}" cy="{y}" r="4" fill="{COLOURS[0]}">'
            f"<title>{escape(whole)}: {value:.4g}</title></circle>",
        ]
    return parts
