import pytest

from polyseme.system.formatting import (
    enumerate_words,
    format_bytes,
    format_clock,
    format_count,
    format_duration,
    format_number_of,
)


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0"), (812, "812"), (999.4, "999"), (999.6, "1.0k"), (9_949, "9.9k"), (35_400, "35k"), (2.1e6, "2.1M")],
)
def test_counts(count, text):
    assert format_count(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.0123, "12 ms"), (1.26, "1.3 s"), (99.6, "1.66 min"), (5_960, "99.3 min"), (7_200, "2 h")]
)
def test_durations(seconds, text):
    assert format_duration(seconds) == text


@pytest.mark.parametrize(("seconds", "text"), [(-1, "0:00"), (185, "3:05"), (3_723, "1:02:03")])
def test_clock(seconds, text):
    assert format_clock(seconds) == text


@pytest.mark.parametrize(
    ("num_bytes", "text"), [(7, "7 bytes"), (1_500, "1.5 kB"), (41_300_000, "41 MB"), (2.5e15, "2,500.0 TB")]
)
def test_bytes(num_bytes, text):
    assert format_bytes(num_bytes) == text


def test_numbers_of_things():
    assert [format_number_of(count, "step") for count in (0, 1, 1200)] == ["0 steps", "1 step", "1,200 steps"]


def test_enumerations():
    assert enumerate_words(["a"]) == "a"
    assert enumerate_words(["a", "b"], "or") == "a or b"
    assert enumerate_words(["a", "b", "c"]) == "a, b and c"
