"""The results log keeps completed and undamaged stages, and its rows have closed schemas."""

import json

import pytest

from polyseme.comparison.config import TrainingRun
from polyseme.comparison.results import RESULTS, ResultsLog, read_rows
from polyseme.comparison.rows import parse_row

BERT = TrainingRun("bert")
FAMILY = {"row": "family", "family": "bert", "context": "both"}


def metric(name="wordsim", **fields):
    return {"row": "metric", "family": "bert", "suite": "words", "name": name, "value": 0.5, **fields}


def kinds(folder):
    return [row["row"] for row in read_rows(folder)]


@pytest.fixture
def written(tmp_path):
    results = ResultsLog(tmp_path)
    results.add("comparison", [{"row": "comparison", "budget": "5m"}])
    results.add("training", [FAMILY], run=BERT)
    results.add("word similarity", [metric("a"), metric("b")], run=BERT)
    results.add("word senses", [metric("c", layer=1)], run=BERT)
    assert not any("failure" in kind for kind in kinds(tmp_path))
    return tmp_path


def test_rows_behind_the_last_completed_stage_are_dropped(tmp_path, caplog):
    results = ResultsLog(tmp_path)
    results.add("comparison", [{"row": "comparison", "budget": "5m"}])
    results.add("word similarity", [metric()], run=BERT)
    with (tmp_path / RESULTS).open("a") as file:
        file.write(f'{json.dumps(metric(value=0.7))}\n{{"row": "met')
    again = ResultsLog(tmp_path)
    assert again.done == {(None, "comparison"), (BERT, "word similarity")} and not caplog.records
    assert kinds(tmp_path) == ["comparison", "done", "metric", "done"]
    assert again.find("metric", family="bert")["value"] == 0.5 and again.find("metric", family="gpt") is None


def test_failed_stages_are_retried(tmp_path):
    results = ResultsLog(tmp_path)
    failure = {"row": "failure", "family": "elmo", "stage": "training"}
    results.add("training", [failure], run=TrainingRun("elmo"), failed=True)
    results.add("training", [FAMILY], run=BERT)
    assert results.done == {(BERT, "training")}
    assert kinds(tmp_path) == ["failure", "done", "family", "done"]
    assert ResultsLog(tmp_path).done == {(BERT, "training")}
    assert kinds(tmp_path) == ["family", "done"]


EVERY = {(None, "comparison"), (BERT, "training"), (BERT, "word similarity"), (BERT, "word senses")}
SIMILARITY = {(BERT, "word similarity")}
DAMAGE = {
    # What is replaced in the file, by what, and the stages that are lost.
    "changed value": ('"name": "a", "value": 0.5', '"name": "a", "value": 0.6', SIMILARITY),
    "value of another type": ('"name": "a", "value": 0.5', '"name": "a", "value": "high"', SIMILARITY),
    "missing field": ('"suite": "words", "name": "a", ', "", SIMILARITY),
    "unknown field": ('"name": "a"', '"name": "a", "nmae": "a"', SIMILARITY),
    "lone surrogate": ('"name": "a"', '"name": "\\ud800"', SIMILARITY),
    "unhashable family": ('"bert", "training": 0, "cont', '["bert"], "training": 0, "cont', {(BERT, "training")}),
    "missing context": (', "context": "both"', "", {(BERT, "training")}),
    "not JSON": ('"name": "a"', '"name": a', SIMILARITY),
    "NaN": ('"layer": 1', '"layer": NaN', {(BERT, "word senses")}),
    "missing stage": ('"stage": "training", ', "", {(BERT, "training"), *SIMILARITY}),
    "another stage": ('"stage": "training", ', '"stage": "neighbours", ', {(BERT, "training")}),
    "wrong checksum": ('"sha256": "', '"sha256": "0', EVERY),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_damaged_stages_are_repeated(written, case, caplog):
    before, after, lost = DAMAGE[case]
    path = written / RESULTS
    whole = path.read_text()
    assert before in whole
    path.write_text(whole.replace(before, after))
    results = ResultsLog(written)
    assert results.done == EVERY - lost and "affected stages are repeated" in caplog.text
    for row in read_rows(written):  # what is left is intact
        assert json.dumps(row, ensure_ascii=False) in whole
    caplog.clear()
    assert ResultsLog(written).done == EVERY - lost and not caplog.records


def test_intact_results_are_not_changed(written, caplog):
    before = (written / RESULTS).read_bytes()
    assert ResultsLog(written).done == EVERY and (written / RESULTS).read_bytes() == before and not caplog.records


def test_missing_values_are_omitted_and_numbers_rounded(tmp_path):
    row = {"row": "metric", "value": 1 / 3, "error": None, "layers": [0.1, 0.123456789123], "bad": float("nan")}
    ResultsLog(tmp_path).add("word similarity", [row])
    first = json.loads((tmp_path / RESULTS).read_text().splitlines()[0])
    assert first == {"row": "metric", "value": 0.33333333, "layers": [0.1, 0.12345679]}


def test_lone_surrogates_are_replaced(tmp_path):
    ResultsLog(tmp_path).add("training", [FAMILY | {"directory": "runs/\udcff"}], run=BERT)
    assert read_rows(tmp_path)[0]["directory"] == "runs/?"


def test_later_rows_replace_earlier_ones_with_the_same_key(tmp_path):
    results = ResultsLog(tmp_path)
    for value in (1, 2):
        results.add("word similarity", [metric(name, value=value) for name in "ab"], run=BERT)
    assert [row["value"] for row in read_rows(tmp_path) if row["row"] == "metric"] == [2, 2]


@pytest.mark.parametrize("line", ["", "[]", "3", '{"row": []}', '{"row": "task"', '{"row": "other"}', "[" * 100_000])
def test_malformed_lines_are_no_rows(line):
    assert parse_row(line) is None


TASK = {"row": "task", "family": "bert", "task": "topics", "kind": "classify", "metric": "accuracy"}
PARTS = {
    # A valid row, and changes that make it invalid.
    "pairs": ({"row": "neighbours", "family": "bert", "word": "a", "neighbours": [["b", 0.5]]},
              [{"neighbours": part} for part in ([["b"]], [["b", "c"]], [[0.5, "b"]], ["bc"])]),
    "points": ({"row": "sense_map", "family": "bert", "word": "a", "layer": 1, "points": [[0, 0.5, "a b", 0, 1, 0]]},
               [{"points": [point]} for point in ([], [0, 0.5, "a b", 0, 1], [0, 0.5, "a b", -1, 1, 0])]),
    "task": ({**TASK, "method": "linear_probe", "num_labels": 9, "values": [0.5]},
             [{"values": []}, {"values": [1e300]}, {"num_labels": 0}, {"method": "guess"}]),
    "metric": (metric(), [{"value": 1e300}, {"value": 10**400}]),
}  # fmt: skip


@pytest.mark.parametrize("case", PARTS)
def test_parts_of_rows_are_validated(case):
    row, changes = PARTS[case]
    assert parse_row(json.dumps(row)) == row
    for change in changes:
        assert parse_row(json.dumps({**row, **change})) is None, change
