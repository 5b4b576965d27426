"""Retrieval in a comparison: datasets from folders and from the text, rows of families and of baselines."""

import json

import numpy as np
import pytest
from tests.datasets.test_derived_retrieval import english

from polyseme.comparison.config import ComparisonConfig, EvaluationBudget
from polyseme.comparison.measure.corpus_items import WordIndex
from polyseme.comparison.measure.datasets import find_datasets
from polyseme.comparison.measure.items import build_items
from polyseme.comparison.measure.retrieval import SEARCH_BASELINES, measure_retrieval, measure_search_baseline
from polyseme.comparison.rows import parse_row

DERIVED = ["title to paragraph", "first sentence to rest", "sentence to neighbours"]


class FakeModel:
    """A model whose vectors count characters; with vectors or without."""

    def __init__(self, has_vectors=True):
        self.encoder = self
        self.has_vectors = has_vectors

    def embed(self, texts):
        return np.array([[text.count(chr(place)) for place in range(97, 123)] for text in texts], np.float32)


@pytest.fixture(scope="module")
def sets(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tasks")
    beir = folder / "retrieval" / "animals"
    (beir / "qrels").mkdir(parents=True)
    (beir / "corpus.jsonl").write_text('{"_id": "d1", "text": "bats fly"}\n{"_id": "d2", "text": "dogs bark"}\n')
    (beir / "queries.jsonl").write_text('{"_id": "q1", "text": "bark"}\n{"_id": "q2", "text": "bats"}\n')
    (beir / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td2\t1\nq2\td1\t1\n")
    documents = [("", english(number)) for number in range(60)]
    budget = EvaluationBudget.of(ComparisonConfig(corpus=("text",), budget="20s"))
    index = WordIndex.of((text for _, text in documents), most_characters=10_000)
    return build_items(documents, index, find_datasets(str(folder), seed=0).suites, budget, seed=0).retrieval


def test_datasets(sets):
    assert [one.name for one in sets] == ["animals", *DERIVED]
    assert all(len(one.documents) <= 300 and len(one.queries) <= 100 for one in sets)


def test_rows(sets):
    found = {name: measure_search_baseline(name, sets) for name in SEARCH_BASELINES}
    found["model"] = list(measure_retrieval(FakeModel(), sets))
    assert {*found} == {"bm25", "tfidf", "model"}
    for name, rows in found.items():
        for row, data in zip(rows, sets, strict=True):
            assert parse_row(json.dumps(row | {"family": name})) is not None
            assert (row["suite"], row["name"], row["scale"]) == ("retrieval", data.name, "ndcg@10")
            assert len(row["outcomes"]) == row["count"] == len(data.queries)
            assert row["value"] == pytest.approx(np.mean(row["outcomes"]), abs=1e-4)
    assert [row["value"] for row in (found["bm25"][0], found["tfidf"][0])] == [1.0, 1.0]
    assert list(measure_retrieval(FakeModel(has_vectors=False), sets)) == []
