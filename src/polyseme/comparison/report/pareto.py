"""Quality against cost: the families that no other family beats in both."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from polyseme.comparison.report.labels import family_name, family_names, metric_name, truncate
from polyseme.comparison.report.measurements import suite_measurements, task_measurements
from polyseme.comparison.report.results_view import ResultsView, get_number
from polyseme.comparison.report.scores import Measurement
from polyseme.rendering.svg import Axis, Chart, marker
from polyseme.system.formatting import enumerate_words, format_bytes, format_count, format_duration

_CHARACTER_WIDTH = 7.8  # of labels, about

Box = tuple[float, float, float, float]  # left, top, right, bottom


@dataclass(frozen=True, kw_only=True)
class Cost:
    """A cost of families, on the horizontal axis."""

    key: str
    name: str
    formatted: Callable[[float], str]


@dataclass(frozen=True, kw_only=True)
class Quality:
    """A quality of families, on the vertical axis; higher is better."""

    name: str
    description: str
    values: Mapping[str, float]
    formatted: Callable[[float], str] = "{:g}".format


COSTS = (
    Cost(key="embedding_seconds", name="time for 1,000 texts", formatted=format_duration),
    Cost(key="processor_seconds", name="processor time of training", formatted=format_duration),
    Cost(key="disk_bytes", name="size on disk", formatted=format_bytes),
    Cost(key="parameters", name="parameters", formatted=format_count),
)


def find_qualities(results: ResultsView) -> list[Quality]:
    """The mean score and mean rank over the measurements that all families share, then each measurement."""
    measurements = [*task_measurements(results), *suite_measurements(results)]
    families = results.pretrained
    shared = [
        one
        for one in measurements
        if one.kind != "likelihood"
        and set(families) <= one.by_family().keys()
        and any(map(one.above_baseline, one.scores))
    ]
    qualities = []
    if shared and len(families) > 1:
        over = f"over {enumerate_words([truncate(one.name, 30) for one in shared])}"
        qualities += [
            Quality(
                name="mean normalized score",
                description=f"0 is the baseline, 1 the best family; {over}",
                values=_mean_by_family([_normalized_gains(one, families) for one in shared]),
            ),
            Quality(
                name="mean rank",
                description=f"1 is best; {over}",
                values=_mean_by_family([_negated_ranks(one, families) for one in shared]),
                formatted=_format_negated,
            ),
        ]
    for one in measurements:
        labels = f"with {one.num_labels:,} labels" if one.num_labels else ""
        metric = "" if one.kind == "likelihood" else metric_name(one.metric)
        qualities.append(
            Quality(
                name=truncate(one.name, 60),
                description=" ".join(filter(None, [metric, labels])),
                values=_gains(one),
                formatted=_format_negated if one.sign < 0 else "{:g}".format,
            )
        )
    return qualities


def draw_pareto_front(results: ResultsView, quality: Quality, cost: Cost) -> str:
    """Families by quality and cost, and the Pareto front."""
    costs = {family: get_number(row, cost.key) for family, row in results.families.items()}
    known = {family: value for family, value in costs.items() if value is not None and family in quality.values}
    if not known:
        return f'<p class="faint">No data on {escape(cost.name)}.</p>'
    # Zero has no logarithm: it is drawn left of everything else.
    zero = min((value for value in known.values() if value > 0), default=1.0) / 4
    xs = {family: value if value > 0 else zero for family, value in known.items()}
    ys = {family: quality.values[family] for family in known}
    chart = Chart(
        x_axis=Axis.around(
            [*xs.values()], margin=0.12, name=f"{cost.name} (log)", logarithmic=True, format=cost.formatted
        ),
        y_axis=Axis.around([*ys.values()], margin=0.12, name=quality.name, format=quality.formatted),
        width=760,
        height=400,
    )
    front = find_pareto_front(xs, ys)
    line, taken = _step_line(front, xs, ys, chart)
    taken += [_text_box(chart.x(xs[family]) - 7, chart.y(ys[family]) + 4, 14.0) for family in xs]
    parts = [f'<path class="front" d="{line}"/>']
    for family in sorted(xs, key=lambda one: (one not in front, xs[one])):
        x, y = chart.x(xs[family]), chart.y(ys[family])
        tooltip = f"{family_name(family)}: {quality.formatted(round(ys[family], 3))}, {cost.formatted(known[family])}"
        label = truncate(family_name(family), 30) + (" (0)" if known[family] <= 0 else "")
        label_x, label_y, anchor, box = _place_label(x, y, _CHARACTER_WIDTH * len(label), taken, chart)
        taken.append(box)
        weight = ' font-weight="600"' if family in front else ""
        parts.append(
            f'<g data-series="{results.series[family]}">'
            f"{marker(x, y, results.series[family], size=1.3, hollow=family not in front, tooltip=tooltip)}"
            f'<text x="{label_x:.1f}" y="{label_y:.1f}" text-anchor="{anchor}"{weight}>{escape(label)}</text></g>'
        )
    drawn = chart.render(parts, f"{quality.name} against {cost.name}; on the Pareto front: {family_names(front)}")
    if not quality.description:
        return drawn
    return f'{drawn}<p class="faint key">{escape(quality.name)}: {escape(quality.description)}</p>'


def find_pareto_front(costs: Mapping[str, float], values: Mapping[str, float]) -> list[str]:
    """The families that no other family beats in both quality and cost, cheapest first."""
    front: list[str] = []
    for family in sorted(costs, key=lambda one: (costs[one], -values[one])):
        if not front or values[family] > values[front[-1]]:
            front.append(family)
    return front


def _format_negated(value: float) -> str:
    return f"{-value:g}"


def _gains(one: Measurement, families: Sequence[str] = ()) -> dict[str, float]:
    """The score of each family, negated if lower values are better; by default, of all families."""
    by_family = one.by_family()
    return {family: one.sign * by_family[family][1].value for family in families or by_family}


def _normalized_gains(one: Measurement, families: Sequence[str]) -> dict[str, float]:
    gains = _gains(one, families)
    floor = min(gains.values()) if one.baseline is None else one.sign * one.baseline
    span = max(gains.values()) - floor
    return {family: max(0.0, (gain - floor) / span) if span > 0 else 0.0 for family, gain in gains.items()}


def _negated_ranks(one: Measurement, families: Sequence[str]) -> dict[str, float]:
    """Ranks from -1 downwards; ties share their mean rank."""
    gains = _gains(one, families)
    every = [*gains.values()]
    return {
        family: -sum(other > gain for other in every) - (every.count(gain) + 1) / 2 for family, gain in gains.items()
    }


def _mean_by_family(values: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {family: statistics.fmean(one[family] for one in values) for family in values[0]}


def _step_line(
    front: Sequence[str], xs: Mapping[str, float], ys: Mapping[str, float], chart: Chart
) -> tuple[str, list[Box]]:
    """The SVG path of the front, as steps, and the boxes that it occupies."""
    points = [(chart.x(xs[family]), chart.y(ys[family])) for family in front]
    path, taken = f"M{points[0][0]:.1f} {points[0][1]:.1f}", []
    end = (float(chart.width - chart.right), points[-1][1])
    for (x, y), (next_x, next_y) in zip(points, [*points[1:], end], strict=True):
        path += f"H{next_x:.1f}V{next_y:.1f}"
        taken += [(x, y - 1, next_x, y + 1), (next_x - 1, next_y, next_x + 1, y)]
    return path, taken


def _text_box(left: float, baseline: float, width: float) -> Box:
    return left, baseline - 11, left + width, baseline + 3


def _place_label(x: float, y: float, width: float, taken: Sequence[Box], chart: Chart) -> tuple[float, float, str, Box]:
    """The position, anchor and box of a marker's label: the first free place around it, or else to the right."""
    offsets = [(11, 4, "start"), (-11, 4, "end"), (0, -12, "middle"), (0, 21, "middle")]
    offsets += [(9, -9, "start"), (9, 17, "start"), (-9, -9, "end"), (-9, 17, "end")]
    shift = {"start": 0.0, "end": width, "middle": width / 2}
    places = [(x + dx, y + dy, anchor, _text_box(x + dx - shift[anchor], y + dy, width)) for dx, dy, anchor in offsets]
    for place in places:
        left, top, right, bottom = place[3]
        inside = chart.left <= left and right <= chart.width and top >= 0 and bottom <= chart.height - chart.bottom
        if inside and not any(left < box[2] and box[0] < right and top < box[3] and box[1] < bottom for box in taken):
            return place
    return places[0]
