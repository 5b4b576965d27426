"""The charts of a report: score strips, learning curves and label curves."""

import statistics
from collections.abc import Collection, Sequence
from html import escape

from polyseme.comparison.report.decision import Decision
from polyseme.comparison.report.labels import (
    BASELINES,
    METHODS,
    SCALES,
    family_name,
    format_score,
    likelihood_name,
    metric_name,
    truncate,
)
from polyseme.comparison.report.measurements import task_score
from polyseme.comparison.report.results_view import ResultsView, get_number, get_text
from polyseme.comparison.rows import Row
from polyseme.rendering.svg import Axis, Chart, Point, marker
from polyseme.system.formatting import enumerate_words

_STRIP_WIDTH, _STRIP_HEIGHT = 300, 30
_MAX_POINTS = 200  # of a learning curve


def family_badge(family: str, results: ResultsView) -> str:
    """The marker and the name of a family."""
    icon = marker(0, 0, results.series[family], size=1.1)
    return f'<svg class="icon" viewBox="-9 -9 18 18" aria-hidden="true">{icon}</svg>{escape(family_name(family))}'


def draw_legend(results: ResultsView, families: Collection[str]) -> str:
    """Markers and names; the script lets an entry dim the other families."""
    items = [
        f'<li data-series="{number}">{family_badge(family, results)}</li>'
        for family, number in results.series.items()
        if family in families
    ]
    return f'<ul class="legend">{"".join(items)}</ul>'


def draw_strip(decision: Decision, results: ResultsView) -> str:
    """All families on the scale of a use, better to the right, with the significance band and the baseline."""
    overall = decision.overall
    if overall is None or len(overall.scores) < 2:
        return ""
    values = overall.gains
    baseline = None if overall.baseline is None else overall.sign * overall.baseline
    axis = Axis.around([*values.values(), *([] if baseline is None else [baseline])], margin=0.05, name="")
    width, height = _STRIP_WIDTH, _STRIP_HEIGHT

    def x(value: float) -> float:
        return 8 + (width - 16) * axis.fraction(value)

    parts = [f'<path class="track" d="M4 {height / 2}H{width - 4}"/>']
    best, numbers = decision.best, results.series
    if best is not None:
        others = (overall.difference(best, other) for other in overall.scores if other != best)
        band = statistics.median((other.high - other.low) / 2 for other in others)
        left, right = max(4.0, x(values[best] - band)), x(values[best])
        parts.append(
            f'<rect class="band" x="{left:.1f}" y="5" width="{right - left + 6:.1f}" height="{height - 10}" rx="4"/>'
        )
    if baseline is not None:
        tooltip = f"{overall.baseline_name} {format_score(overall.sign * baseline)}"
        parts.append(
            f'<path class="rule" d="M{x(baseline):.1f} 3V{height - 3}"><title>{escape(tooltip)}</title></path>'
        )
    for option in sorted(values, key=lambda one: (one == decision.option, values[one])):  # the recommended one on top
        tooltip, number = f"{option.name}: {overall.scores[option]}", numbers[option.family]
        size = 1.35 if option == decision.option else 0.8
        drawn = marker(x(values[option]), height / 2, number, size=size, tooltip=tooltip)
        parts.append(f'<g data-series="{number}">{drawn}</g>')
    label = "; ".join(f"{option.name} {format_score(overall.scores[option].value)}" for option in overall.ranked())
    return (
        f'<svg class="chart strip" viewBox="0 0 {width} {height}" role="img" aria-label="{escape(label)}">'
        f"{''.join(parts)}</svg>"
    )


def draw_learning_curves(results: ResultsView) -> list[tuple[str, str, str]]:
    """A chart of dev likelihoods for each scale, as (scale, title, SVG); lower-cased text has a chart of its own."""
    curves: dict[tuple[str, str], dict[str, list[Point]]] = {}
    for (name,), families in results.group_trainings("learning_curve", "name").items():
        for family, rows in families.items():
            for scale, line in _mean_curves(rows).items():
                curves.setdefault((scale, likelihood_name(scale, name)), {})[family] = line
    drawn = []
    for scale, title in sorted(curves, key=lambda key: ([*SCALES, key[0]].index(key[0]), key)):
        lines = {family: _thin(line) for family, line in curves[scale, title].items()}
        points = [point for line in lines.values() for point in line]
        chart = Chart(
            x_axis=Axis(name="processor minutes", low=0.0, high=max(point.x for point in points) * 1.04 or 1.0),
            y_axis=Axis.around([point.y for point in points], name=f"{truncate(title, 40)}, lower is better"),
            width=400,
            height=280,
        )
        parts = [
            chart.line(
                line, results.series[one], tooltip=f"{family_name(one)}: {line[-1].y:.3f} after {line[-1].x:.2g} min"
            )
            for one, line in lines.items()
        ]
        final = enumerate_words([f"{family_name(family)} {line[-1].y:.3f}" for family, line in lines.items()])
        drawn.append((scale, title, chart.render(parts, f"Learning curves; final values: {final}")))
    return drawn


