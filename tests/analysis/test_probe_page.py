"""Charts and page of probing results."""

import json
from xml.etree import ElementTree

import pytest
from tests.browser import browsing

from polyseme.analysis.probe_page import layer_rows, metric_row, probe_page, probes_svg, write_probe_files
from polyseme.analysis.probing import SeedResult, summarize
from polyseme.errors import DataError

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "</svg><script>alert(1)</script>&\"'"


def result_of(model="bert", task="pos", weights=(0.1, 0.6, 0.3), scores=(0.5, 0.8, 0.7), deviation=0.0):
    results = [
        SeedResult(layer_weights=weights, scale=1.5, scores=[score + shift for score in scores], uniform_score=0.6)
        for shift in ((-deviation, deviation) if deviation else (0.0,))
    ]
    fields = {"family": "bert", "metric": "accuracy", "num_labels": 3, "num_train": 1000, "num_dev": 50}
    return summarize(results, model=model, task=task, majority_baseline=0.25, **fields)


def bars(root, kind):
    return [{name: float(bar.get(name)) for name in ("x", "y", "height")} for bar in root.iter(f"{SVG}rect")
            if bar.get("class") == kind]  # fmt: skip


def markers(root):
    """The x coordinates of the triangles."""
    return [float(path.get("d")[1:].split()[0]) for path in root.iter(f"{SVG}path") if path.get("class") == "mark"]


def test_bars_and_markers():
    root = ElementTree.fromstring(probes_svg([result_of()]))
    weights, gains = bars(root, "bar"), bars(root, "gain")
    assert [bar["height"] / weights[1]["height"] for bar in weights] == pytest.approx([1 / 6, 1, 1 / 2], abs=0.02)
    assert gains[0]["height"] / gains[1]["height"] == pytest.approx(3, abs=0.1)
    assert gains[1]["y"] == pytest.approx(gains[0]["y"] + gains[0]["height"], abs=0.2)  # a negative gain is below zero
    assert [bar["x"] for bar in gains] == [bar["x"] for bar in weights[1:]]
    step = weights[1]["x"] - weights[0]["x"]
    gravity, expected = ((marker - weights[0]["x"]) / step - 0.36 for marker in markers(root))
    assert gravity == pytest.approx(1.2, abs=0.02)
    assert expected == pytest.approx((0.3 - 2 * 0.1) / 0.2, abs=0.02)


def test_grid_of_tasks_and_models():
    results = [result_of(model, task) for task in ("pos", "dependencies") for model in ("bert", "elmo")]
    results.append(result_of("skipgram", "pos", (1.0,), (0.5,)))
    root = ElementTree.fromstring(probes_svg(results))
    places = [group.get("transform") for group in root.iter(f"{SVG}g")]
    assert len({*places}) == 5
    texts = ["".join(text.itertext()) for text in root.iter(f"{SVG}text")]
    assert texts.count("bert") == texts.count("elmo") == 2 and texts.count("pos") == texts.count("dependencies") == 1
    assert "accuracy 0.500; a single layer" in texts
    assert len(bars(root, "bar")) == 12


def test_models_share_a_scale():
    root = ElementTree.fromstring(probes_svg([result_of(), result_of("elmo", weights=(0.0, 0.4, 0.6))]))
    heights = [bar["height"] for bar in bars(root, "bar")]
    assert heights[1] == pytest.approx(heights[5], abs=0.1) and heights[4] == pytest.approx(heights[5] * 2 / 3, abs=0.1)


def test_result_without_gains():
    results = result_of(scores=(0.5, 0.5, 0.4))
    assert results.expected_layer is None and metric_row(results)[6] == "–"
    assert len(markers(ElementTree.fromstring(probes_svg([results])))) == 1


def test_tables():
    results = result_of(deviation=0.01)
    assert metric_row(results)[:3] == ["bert", "0.700 ± 0.014", "0.600 ± 0.000"]
    assert layer_rows(results)[1] == ["bert", "1", "0.600 ± 0.000", "0.800 ± 0.014", "0.300 ± 0.000"]


def test_names_are_escaped():
    page = probe_page([result_of(HOSTILE, HOSTILE)])
    assert "<script" not in page
    ElementTree.fromstring(probes_svg([result_of(HOSTILE, HOSTILE)]))


def test_written_files(tmp_path):
    results = [result_of(), result_of("elmo")]
    files = write_probe_files(results, tmp_path / "new" / "charts")
    assert [path.name for path in files] == ["probe.html", "probe.svg", "probe.json"]
    assert json.loads(files[2].read_text())["probes"] == [each.describe() for each in results]
    assert [path.name for path in write_probe_files(results, tmp_path / "mine.html")] == [
        "mine.html",
        "mine.svg",
        "mine.json",
    ]
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot be written"):
        write_probe_files(results, tmp_path / "file")


@pytest.mark.parametrize("width", [1280, 400])
def test_page_in_a_browser(tmp_path, width):
    long = [1 / 25] * 25
    results = [
        result_of(deviation=0.01),
        result_of("a-name-" * 12, weights=long, scores=[0.5 + share for share in long]),
    ]
    results.append(result_of("skipgram", weights=(1.0,), scores=(0.5,)))
    page, sheet, _ = write_probe_files([*results, result_of(task="dependencies")], tmp_path)
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
