"""Retrieval: metrics by hand and by scikit-learn, BM25 by bm25s, dense search by brute force."""

import builtins
import math

import bm25s
import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import ndcg_score

from polyseme.datasets.beir import RetrievalSet
from polyseme.errors import ConfigError, DataError
from polyseme.evaluation.retrieval import evaluate_retrieval, sample_queries, score_search
from polyseme.evaluation.search import Bm25Search, DenseSearch, TfidfSearch, rank_vectors

TEXTS = [
    "The old bank by the river lends money.",
    "A bat slept in the barn; the other bat flew.",
    "She lit a match before the match began.",
    "河边的银行昨天关门了。",
    "他每天早上吃一个苹果。",
    "",
]


class FixedSearch:
    """A search that has found documents already."""

    def __init__(self, *rankings):
        self.rankings = np.array(rankings)

    def search(self, queries, *, top):
        assert len(queries) == len(self.rankings)
        return self.rankings[:, :top], np.zeros(self.rankings[:, :top].shape)


def retrieval_set(relevance, *, num_documents=20):
    return RetrievalSet(
        name="set",
        documents={f"d{number}": f"text {number}" for number in range(num_documents)},
        queries={f"q{number}": f"query {number}" for number in range(len(relevance))},
        relevance={
            f"q{number}": {f"d{one}": gain for one, gain in row.items()} for number, row in enumerate(relevance)
        },
    )


def test_metrics_by_hand():
    data = retrieval_set([{2: 1.0, 4: 2.0}, {19: 1.0}, {0: 3.0}])
    order = list(range(20))
    results = score_search(data, FixedSearch(order, order, order))
    # The first query finds gains 1 and 2 at ranks 3 and 5; the second one finds its document at rank 20.
    first = (1 / 2 + 2 / math.log2(6)) / (2 + 1 / math.log2(3))
    expected = {
        "ndcg@10": [first, 0, 1],
        "recall@10": [1, 0, 1],
        "recall@100": [1, 1, 1],
        "mrr@10": [1 / 3, 0, 1],
    }
    assert {result.metric: list(result.outcomes) for result in results} == {
        metric: pytest.approx(values) for metric, values in expected.items()
    }
    assert results[0].value == pytest.approx((first + 1) / 3) and results[0].num_items == 3
    assert results[0].standard_error == pytest.approx(np.std([first, 0, 1], ddof=1) / math.sqrt(3))


def test_ndcg_equals_scikit_learn():
    rng = np.random.default_rng(0)
    gains = rng.integers(0, 4, (30, 150)) * (rng.random((30, 150)) < 0.1)
    gains[:, 0] = 1
    scores = rng.permuted(np.tile(np.arange(150.0), (30, 1)), axis=1)
    data = retrieval_set(
        [{number: gain for number, gain in enumerate(row) if gain} for row in gains], num_documents=150
    )
    result, recall, recall_100, _ = score_search(data, FixedSearch(*np.argsort(-scores, axis=1)))
    expected = [ndcg_score(gains[[row]], scores[[row]], k=10) for row in range(30)]
    np.testing.assert_allclose(result.outcomes, expected, atol=1e-12)
    ranks = (-scores).argsort(axis=1).argsort(axis=1)
    for one, cutoff in ((recall, 10), (recall_100, 100)):
        found = ((gains > 0) & (ranks < cutoff)).sum(1) / (gains > 0).sum(1)
        np.testing.assert_allclose(one.outcomes, found)


def test_a_query_that_is_a_document_is_not_found():
    data = RetrievalSet(
        name="duplicates",
        documents={"a": "how to swim", "b": "swimming for beginners", "c": "how to cook"},
        queries={"a": "how to swim"},
        relevance={"a": {"b": 1.0}},
    )
    assert score_search(data, FixedSearch([0, 1, 2]))[0].value == 1.0


def test_bm25_equals_bm25s():
    words = [text.lower().replace(";", "").replace(".", "").split() for text in TEXTS[:3]]
    index = bm25s.BM25()
    index.index(words, show_progress=False)
    search = Bm25Search(TEXTS[:3])
    for query in ("bat", "the match", "the the bank", "Old MATCH!"):
        terms = query.lower().strip("!").split()
        expected = index.get_scores(terms)
        indices, scores = search.search([query], top=3)
        np.testing.assert_allclose(scores[0], expected[indices[0]], rtol=1e-6)
        assert list(indices[0]) == sorted(range(3), key=lambda number: -expected[number])
    assert not search.search(["unheard"], top=3)[1].any() and not search.search(["?!"], top=3)[1].any()


