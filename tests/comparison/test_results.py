"""Rows are kept piece of work by piece of work."""

import json

from polyseme.comparison.results import RESULTS, Results, read_rows


def test_what_was_not_finished_comes_again(tmp_path):
    results = Results(tmp_path)
    results.add("comparison", [{"row": "comparison", "budget": "5m"}])
    results.add("words", [{"row": "figure", "family": "bert", "value": 0.5}], family="bert")
    with (tmp_path / RESULTS).open("a") as file:
        file.write('{"row": "figure", "family": "bert", "value": 0.7}\n{"row": "fig')
    again = Results(tmp_path)
    assert again.done == {("", "comparison"), ("bert", "words")}
    assert [row["row"] for row in read_rows(tmp_path)] == ["comparison", "done", "figure", "done"]
    assert again.find("figure", family="bert")["value"] == 0.5 and again.find("figure", family="gpt") is None


def test_what_failed_is_tried_again(tmp_path):
    results = Results(tmp_path)
    results.add("training", [{"row": "failure", "family": "elmo"}], family="elmo", failed=True)
    results.add("training", [{"row": "family", "family": "bert"}], family="bert")
    assert results.done == {("bert", "training")}
    assert [row["row"] for row in read_rows(tmp_path)] == ["failure", "done", "family", "done"]
    assert Results(tmp_path).done == {("bert", "training")}
    assert [row["row"] for row in read_rows(tmp_path)] == ["family", "done"]


def test_nothing_stands_for_what_cannot_be_had(tmp_path):
    row = {"row": "figure", "value": 1 / 3, "error": None, "layers": [0.1, 0.123456789123], "bad": float("nan")}
    Results(tmp_path).add("words", [row])
    first = json.loads((tmp_path / RESULTS).read_text().splitlines()[0])
    assert first == {"row": "figure", "value": 0.33333333, "layers": [0.1, 0.12345679]}


def test_the_last_of_two_rows_counts(tmp_path):
    results = Results(tmp_path)
    for value in (1, 2):
        rows = [{"row": "figure", "family": "bert", "measure": "words", "name": name, "value": value} for name in "ab"]
        results.add("words", rows, family="bert")
    assert [row["value"] for row in read_rows(tmp_path) if row["row"] == "figure"] == [2, 2]
