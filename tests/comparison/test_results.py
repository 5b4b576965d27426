"""The results log keeps completed stages."""

import json

from polyseme.comparison.results import RESULTS, ResultsLog, read_rows


def test_rows_behind_the_last_completed_stage_are_dropped(tmp_path):
    results = ResultsLog(tmp_path)
    results.add("comparison", [{"row": "comparison", "budget": "5m"}])
    results.add("word similarity", [{"row": "metric", "family": "bert", "value": 0.5}], family="bert")
    with (tmp_path / RESULTS).open("a") as file:
        file.write('{"row": "metric", "family": "bert", "value": 0.7}\n{"row": "met')
    again = ResultsLog(tmp_path)
    assert again.done == {("", "comparison"), ("bert", "word similarity")}
    assert [row["row"] for row in read_rows(tmp_path)] == ["comparison", "done", "metric", "done"]
    assert again.find("metric", family="bert")["value"] == 0.5 and again.find("metric", family="gpt") is None


def test_failed_stages_are_retried(tmp_path):
    results = ResultsLog(tmp_path)
    failure = {"row": "failure", "family": "elmo", "stage": "training"}
    results.add("training", [failure], family="elmo", failed=True)
    results.add("training", [{"row": "family", "family": "bert"}], family="bert")
    assert results.done == {("bert", "training")}
    assert [row["row"] for row in read_rows(tmp_path)] == ["failure", "done", "family", "done"]
    assert ResultsLog(tmp_path).done == {("bert", "training")}
    assert [row["row"] for row in read_rows(tmp_path)] == ["family", "done"]


def test_missing_values_are_omitted_and_numbers_rounded(tmp_path):
    row = {"row": "metric", "value": 1 / 3, "error": None, "layers": [0.1, 0.123456789123], "bad": float("nan")}
    ResultsLog(tmp_path).add("word similarity", [row])
    first = json.loads((tmp_path / RESULTS).read_text().splitlines()[0])
    assert first == {"row": "metric", "value": 0.33333333, "layers": [0.1, 0.12345679]}


def test_later_rows_replace_earlier_ones_with_the_same_key(tmp_path):
    results = ResultsLog(tmp_path)
    for value in (1, 2):
        rows = [{"row": "metric", "family": "bert", "suite": "words", "name": name, "value": value} for name in "ab"]
        results.add("word similarity", rows, family="bert")
    assert [row["value"] for row in read_rows(tmp_path) if row["row"] == "metric"] == [2, 2]