def draw_label_curves(results: ResultsView, task: str) -> list[tuple[str, str]]:
    """Scores by number of labels, as (title, SVG): one chart for linear probes, one for fine-tuning, on equal axes."""
    lines: dict[str, dict[str, list[Point]]] = {method: {} for method in METHODS}
    unconverged: dict[str, list[tuple[Point, str]]] = {method: [] for method in METHODS}
    for (family, method, num_labels), rows in results.task_options(task).items():
        score = task_score(results, rows)
        point = Point(num_labels, score.value, score.standard_error or 0.0)
        lines[method].setdefault(family, []).append(point)
        if not all(row.get("converged", True) for row in rows):
            unconverged[method].append((point, family))
    points = [point for group in lines.values() for line in group.values() for point in line]
    if not points:
        return []
    description = results.tasks[task]
    majority = get_number(description, "majority_baseline")
    ends = [end for point in points for end in (point.y - point.error, point.y + point.error)]
    if majority is not None:  # with room for the label below the line
        ends += [majority, majority - 0.06 * abs(max(ends) - majority)]
    xs = sorted({point.x for point in points})
    metric = metric_name(truncate(get_text(description, "metric") or "score", 30))
    chart = Chart(
        x_axis=Axis.around(
            xs, name="number of labels (log)", logarithmic=True, format="{:,.0f}".format, tick_values=xs
        ),
        y_axis=Axis.around(ends, name=metric),
        width=460,
        height=300,
    )
    drawn = []
    baselines = {family: line for family, line in lines["linear_probe"].items() if family in BASELINES}
    for method, title in METHODS.items():
        parts = []
        for family, line in (lines[method] and baselines | lines[method]).items():
            line.sort(key=lambda point: point.x)
            parts.append(chart.line(line, results.series[family], tooltip=f"{family_name(family)}, {title}"))
        for point, family in unconverged[method]:
            tooltip = f"{family_name(family)}: did not converge"
            x, y = chart.x(point.x), chart.y(point.y)
            parts.append(marker(x, y, results.series[family], hollow=True, tooltip=tooltip))
        if majority is not None:
            parts.append(chart.reference_line(majority, "majority baseline"))
        if lines[method]:
            drawn.append((title, chart.render(parts, f"{truncate(task, 60)}, {title}: {metric} by number of labels")))
    return drawn


def _mean_curves(rows: Sequence[Row]) -> dict[str, list[Point]]:
    """The mean learning curve over trainings by scale, with standard deviations; the first if they differ in length."""
    by_scale: dict[str, list[list[Point]]] = {}
    for row in rows:
        curves: dict[str, list[Point]] = {}
        for point in row["points"]:
            drawn = Point(point["processor_seconds"] / 60, point["bits_per_character"])
            curves.setdefault(point["scale"], []).append(drawn)
        for scale, curve in curves.items():
            by_scale.setdefault(scale, []).append(curve)
    means = {}
    for scale, several in by_scale.items():
        same = len({len(curve) for curve in several}) == 1
        places = zip(*(several if same else several[:1]), strict=True)
        means[scale] = [_mean_point(points) for points in places]
    return means


def _mean_point(points: Sequence[Point]) -> Point:
    ys = [point.y for point in points]
    error = statistics.stdev(ys) if len(ys) > 1 else 0.0
    return Point(statistics.fmean(point.x for point in points), statistics.fmean(ys), error)


def _thin(line: Sequence[Point]) -> list[Point]:
    """A curve in order of time, with a limited number of points."""
    line = sorted(line, key=lambda point: point.x)
    every = -(-len(line) // _MAX_POINTS)
    return [*line[:-1:every], line[-1]] if every > 1 else line
