"""Drawings are whole, and their numbers can be read."""

from xml.etree import ElementTree

import pytest

from polyseme.plots import Point, draw_curves, round_numbers


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
