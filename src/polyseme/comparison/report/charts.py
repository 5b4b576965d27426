"""The charts of a report: score strips, learning curves and label curves."""

import statistics
from collections.abc import Collection, Sequence
from html import escape

from polyseme.comparison.report.decision import Decision
from polyseme.comparison.report.labels import (
    METHODS,
    SCALES,
    family_name,
    format_score,
    likelihood_name,
    metric_name,
    truncate,
)
from polyseme.comparison.report.results_view import ResultsView, get_number, get_text
from polyseme.comparison.report.scores import task_score
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
        others = [other for other in overall.scores if other != best]
        band = statistics.median(2 * overall.standard_error_of_difference(best, other) for other in others)
        left, right = max(4.0, x(values[best] - band)), x(values[best])
        parts.append(
            f'<rect class="band" x="{left:.1f}" y="5" width="{right - left + 6:.1f}" height="{height - 10}" rx="4"/>'
        )
    if baseline is not None:
        tooltip = f"{overall.baseline_name} {format_score(overall.sign * baseline)}"
        parts.append(
            f'<path class="rule" d="M{x(baseline):.1f} 3V{height - 3}"><title>{escape(tooltip)}</title></path>'
        )
    for family in sorted(values, key=lambda one: (one == decision.family, values[one])):  # the recommended one on top
        score = overall.scores[family]
        tooltip = f"{family_name(family)}: {score}"
        size = 1.35 if family == decision.family else 0.8
        drawn = marker(x(values[family]), height / 2, numbers[family], size=size, tooltip=tooltip)
        parts.append(f'<g data-series="{numbers[family]}">{drawn}</g>')
    label = "; ".join(f"{family_name(one)} {format_score(overall.scores[one].value)}" for one in overall.ranked())
    return (
        f'<svg class="chart strip" viewBox="0 0 {width} {height}" role="img" aria-label="{escape(label)}">'
        f"{''.join(parts)}</svg>"
    )


def draw_learning_curves(results: ResultsView) -> list[tuple[str, str, str]]:
    """A chart of dev likelihoods for each scale, as (scale, title, SVG); lower-cased text has a chart of its own."""
    curves: dict[tuple[str, str], dict[str, list[Point]]] = {}
    for row in results.of["learning_curve"]:
        for point in row["points"]:
            key = (point["scale"], likelihood_name(point["scale"], get_text(row, "name")))
            drawn_point = Point(point["processor_seconds"] / 60, point["bits_per_character"])
            curves.setdefault(key, {}).setdefault(row["family"], []).append(drawn_point)
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
    for row in results.of["task"]:
        if row["task"] == task:
            score = task_score(results, row)
            point = Point(row["num_labels"], score.value, score.standard_error or 0.0)
            lines[row["method"]].setdefault(row["family"], []).append(point)
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
    for method, title in METHODS.items():
        parts = []
        for family, line in lines[method].items():
            line.sort(key=lambda point: point.x)
            hollow, tooltip = method == "linear_probe", f"{family_name(family)}, {title}"
            parts.append(chart.line(line, results.series[family], hollow=hollow, tooltip=tooltip))
        if majority is not None:
            parts.append(chart.reference_line(majority, "majority baseline"))
        if lines[method]:
            drawn.append((title, chart.render(parts, f"{truncate(task, 60)}, {title}: {metric} by number of labels")))
    return drawn


def _thin(line: Sequence[Point]) -> list[Point]:
    """A curve in order of time, with a limited number of points."""
    line = sorted(line, key=lambda point: point.x)
    every = -(-len(line) // _MAX_POINTS)
    return [*line[:-1:every], line[-1]] if every > 1 else line
