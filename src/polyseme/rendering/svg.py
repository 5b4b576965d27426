"""SVG charts: curves with error bars, for a page or as a file of their own."""

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Self

from polyseme.rendering.html import COLOURS

# Markers around the origin, of about equal area.
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
_MAX_TICKS = 6
_MAX_MARKERS = 7  # of a curve; with more points only the last has a marker

# A file has no theme, and few viewers support CSS variables.
_FILE_ATTRIBUTES = ' xmlns="http://www.w3.org/2000/svg" font-family="sans-serif"'
_FILE_STYLE = (
    "<style>.grid{stroke:#ddd}.tick{stroke:#888;fill:none}.rule{stroke:#666;stroke-dasharray:5 4}.faint{fill:#666}"
    '</style><rect width="100%" height="100%" fill="white"/>'
)


def nice_ticks(low: float, high: float) -> list[float]:
    """Four to ten round numbers between two others, evenly spaced."""
    rough = (high - low) / 5
    size = 10 ** math.floor(math.log10(rough))
    step = next(factor * size for factor in (1, 2, 5, 10) if factor * size >= 0.8 * rough)
    multiples = range(math.ceil(low / step), math.floor(high / step) + 1)
    return [float(f"{multiple * step:.12g}") for multiple in multiples]


def colour(series: int) -> str:
    """The colour of a series in a page, where it follows the theme."""
    return f"var(--colour-{series % len(COLOURS)})"


def shape(series: int) -> str:
    """The marker shape of a series; the first 49 series differ in shape or colour."""
    return SHAPES[(series + series // len(COLOURS)) % len(SHAPES)]


def marker(x: float, y: float, series: int, *, size: float = 1.0, hollow: bool = False, tooltip: str = "") -> str:
    """The marker of a series at a position."""
    inside = "var(--ground)" if hollow else "currentColor"
    scale = "" if size == 1 else f" scale({size:g})"
    title = f"<title>{escape(tooltip)}</title>" if tooltip else ""
    return (
        f'<path class="mark" d="{shape(series)}" transform="translate({x:.1f} {y:.1f}){scale}" '
        f'style="color:{colour(series)};fill:{inside};stroke:currentColor;stroke-width:1.6">{title}</path>'
    )


@dataclass(frozen=True)
class Point:
    """A point of a curve, with its error."""

    x: float
    y: float
    error: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Axis:
    """A linear or logarithmic scale."""

    name: str
    low: float
    high: float
    logarithmic: bool = False
    format: Callable[[float], str] = "{:g}".format
    tick_values: Sequence[float] = ()  # instead of round numbers

    @classmethod
    def around(cls, values: Sequence[float], *, margin: float = 0.06, **settings: Any) -> Self:
        """An axis with a margin around all values."""
        low, high = min(values), max(values)
        if settings.get("logarithmic"):
            factor = max(1.2, (high / low) ** margin)
            return cls(low=low / factor, high=high * factor, **settings)
        room = margin * (high - low) or 0.05 * abs(high) or 0.05
        return cls(low=low - room, high=high + room, **settings)

    def fraction(self, value: float) -> float:
        """The position of a value along the axis, from 0 to 1."""
        if self.logarithmic:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def ticks(self) -> list[float]:
        """The values with a label."""
        if self.tick_values:
            return [*self.tick_values]
        ticks = self._logarithmic_ticks() if self.logarithmic else nice_ticks(self.low, self.high)
        return ticks[:: -(-len(ticks) // _MAX_TICKS)]

    def _logarithmic_ticks(self) -> list[float]:
        powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        for factors in ((1,), (1, 3), (1, 2, 5)):
            values = (factor * 10.0**power for power in powers for factor in factors)
            inside = [value for value in values if self.low <= value <= self.high]
            if len(inside) > 2:
                return inside
        return nice_ticks(self.low, self.high)  # so short that it is nearly linear


@dataclass(frozen=True, kw_only=True)
class Chart:
    """Two axes; the number of a series gives its colour, marker and dash pattern."""

    x_axis: Axis
    y_axis: Axis
    width: int = 640
    height: int = 340
    left: int = 52
    right: int = 16
    top: int = 30
    bottom: int = 46

    def x(self, value: float) -> float:
        """The distance of a value from the left."""
        return self.left + (self.width - self.left - self.right) * self.x_axis.fraction(value)

    def y(self, value: float) -> float:
        """The distance of a value from the top."""
        return self.height - self.bottom - (self.height - self.top - self.bottom) * self.y_axis.fraction(value)

    def render(self, parts: Sequence[str], description: str, *, file: bool = False) -> str:
        """The axes with the parts between them, as an element of a page or as a file of its own."""
        attributes, style = (_FILE_ATTRIBUTES, _FILE_STYLE) if file else ("", "")
        svg = (
            f'<svg class="chart" viewBox="0 0 {self.width} {self.height}" role="img" '
            f'aria-label="{escape(description)}" font-size="12.5"{attributes}>'
            f"{style}{''.join(self._axes())}{''.join(parts)}</svg>"
        )
        return re.sub(r"var\(--colour-(\d)\)", lambda match: COLOURS[int(match[1])], svg) if file else svg

    def line(self, points: Sequence[Point], series: int, *, hollow: bool = False, tooltip: str = "") -> str:
        """A curve with error bars, and markers if there are few points."""
        places = " ".join(f"{self.x(point.x):.1f},{self.y(point.y):.1f}" for point in points)
        parts = [
            f'<polyline points="{places}" fill="none" stroke="currentColor" stroke-width="2" '
            f'stroke-dasharray="{DASHES[series % len(DASHES)]}"/>'
        ]
        for index, point in enumerate(points):
            x = self.x(point.x)
            if point.error:
                low, high = self.y(point.y - point.error), self.y(point.y + point.error)
                parts.append(f'<path d="M{x:.1f} {low:.1f}V{high:.1f}" stroke="currentColor" stroke-width="1.4"/>')
            if index == len(points) - 1 or len(points) <= _MAX_MARKERS:
                parts.append(marker(x, self.y(point.y), series, size=0.85, hollow=hollow, tooltip=tooltip))
        return f'<g data-series="{series}" style="color:{colour(series)}">{"".join(parts)}</g>'

    def reference_line(self, value: float, label: str) -> str:
        """A horizontal dashed line at a value, such as a baseline."""
        y, end = self.y(value), self.width - self.right
        return (
            f'<path class="rule" d="M{self.left} {y:.1f}H{end}"/>'
            f'<text class="faint" x="{end}" y="{y + 14:.1f}" text-anchor="end">{escape(label)}</text>'
        )

    def _axes(self) -> Iterator[str]:
        end, low = self.width - self.right, self.height - self.bottom
        for value in self.y_axis.ticks():
            yield f'<path class="grid" d="M{self.left} {self.y(value):.1f}H{end}"/>'
            yield f'<text x="{self.left - 8}" y="{self.y(value) + 4:.1f}" text-anchor="end">'
            yield f"{escape(self.y_axis.format(value))}</text>"
        for value in self.x_axis.ticks():
            yield f'<path class="tick" d="M{self.x(value):.1f} {low}v5"/>'
            yield f'<text x="{self.x(value):.1f}" y="{low + 19}" text-anchor="middle">'
            yield f"{escape(self.x_axis.format(value))}</text>"
        yield f'<path class="tick" d="M{self.left} {low}H{end}"/>'
        yield f'<text class="faint" x="{end}" y="{self.height - 6}" text-anchor="end">{escape(self.x_axis.name)}</text>'
        yield f'<text class="faint" x="8" y="16">{escape(self.y_axis.name)}</text>'
