"""The drawings of a report: quality against cost, learning curves, and what labels are worth."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from polyseme.comparison.recommend import Choice
from polyseme.comparison.report_rows import Rows, number_in, rows_in, text_in
from polyseme.comparison.report_scores import Measured, measure_figures, measure_tasks, noise, task_score
from polyseme.comparison.report_words import (
    METHODS,
    SCALES,
    cut,
    duration,
    likelihood,
    listed,
    method,
    name,
    scored,
    short,
)
from polyseme.files import size
from polyseme.plots import Axis, Chart, Point, mark

_STRIP = 300, 30  # width and height of the scores of a card
_LETTER = 7.8  # width of a letter of a name, about
_MOST_POINTS = 200  # of a learning curve


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What a family costs, in one way of counting."""

    key: str
    name: str
    written: Callable[[float], str]


@dataclass(frozen=True, kw_only=True)
class Quality:
    """How good families are, in one way of seeing it; more is better."""

    name: str
    about: str
    values: Mapping[str, float]
    written: Callable[[float], str] = "{:g}".format


COSTS = (
    Cost(key="embedding_seconds", name="seconds to embed 1,000 sentences", written=duration),
    Cost(key="processor_seconds", name="processor time of learning", written=duration),
    Cost(key="disk_bytes", name="bytes on disk", written=size),
    Cost(key="parameters", name="parameters", written=short),
)


def numbers(rows: Rows) -> dict[str, int]:
    """The number of each family, which gives its colour, mark and dash everywhere."""
    return {family: number for number, family in enumerate(rows.families)}


def icon(number: int) -> str:
    """The mark of a family within a text."""
    return f'<svg class="icon" viewBox="-9 -9 18 18" aria-hidden="true">{mark(0, 0, number, size=1.1)}</svg>'


def badge(family: str, rows: Rows) -> str:
    """The mark and the name of a family."""
    return f"{icon(numbers(rows)[family])}{escape(name(family))}"


def draw_legend(rows: Rows, families: Sequence[str]) -> str:
    """Marks and names; a program makes them dim the others."""
    known = numbers(rows)
    items = [
        f'<li data-thing="{known[family]}">{icon(known[family])}{escape(name(family))}</li>' for family in families
    ]
    return f'<ul class="legend">{"".join(items)}</ul>'


def draw_strip(choice: Choice, rows: Rows) -> str:
    """All families on the scale of a use, the better to the right; the band is what noise cannot tell from the best."""
    whole = choice.whole
    if whole is None or len(whole.scores) < 2:
        return ""
    sign = 1 if whole.higher else -1
    values = {family: sign * score.value for family, score in whole.scores.items()}
    shown = [*values.values()] + ([] if whole.baseline is None else [sign * whole.baseline])
    axis = Axis.around(shown, margin=0.05, name="")
    width, height = _STRIP

    def x(value: float) -> float:
        return 8 + (width - 16) * axis.share(value)

    parts = [f'<path class="track" d="M4 {height / 2}H{width - 4}"/>']
    if choice.best is not None:
        best, others = choice.best, [other for other in whole.scores if other != choice.best]
        band = statistics.median(2 * noise(whole.scores[best], whole.scores[other]) for other in others)
        left, right = max(4.0, x(values[best] - band)), x(values[best])
        parts.append(
            f'<rect class="band" x="{left:.1f}" y="5" width="{right - left + 6:.1f}" height="{height - 10}" rx="4"/>'
        )
    if whole.baseline is not None:
        parts.append(
            f'<path class="rule" d="M{x(sign * whole.baseline):.1f} 3V{height - 3}"><title>'
            f"nothing learnt: {scored(whole.baseline)}</title></path>"
        )
    known = numbers(rows)
    for family in sorted(values, key=lambda one: (one == choice.family, values[one])):  # the recommended one on top
        score = whole.scores[family]
        about = f"{name(family)}: {scored(score.value, score.error)}"
        size_of = 1.35 if family == choice.family else 0.8
        drawn = mark(x(values[family]), height / 2, known[family], size=size_of, about=about)
        parts.append(f'<g data-thing="{known[family]}">{drawn}</g>')
    about = "; ".join(
        f"{name(family)} {scored(whole.scores[family].value)}"
        for family in sorted(values, key=lambda one: -values[one])
    )
    return (
        f'<svg class="chart strip" viewBox="0 0 {width} {height}" role="img" aria-label="{escape(about)}">'
        f"{''.join(parts)}</svg>"
    )


