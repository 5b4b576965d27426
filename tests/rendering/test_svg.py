"""SVG charts: scales, markers and well-formed output."""

from xml.etree import ElementTree

import pytest

from polyseme.rendering.svg import SHAPES, Axis, Chart, Point, colour, marker, nice_ticks, shape


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0.479, 0.865, [0.5, 0.6, 0.7, 0.8]),
        (0.0, 1.0, [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        (-3.0, 17.0, [0.0, 5.0, 10.0, 15.0]),
        (0.8412, 0.8431, [0.8415, 0.842, 0.8425, 0.843]),
    ],
)
def test_nice_ticks(low, high, ticks):
    assert nice_ticks(low, high) == ticks


def test_points_of_a_chart_file():
    points = [Point(10, 0.5, 0.1), Point(100, 0.7), Point(1000, 0.6)]
    sizes = [point.x for point in points]
    x_axis = Axis.around(sizes, name="a < b", logarithmic=True, format="{:,.0f}".format, tick_values=sizes)
    chart = Chart(x_axis=x_axis, y_axis=Axis.around([0.4, 0.7], name="score"))
    drawing = chart.render([chart.line(points, 0)], "A & B", file=True)
    assert "var(" not in drawing, "few viewers support CSS variables"
    root = ElementTree.fromstring(drawing)
    places = root.find(".//{http://www.w3.org/2000/svg}polyline").get("points").split()
    (left, low), (middle, high), (right, between) = (map(float, place.split(",")) for place in places)
    assert middle - left == pytest.approx(right - middle, abs=0.2)  # on a logarithmic scale
    assert low > between > high
    assert low - between == pytest.approx(between - high, abs=0.2)
    assert {"a < b", "score", "1,000"} <= {text.text for text in root.iter("{http://www.w3.org/2000/svg}text")}


def test_a_single_point():
    chart = Chart(x_axis=Axis.around([5], name=""), y_axis=Axis.around([0.5], name=""))
    ElementTree.fromstring(chart.render([chart.line([Point(5, 0.5)], 0)], "", file=True))


@pytest.mark.parametrize(
    ("values", "ticks"),
    [
        ([0.1, 90], [0.1, 1.0, 10.0, 100.0]),
        ([2, 60], [3.0, 10.0, 30.0]),
        ([3.0], [2.6, 2.8, 3.0, 3.2, 3.4]),
        ([1, 1e12], [1.0, 1e3, 1e6, 1e9, 1e12]),
    ],
)
def test_ticks_of_a_logarithmic_axis(values, ticks):
    assert Axis.around(values, name="", logarithmic=True).ticks() == pytest.approx(ticks)


@pytest.mark.parametrize("values", [[0.0], [5.0, 5.0], [-2.0, 3.0], [1e-9, 2e-9]])
def test_axis_has_a_margin(values):
    axis = Axis.around(values, name="")
    assert all(0 < axis.fraction(value) < 1 for value in values) and axis.ticks()


def test_series_differ_in_colour_or_shape():
    assert len({(colour(series), shape(series)) for series in range(49)}) == 49
    assert len({shape(series) for series in range(7)}) == 7
    assert marker(1, 2, 3, tooltip="<b>").count("&lt;b&gt;") == 1 and SHAPES[3] in marker(1, 2, 3)


def test_chart_in_a_page():
    chart = Chart(x_axis=Axis.around([1, 10], name="x & y"), y_axis=Axis.around([0.2, 0.6], name="up"))
    line = chart.line([Point(1, 0.2, 0.1), Point(10, 0.6)], 8, tooltip="a < b")
    root = ElementTree.fromstring(chart.render([line, chart.reference_line(0.3, "level")], 'a "quoted" text'))
    assert root.get("aria-label") == 'a "quoted" text'
    start, end = (place.split(",") for place in root.find(".//polyline").get("points").split())
    assert float(start[0]) < float(end[0]) and float(start[1]) > float(end[1])
    assert {"x & y", "up", "level"} <= {text.text for text in root.iter("text")}
