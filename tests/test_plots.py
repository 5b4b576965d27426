"""Drawings are whole, and their numbers can be read."""

from xml.etree import ElementTree

import pytest

from polyseme.plots import SHAPES, Axis, Chart, Point, colour, draw_curves, mark, round_numbers, shape


@pytest.mark.parametrize(
    ("low", "high", "numbers"),
    [
        (0.479, 0.865, [0.5, 0.6, 0.7, 0.8]),
        (0.0, 1.0, [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        (-3.0, 17.0, [0.0, 5.0, 10.0, 15.0]),
        (0.8412, 0.8431, [0.8415, 0.842, 0.8425, 0.843]),
    ],
)
def test_round_numbers(low, high, numbers):
    assert round_numbers(low, high) == numbers


def test_points_stand_where_they_should():
    drawn = draw_curves(
        {"a < b": [Point(10, 0.5, 0.1), Point(100, 0.7), Point(1000, 0.6)]}, title="A & B", across="labels", up="score"
    )
    root = ElementTree.fromstring(drawn)
    circles = [(float(c.get("cx")), float(c.get("cy"))) for c in root.iter("{http://www.w3.org/2000/svg}circle")]
    (left, low), (middle, high), (right, between) = circles
    assert middle - left == pytest.approx(right - middle, abs=0.2)  # ten times as many each time
    assert low > between > high
    assert low - between == pytest.approx(between - high, abs=0.2)
    assert {"A & B", "a < b", "1,000"} <= {text.text for text in root.iter("{http://www.w3.org/2000/svg}text")}


def test_a_single_point():
    ElementTree.fromstring(draw_curves({"one": [Point(5, 0.5)]}, title="", across="", up=""))


@pytest.mark.parametrize(
    ("values", "numbers"),
    [
        ([0.1, 90], [0.1, 1.0, 10.0, 100.0]),
        ([2, 60], [3.0, 10.0, 30.0]),
        ([3.0], [2.6, 2.8, 3.0, 3.2, 3.4]),
        ([1, 1e12], [1.0, 1e3, 1e6, 1e9, 1e12]),
    ],
)
def test_numbers_beside_a_logarithmic_axis(values, numbers):
    assert Axis.around(values, name="", logarithmic=True).marked() == pytest.approx(numbers)


@pytest.mark.parametrize("values", [[0.0], [5.0, 5.0], [-2.0, 3.0], [1e-9, 2e-9]])
def test_an_axis_has_room_for_any_values(values):
    axis = Axis.around(values, name="")
    assert all(0 < axis.share(value) < 1 for value in values) and axis.marked()


def test_no_two_things_look_the_same():
    assert len({(colour(number), shape(number)) for number in range(49)}) == 49
    assert len({shape(number) for number in range(7)}) == 7
    assert mark(1, 2, 3, about="<b>").count("&lt;b&gt;") == 1 and SHAPES[3] in mark(1, 2, 3)


def test_a_chart_is_whole():
    chart = Chart(across=Axis.around([1, 10], name="x & y"), up=Axis.around([0.2, 0.6], name="up"))
    line = chart.line([Point(1, 0.2, 0.1), Point(10, 0.6)], 8, about="a < b")
    root = ElementTree.fromstring(chart.draw([line, chart.rule(0.3, "level")], 'said "so"'))
    assert root.get("aria-label") == 'said "so"'
    start, end = (place.split(",") for place in root.find(".//polyline").get("points").split())
    assert float(start[0]) < float(end[0]) and float(start[1]) > float(end[1])
    assert {"x & y", "up", "level"} <= {text.text for text in root.iter("text")}