def find_qualities(rows: Rows) -> list[Quality]:
    """The mean score and the mean rank over what all were measured on and any has learnt; then each measurement."""
    measured = [*measure_tasks(rows), *measure_figures(rows)]
    families = rows.trained
    shared = [
        one
        for one in measured
        if one.kind != "likelihood"
        and all(family in one.scores for family in families)
        and any(map(one.beats_nothing, one.scores))
    ]
    found = []
    if shared and len(families) > 1:
        told = f"over {listed([cut(one.name, 30) for one in shared])}"
        means, ranks = _mean_scores(shared, families), _mean_ranks(shared, families)
        found.append(
            Quality(name="mean score", about=f"from 0, nothing learnt, to 1, the best family; {told}", values=means)
        )
        found.append(
            Quality(
                name="mean rank",
                about=f"1 is best; {told}",
                values={family: -rank for family, rank in ranks.items()},
                written=lambda value: f"{-value:g}",
            )
        )
    for one in measured:
        sign = 1 if one.higher else -1
        about = " ".join(filter(None, [one.metric, f"with {one.labels:,} labels" if one.labels else ""]))
        values = {family: sign * score.value for family, score in one.scores.items()}
        written: Callable[[float], str] = "{:g}".format if one.higher else lambda value: f"{-value:g}"
        found.append(Quality(name=cut(one.name, 60), about=about, values=values, written=written))
    return found


def draw_front(rows: Rows, quality: Quality, cost: Cost) -> str:
    """Families by quality and cost; a line goes through those that none beats in both."""
    costs = {family: number_in(row, cost.key) for family, row in rows.families.items()}
    places = {
        family: (value, quality.values[family])
        for family, value in costs.items()
        if value is not None and family in quality.values
    }
    above = [value for value, _ in places.values() if value > 0]
    if not places:
        return f'<p class="faint">Nothing is known of {escape(cost.name)} here.</p>'
    least = min(above, default=1.0) / 4 if any(value <= 0 for value, _ in places.values()) else 0.0
    xs = {family: value if value > 0 else least for family, (value, _) in places.items()}
    ys = {family: value for family, (_, value) in places.items()}
    chart = Chart(
        across=Axis.around(
            [*xs.values()], margin=0.12, name=f"{cost.name}, logarithmic", logarithmic=True, written=cost.written
        ),
        up=Axis.around(
            [*ys.values()],
            margin=0.12,
            name=quality.name,
            written=quality.written,
        ),
        width=760,
        height=400,
    )
    front = find_front(xs, ys)
    known, (line, taken) = numbers(rows), _steps(front, xs, ys, chart)
    taken += [_box(chart.x(xs[family]) - 7, chart.y(ys[family]) + 4, 14.0) for family in xs]
    parts = [f'<path class="front" d="{line}"/>']
    for family in sorted(xs, key=lambda one: (one not in front, xs[one])):
        x, y = chart.x(xs[family]), chart.y(ys[family])
        about = f"{name(family)}: {quality.written(round(ys[family], 3))}, {cost.written(places[family][0])}"
        label = cut(name(family), 30) + (" (0)" if places[family][0] <= 0 else "")
        across, base, anchor, room = _room(x, y, _LETTER * len(label), taken, chart)
        taken.append(room)
        weight = ' font-weight="600"' if family in front else ""
        parts.append(
            f'<g data-thing="{known[family]}">'
            f"{mark(x, y, known[family], size=1.3, hollow=family not in front, about=about)}"
            f'<text x="{across:.1f}" y="{base:.1f}" text-anchor="{anchor}"{weight}>{escape(label)}</text></g>'
        )
    about = f"{quality.name} against {cost.name}; on the front: {listed([name(family) for family in front])}"
    told = f'<p class="faint key">{escape(quality.name)}: {escape(quality.about)}</p>' if quality.about else ""
    return chart.draw(parts, about) + told