def test_tfidf_equals_scikit_learn():
    vectorizer = TfidfVectorizer(sublinear_tf=True, token_pattern=r"\w+")
    vectors = vectorizer.fit_transform(TEXTS[:3])
    query = "the bat and the bank"
    expected = (vectors @ vectorizer.transform([query]).T).toarray().ravel()
    indices, scores = TfidfSearch(TEXTS[:3]).search([query], top=2)
    np.testing.assert_allclose(scores[0], expected[indices[0]], atol=1e-9)
    assert list(indices[0]) == list(np.argsort(-expected)[:2])


@pytest.mark.parametrize("search", [Bm25Search, TfidfSearch])
def test_chinese_is_searched_by_characters(search):
    indices, scores = search(TEXTS).search(["银行", "吃苹果", "river bank"], top=1)
    assert list(indices[:, 0]) == [3, 4, 0] and (scores > 0).all()


@pytest.mark.parametrize("search", [Bm25Search, TfidfSearch])
def test_texts_without_words(search):
    with pytest.raises(DataError, match="no words"):
        search(["...", ""])


def test_dense_search_is_exact_over_blocks(monkeypatch):
    rng = np.random.default_rng(0)
    documents, queries = rng.normal(size=(70, 8)).astype(np.float32), rng.normal(size=(5, 8)).astype(np.float32)
    documents[10] = documents[60] = documents[3]
    documents[20] = 0
    vectors = {str(number): vector for number, vector in enumerate(documents)}
    vectors |= {f"q{number}": vector for number, vector in enumerate(queries)}
    sizes = []

    def embed(texts):
        sizes.append(len(texts))
        return np.stack([vectors[text] for text in texts])

    monkeypatch.setattr("polyseme.evaluation.search._BLOCK", 16)
    found, scores = DenseSearch(embed, [str(number) for number in range(70)]).search(
        [f"q{n}" for n in range(5)], top=12
    )
    assert max(sizes) == 16
    units = documents / np.maximum(np.linalg.norm(documents, axis=1, keepdims=True), 1e-12)
    cosines = (queries / np.linalg.norm(queries, axis=1, keepdims=True)) @ units.T
    np.testing.assert_array_equal(found, np.argsort(-cosines.round(6), axis=1, kind="stable")[:, :12])
    np.testing.assert_allclose(scores, np.take_along_axis(cosines, found, axis=1), atol=1e-6)
    everything, _ = rank_vectors(queries, [documents[:30], documents[30:]], top=100)
    assert (np.sort(everything, axis=1) == np.arange(70)).all()


def test_bm25_is_evaluated_beside_the_model():
    data = RetrievalSet(
        name="set",
        documents={f"d{number}": text for number, text in enumerate(TEXTS)},
        queries={"q1": "bat barn", "q2": "money from a bank", "q3": "苹果"},
        relevance={"q1": {"d1": 1.0}, "q2": {"d0": 1.0}, "q3": {"d4": 1.0}},
    )
    results = evaluate_retrieval(lambda texts: np.ones((len(texts), 2), np.float32), data)
    sections = [(result.section, result.metric) for result in results]
    assert len(sections) == 9 and sections[0] == ("", "ndcg@10") and sections[4] == ("bm25", "ndcg@10")
    assert results[4].value == 1.0 and results[0].value < 1.0
    assert results[8].section == "difference from bm25"
    assert results[8].value == pytest.approx(results[0].value - 1.0)


def test_sampling_queries():
    data = retrieval_set([{0: 1.0}] * 9)
    sample = sample_queries(data, 4, seed=0)
    assert len(sample.queries) == 4 and sample.documents == data.documents
    assert sample == sample_queries(data, 4, seed=0) != sample_queries(data, 4, seed=1)
    assert sample_queries(data, 0, seed=0) is sample_queries(data, 9, seed=0) is data


def test_without_bm25s(monkeypatch):
    original = builtins.__import__

    def refuse(name, *arguments, **options):
        if name == "bm25s":
            raise ImportError(name)
        return original(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(ConfigError, match=r"pip install 'polyseme\[search\]'"):
        Bm25Search(TEXTS)
