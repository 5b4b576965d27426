"""The chart of probes: bars as high as what they stand for, and a page for any screen."""

import json
from xml.etree import ElementTree

import pytest

from browser import browsing
from polyseme.errors import DataError
from polyseme.inside.layer_worth import Trial, summarize
from polyseme.inside.probe_charts import by_layer, draw_probes, figures, probe_page, write_probes

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "</svg><script>alert(1)</script>&\"'"


def probed(model="bert", task="pos", shares=(0.1, 0.6, 0.3), scores=(0.5, 0.8, 0.7), spread=0.0, **facts):
    trials = [
        Trial(shares=shares, scale=1.5, scores=[score + shift for score in scores], uniform=0.6)
        for shift in ((-spread, spread) if spread else (0.0,))
    ]
    told = {"family": "bert", "measure": "accuracy", "num_labels": 3, "num_train": 1000, "num_items": 50}
    return summarize(trials, model=model, task=task, majority=0.25, **{**told, **facts})


def bars(root, kind):
    return [{name: float(bar.get(name)) for name in ("x", "y", "height")} for bar in root.iter(f"{SVG}rect")
            if bar.get("class") == kind]  # fmt: skip


def marks(root):
    """Where the triangles point."""
    return [float(mark.get("d")[1:].split()[0]) for mark in root.iter(f"{SVG}path") if mark.get("class") == "mark"]


def test_bars_and_marks_stand_where_they_should():
    root = ElementTree.fromstring(draw_probes([probed()]))
    weights, gains = bars(root, "bar"), bars(root, "gain")
    assert [bar["height"] / weights[1]["height"] for bar in weights] == pytest.approx([1 / 6, 1, 1 / 2], abs=0.02)
    assert gains[0]["height"] / gains[1]["height"] == pytest.approx(3, abs=0.1)
    assert gains[1]["y"] == pytest.approx(gains[0]["y"] + gains[0]["height"], abs=0.2)  # a loss hangs below
    assert [bar["x"] for bar in gains] == [bar["x"] for bar in weights[1:]]
    step = weights[1]["x"] - weights[0]["x"]
    gravity, expected = ((mark - weights[0]["x"]) / step - 0.36 for mark in marks(root))
    assert gravity == pytest.approx(1.2, abs=0.02)
    assert expected == pytest.approx((0.3 - 2 * 0.1) / 0.2, abs=0.02)


def test_tasks_and_models_on_one_sheet():
    found = [probed(model, task) for task in ("pos", "dependencies") for model in ("bert", "elmo")]
    found.append(probed("skipgram", "pos", (1.0,), (0.5,)))
    root = ElementTree.fromstring(draw_probes(found))
    places = [group.get("transform") for group in root.iter(f"{SVG}g")]
    assert len({*places}) == 5
    texts = ["".join(text.itertext()) for text in root.iter(f"{SVG}text")]
    assert texts.count("bert") == texts.count("elmo") == 2 and texts.count("pos") == texts.count("dependencies") == 1
    assert "accuracy 0.500; one layer, so there is nothing to weigh" in texts
    assert len(bars(root, "bar")) == 12


def test_models_are_drawn_to_one_scale():
    root = ElementTree.fromstring(draw_probes([probed(), probed("elmo", shares=(0.0, 0.4, 0.6))]))
    heights = [bar["height"] for bar in bars(root, "bar")]
    assert heights[1] == pytest.approx(heights[5], abs=0.1) and heights[4] == pytest.approx(heights[5] * 2 / 3, abs=0.1)


def test_no_gain_and_no_seeds():
    found = probed(scores=(0.5, 0.5, 0.4))
    assert found.expected_layer is None and figures(found)[6] == "–"
    assert len(marks(ElementTree.fromstring(draw_probes([found])))) == 1


def test_tables():
    found = probed(spread=0.01)
    assert figures(found)[:3] == ["bert", "0.700 ± 0.014", "0.600 ± 0.000"]
    assert by_layer(found)[1] == ["bert", "1", "0.600 ± 0.000", "0.800 ± 0.014", "0.300 ± 0.000"]


def test_names_stay_names():
    page = probe_page([probed(HOSTILE, HOSTILE)])
    assert "<script" not in page
    ElementTree.fromstring(draw_probes([probed(HOSTILE, HOSTILE)]))


def test_what_is_written(tmp_path):
    found = [probed(), probed("elmo")]
    written = write_probes(found, tmp_path / "new" / "charts")
    assert [path.name for path in written] == ["probe.html", "probe.svg", "probe.json"]
    assert json.loads(written[2].read_text())["probes"] == [each.describe() for each in found]
    assert [path.name for path in write_probes(found, tmp_path / "mine.html")] == ["mine.html", "mine.svg", "mine.json"]
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot be written"):
        write_probes(found, tmp_path / "file")


@pytest.mark.parametrize("width", [1280, 400])
def test_a_browser_shows_it(tmp_path, width):
    long = [1 / 25] * 25
    found = [probed(spread=0.01), probed("a-name-" * 12, shares=long, scores=[0.5 + share for share in long])]
    found.append(probed("skipgram", shares=(1.0,), scores=(0.5,)))
    page, sheet, _ = write_probes([*found, probed(task="dependencies")], tmp_path)
    with browsing(width=width, dark=width == 400) as visit:
        shown = visit.open(page)
        assert shown.locator("svg").count() == 4 and shown.locator("h2").all_inner_texts() == ["pos", "dependencies"]
        assert shown.evaluate("document.documentElement.scrollWidth") <= width
        assert shown.evaluate("getComputedStyle(document.querySelector('svg .bar')).fill") == (
            "rgb(127, 176, 255)" if width == 400 else "rgb(11, 79, 179)"
        )
        shown.locator("summary").first.press("Enter")
        assert shown.locator("details[open]").count() == 1
        visit.check()
        visit.open(sheet)
        visit.check()