def find_front(costs: Mapping[str, float], values: Mapping[str, float]) -> list[str]:
    """The families that none beats in both, from the cheapest on."""
    front: list[str] = []
    for family in sorted(costs, key=lambda one: (costs[one], -values[one])):
        if not front or values[family] > values[front[-1]]:
            front.append(family)
    return front


def draw_learning(rows: Rows) -> list[tuple[str, str, str]]:
    """Each scale, what is drawn on it, and the learning curves; those without capitals apart."""
    curves: dict[tuple[str, str], dict[str, list[Point]]] = {}
    for row in rows.of["curve"]:
        for point in rows_in(row, "points"):
            seconds, bits = number_in(point, "processor_seconds"), number_in(point, "bits_per_character")
            if seconds is not None and bits is not None and seconds >= 0:
                scale = text_in(point, "scale") or "causal"
                kind = (scale, likelihood(scale, text_in(row, "name")))
                curves.setdefault(kind, {}).setdefault(row["family"], []).append(Point(seconds / 60, bits))
    known, drawn = numbers(rows), []
    for scale, title in sorted(curves, key=lambda one: ([*SCALES, one[0]].index(one[0]), one)):
        some = curves[scale, title]
        lines = {family: _thin(some[family]) for family in rows.families if family in some}
        points = [point for line in lines.values() for point in line]
        chart = Chart(
            across=Axis(name="processor minutes", low=0.0, high=max(point.x for point in points) * 1.04 or 1.0),
            up=Axis.around(
                [point.y for point in points],
                name=f"{cut(title, 40)}, lower is better",
            ),
            width=400,
            height=280,
        )
        parts = [
            chart.line(line, known[family], about=f"{name(family)}: {line[-1].y:.3f} after {line[-1].x:.2g} min")
            for family, line in lines.items()
        ]
        last = listed([f"{name(family)} {line[-1].y:.3f}" for family, line in lines.items()])
        drawn.append((scale, title, chart.draw(parts, f"Learning curves; at the end {last}")))
    return drawn


def draw_labels(rows: Rows, task: str) -> list[tuple[str, str]]:
    """What labels are worth for a task: drawings of the linear probe and of what was fine-tuned, alike in scale."""
    lines: dict[bool, dict[tuple[str, str], list[Point]]] = {}
    for row in rows.of["task"]:
        labels, score = number_in(row, "labels"), task_score(rows, row)
        if row["task"] == task and labels and labels > 0 and score is not None:
            how = text_in(row, "method")
            group = lines.setdefault(how != "linear", {})
            group.setdefault((row["family"], how), []).append(Point(labels, score.value, score.error or 0.0))
    points = [point for group in lines.values() for line in group.values() for point in line]
    if not points:
        return []
    told = rows.tasks()[task]
    majority = number_in(told, "majority")
    ends = [end for point in points for end in (point.y - point.deviation, point.y + point.deviation)]
    if majority is not None:  # with room for what is written under it
        ends += [majority, majority - 0.06 * abs(max(ends) - majority)]
    xs = sorted({point.x for point in points})
    metric = cut(text_in(told, "metric") or "score", 30)
    chart = Chart(
        across=Axis.around(xs, name="labels, logarithmic", logarithmic=True, written="{:,.0f}".format, ticks=xs),
        up=Axis.around(ends, name=metric),
        width=460,
        height=300,
    )
    known, drawn = numbers(rows), []
    for tuned in sorted(lines):
        parts = []
        order = sorted(lines[tuned], key=lambda key: known[key[0]])
        for family, how in order:
            line = sorted(lines[tuned][family, how], key=lambda point: point.x)
            parts.append(
                chart.line(line, known[family], hollow=not tuned, about=f"{name(family)}, {cut(method(how), 30)}")
            )
        if majority is not None:
            parts.append(chart.rule(majority, "always the commonest answer"))
        methods = listed(list(dict.fromkeys(cut(method(how), 30) for _, how in order)))
        title = METHODS["linear"] if not tuned else methods
        drawn.append((title, chart.draw(parts, f"{cut(task, 60)}, {title}: {metric} by number of labels")))
    return drawn


