"""Drawings as SVG, which every browser shows: curves with the spread of their points.

`draw_curves` is for paper and for files. A `Chart` stands in a page and has its colours, others where it is dark.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from polyseme.pages import COLOURS

_WIDTH, _HEIGHT, _LEFT, _TOP, _RIGHT, _BOTTOM = 600, 340, 64, 66, 150, 56

# Around a place, of about the same area.
SHAPES = (
    "M-5 0a5 5 0 1 0 10 0a5 5 0 1 0-10 0z",
    "M-4.5-4.5h9v9h-9z",
    "M0-6L6 4.6H-6z",
    "M0-6.2L6.2 0L0 6.2L-6.2 0z",
    "M-1.9-5.5h3.8v3.6h3.6v3.8h-3.6v3.6h-3.8v-3.6h-3.6v-3.8h3.6z",
    "M0 6L6-4.6H-6z",
    "M0-2.7L3.3-6L6-3.3L2.7 0L6 3.3L3.3 6L0 2.7L-3.3 6L-6 3.3L-2.7 0L-6-3.3L-3.3-6z",
)
DASHES = ("", "8 3", "2 3", "9 3 2 3", "4 4")
_MOST_TICKS = 6


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


def colour(number: int) -> str:
    """That of the thing with a number, in a page."""
    return f"var(--colour-{number % len(COLOURS)})"


def shape(number: int) -> str:
    """The mark of the thing with a number; among the first forty-nine no other has it in the same colour."""
    return SHAPES[(number + number // len(COLOURS)) % len(SHAPES)]


def mark(x: float, y: float, number: int, *, size: float = 1.0, hollow: bool = False, about: str = "") -> str:
    """The mark of a thing at a place; what it is about is said where it is pointed at."""
    inside = "var(--ground)" if hollow else "currentColor"
    scale = "" if size == 1 else f" scale({size:g})"
    title = f"<title>{escape(about)}</title>" if about else ""
    return (
        f'<path class="mark" d="{shape(number)}" transform="translate({x:.1f} {y:.1f}){scale}" '
        f'style="color:{colour(number)};fill:{inside};stroke:currentColor;stroke-width:1.6">{title}</path>'
    )


@dataclass(frozen=True, kw_only=True)
class Axis:
    """A scale from one number to another, and how its numbers are written."""

    name: str
    low: float
    high: float
    logarithmic: bool = False
    written: Callable[[float], str] = "{:g}".format
    ticks: Sequence[float] = ()  # where these are wanted and no round ones

    @classmethod
    def around(cls, values: Sequence[float], *, margin: float = 0.06, **settings: Any) -> Axis:
        """One with some room on both sides of all values."""
        low, high = min(values), max(values)
        if settings.get("logarithmic"):
            room = max(1.2, (high / low) ** margin)
            return cls(low=low / room, high=high * room, **settings)
        room = margin * (high - low) or 0.05 * abs(high) or 0.05
        return cls(low=low - room, high=high + room, **settings)

    def share(self, value: float) -> float:
        """How far along the axis a value lies, from 0 to 1."""
        if self.logarithmic:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def marked(self) -> list[float]:
        """The numbers that stand beside the axis."""
        ticks = [*self.ticks] or (self._powers() if self.logarithmic else round_numbers(self.low, self.high))
        return ticks if self.ticks else ticks[:: -(-len(ticks) // _MOST_TICKS)]

    def _powers(self) -> list[float]:
        first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        for factors in ((1,), (1, 3), (1, 2, 5)):
            numbers = [factor * 10.0**power for power in range(first, last + 1) for factor in factors]
            inside = [number for number in numbers if self.low <= number <= self.high]
            if len(inside) > 2:
                return inside
        return round_numbers(self.low, self.high)  # so short that it is nearly even


@dataclass(frozen=True, kw_only=True)
class Chart:
    """Two axes in a page; things are told apart by their number, which gives colour, mark and dash."""

    across: Axis
    up: Axis
    width: int = 640
    height: int = 340
    left: int = 52
    right: int = 16
    top: int = 30
    bottom: int = 46

    def x(self, value: float) -> float:
        """How far from the left a value stands."""
        return self.left + (self.width - self.left - self.right) * self.across.share(value)

    def y(self, value: float) -> float:
        """How far from the top a value stands."""
        return self.height - self.bottom - (self.height - self.top - self.bottom) * self.up.share(value)

    def draw(self, parts: Sequence[str], about: str) -> str:
        """The axes, with what stands between them."""
        return "".join(
            [
                f'<svg class="chart" viewBox="0 0 {self.width} {self.height}" role="img" '
                f'aria-label="{escape(about)}" font-size="12.5">',
                *self._axes(),
                *parts,
                "</svg>",
            ]
        )

    def line(self, points: Sequence[Point], number: int, *, hollow: bool = False, about: str = "") -> str:
        """A curve with a mark and its deviation at every point; of many points only the last has a mark."""
        places = " ".join(f"{self.x(point.x):.1f},{self.y(point.y):.1f}" for point in points)
        parts = [
            f'<polyline points="{places}" fill="none" stroke="currentColor" stroke-width="2" '
            f'stroke-dasharray="{DASHES[number % len(DASHES)]}"/>'
        ]
        for place, point in enumerate(points):
            x, end = self.x(point.x), place == len(points) - 1
            if point.deviation:
                low, high = self.y(point.y - point.deviation), self.y(point.y + point.deviation)
                parts.append(f'<path d="M{x:.1f} {low:.1f}V{high:.1f}" stroke="currentColor" stroke-width="1.4"/>')
            if end or len(points) < 8:
                parts.append(mark(x, self.y(point.y), number, size=0.85, hollow=hollow, about=about))
        return f'<g data-thing="{number}" style="color:{colour(number)}">{"".join(parts)}</g>'

    def rule(self, value: float, about: str) -> str:
        """A level that curves are held against."""
        y, end = self.y(value), self.width - self.right
        return (
            f'<path class="rule" d="M{self.left} {y:.1f}H{end}"/>'
            f'<text class="faint" x="{end}" y="{y + 14:.1f}" text-anchor="end">{escape(about)}</text>'
        )

    def _axes(self) -> Iterator[str]:
        end, low = self.width - self.right, self.height - self.bottom
        for value in self.up.marked():
            yield f'<path class="grid" d="M{self.left} {self.y(value):.1f}H{end}"/>'
            yield f'<text x="{self.left - 8}" y="{self.y(value) + 4:.1f}" text-anchor="end">'
            yield f"{escape(self.up.written(value))}</text>"
        for value in self.across.marked():
            yield f'<path class="tick" d="M{self.x(value):.1f} {low}v5"/>'
            yield f'<text x="{self.x(value):.1f}" y="{low + 19}" text-anchor="middle">'
            yield f"{escape(self.across.written(value))}</text>"
        yield f'<path class="tick" d="M{self.left} {low}H{end}"/>'
        yield f'<text class="faint" x="{end}" y="{self.height - 6}" text-anchor="end">{escape(self.across.name)}</text>'
        yield f'<text class="faint" x="8" y="16">{escape(self.up.name)}</text>'
