"""Drawings as SVG, which every browser shows: curves with the spread of their points."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from polyseme.pages import COLOURS

_WIDTH, _HEIGHT, _LEFT, _TOP, _RIGHT, _BOTTOM = 600, 340, 64, 66, 150, 56


@dataclass(frozen=True)
class Point:
    """A place on a curve, and how far other trials lie from it."""

    x: float
    y: float
    deviation: float = 0.0


def draw_curves(curves: Mapping[str, Sequence[Point]], *, title: str, across: str, up: str) -> str:
    """Curves by name over a logarithmic scale, each point with its deviation up and down."""
    points = [point for curve in curves.values() for point in curve]
    xs = sorted({point.x for point in points})
    low = min(point.y - point.deviation for point in points)
    high = max(point.y + point.deviation for point in points)
    margin = 0.06 * (high - low) or 0.05
    low, high = low - margin, high + margin
    first, last = math.log(xs[0]), math.log(xs[-1])

    def right(x: float) -> float:
        return _LEFT + _WIDTH * ((math.log(x) - first) / (last - first) if last > first else 0.5)

    def down(y: float) -> float:
        return _TOP + _HEIGHT * (high - y) / (high - low)

    bottom = _TOP + _HEIGHT
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_LEFT + _WIDTH + _RIGHT} {bottom + _BOTTOM}" '
        'font-family="sans-serif" font-size="13">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="{_LEFT}" y="26" font-size="15">{escape(title)}</text>',
        f'<text x="{_LEFT + _WIDTH / 2}" y="{bottom + 44}" text-anchor="middle">{escape(across)}</text>',
        f'<text x="{_LEFT}" y="{_TOP - 14}" fill="#555">{escape(up)}</text>',
    ]
    for y in round_numbers(low, high):
        parts.append(f'<path d="M{_LEFT} {down(y):.1f}h{_WIDTH}" stroke="#ddd"/>')
        parts.append(f'<text x="{_LEFT - 8}" y="{down(y) + 4:.1f}" text-anchor="end">{y:g}</text>')
    for x in xs:
        parts.append(f'<path d="M{right(x):.1f} {bottom}v5" stroke="#888"/>')
        parts.append(f'<text x="{right(x):.1f}" y="{bottom + 20}" text-anchor="middle">{x:,.0f}</text>')
    for number, (name, curve) in enumerate(curves.items()):
        colour = COLOURS[number % len(COLOURS)]
        places = " ".join(f"{right(point.x):.1f},{down(point.y):.1f}" for point in curve)
        parts.append(f'<polyline points="{places}" fill="none" stroke="{colour}" stroke-width="2.5"/>')
        for point in curve:
            place, top, end = right(point.x), down(point.y + point.deviation), down(point.y - point.deviation)
            parts.append(f'<circle cx="{place:.1f}" cy="{down(point.y):.1f}" r="4" fill="{colour}"/>')
            parts.append(f'<path d="M{place:.1f} {top:.1f}V{end:.1f}" stroke="{colour}" stroke-width="1.5"/>')
        y = _TOP + 12 + 20 * number
        parts.append(f'<path d="M{_LEFT + _WIDTH + 16} {y}h22" stroke="{colour}" stroke-width="3"/>')
        parts.append(f'<text x="{_LEFT + _WIDTH + 44}" y="{y + 4}">{escape(name)}</text>')
    return "\n".join([*parts, "</svg>", ""])


def round_numbers(low: float, high: float) -> list[float]:
    """Some four to ten round numbers between two others, evenly apart."""
    rough = (high - low) / 5
    size = 10 ** math.floor(math.log10(rough))
    step = next(factor * size for factor in (1, 2, 5, 10) if factor * size >= 0.8 * rough)
    numbers = range(math.ceil(low / step), math.floor(high / step) + 1)
    return [float(f"{number * step:.12g}") for number in numbers]