def _mean_scores(shared: Sequence[Measured], families: Sequence[str]) -> dict[str, float]:
    scores: dict[str, list[float]] = {family: [] for family in families}
    for one in shared:
        gains = {family: one.gain(one.scores[family].value, 0.0) for family in families}
        best = max(gains.values())
        floor = min(gains.values()) if one.baseline is None else one.gain(one.baseline, 0.0)
        for family in families:
            scores[family].append(max(0.0, (gains[family] - floor) / (best - floor)) if best > floor else 0.0)
    return {family: statistics.fmean(values) for family, values in scores.items()}


def _mean_ranks(shared: Sequence[Measured], families: Sequence[str]) -> dict[str, float]:
    """Ranks of each measurement, equal ones shared, and their mean."""
    ranks: dict[str, list[float]] = {family: [] for family in families}
    for one in shared:
        gains = {family: one.gain(one.scores[family].value, 0.0) for family in families}
        for family, gain in gains.items():
            better, equal = (sum(map(test, gains.values())) for test in (gain.__lt__, gain.__eq__))
            ranks[family].append(better + (equal + 1) / 2)
    return {family: statistics.fmean(values) for family, values in ranks.items()}


def _thin(line: Sequence[Point]) -> list[Point]:
    """A curve in order of time, of no more points than are seen."""
    line = sorted(line, key=lambda point: point.x)
    every = -(-len(line) // _MOST_POINTS)
    return [*line[:-1:every], line[-1]] if every > 1 else line


def _steps(
    front: Sequence[str], xs: Mapping[str, float], ys: Mapping[str, float], chart: Chart
) -> tuple[str, list[tuple[float, float, float, float]]]:
    """The line through the front, level to the right and then up; and the room that it takes."""
    places = [(chart.x(xs[family]), chart.y(ys[family])) for family in front]
    path, taken = f"M{places[0][0]:.1f} {places[0][1]:.1f}", []
    end = (float(chart.width - chart.right), places[-1][1])
    for (x, y), (right, up) in zip(places, [*places[1:], end], strict=True):
        path += f"H{right:.1f}V{up:.1f}"
        taken += [(x, y - 1, right, y + 1), (right - 1, up, right + 1, y)]
    return path, taken


def _box(left: float, base: float, width: float) -> tuple[float, float, float, float]:
    return left, base - 11, left + width, base + 3


def _room(
    x: float, y: float, width: float, taken: Sequence[tuple[float, float, float, float]], chart: Chart
) -> tuple[float, float, str, tuple[float, float, float, float]]:
    """Where the name of a mark stands: to a side of it that is free, or else to the right; and the room it takes."""
    sides = [(11, 4, "start"), (-11, 4, "end"), (0, -12, "middle"), (0, 21, "middle")]
    sides += [(9, -9, "start"), (9, 17, "start"), (-9, -9, "end"), (-9, 17, "end")]
    shift = {"start": 0.0, "end": width, "middle": width / 2}
    found = [
        (x + right, y + down, anchor, _box(x + right - shift[anchor], y + down, width)) for right, down, anchor in sides
    ]
    for place in found:
        left, top, right, bottom = place[3]
        inside = chart.left <= left and right <= chart.width and top >= 0 and bottom <= chart.height - chart.bottom
        if inside and not any(left < box[2] and box[0] < right and top < box[3] and box[1] < bottom for box in taken):
            return place
    return found[0]
