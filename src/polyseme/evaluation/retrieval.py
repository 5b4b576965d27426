"""Retrieval: whether the documents that are relevant to a query are ranked first (BEIR; Thakur et al., 2021).

nDCG@10 with the judgements as linear gains (as trec_eval), recall@10 and @100, and MRR@10; standard errors are over
queries. BM25 is evaluated beside every model.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np

from polyseme.arrays import Doubles
from polyseme.corpora.corpus import Corpus
from polyseme.datasets.beir import RetrievalSet, find_beir_folders, read_beir
from polyseme.datasets.derived_retrieval import derive_retrieval_sets
from polyseme.errors import DataError
from polyseme.evaluation.results import MetricResult, mean_result
from polyseme.evaluation.search import Bm25Search, DenseSearch, Embed, Searcher

MAIN_METRIC = "ndcg@10"
BASELINE = "bm25"

_TOP, _DEPTH = 10, 100
_MOST_DERIVED_QUERIES, _MOST_DERIVED_DOCUMENTS = 1000, 20_000


def read_retrieval_sets(path: Path, *, split: str = "test", most: int = 0, seed: int = 0) -> list[RetrievalSet]:
    """The datasets of folders of the BEIR format, or those derived from text; `most` queries of each (0: all)."""
    folders = find_beir_folders(path)
    if folders:
        return [sample_queries(read_beir(folder, split=split), most, seed) for folder in folders]
    derived = derive_retrieval_sets(
        Corpus(path), most_queries=most or _MOST_DERIVED_QUERIES, most_documents=_MOST_DERIVED_DOCUMENTS, seed=seed
    )
    if not derived:
        raise DataError(f"{path} has too little text to derive queries; give more, or a folder of the BEIR format")
    return derived


def sample_queries(data: RetrievalSet, most: int, seed: int) -> RetrievalSet:
    """A dataset with at most a number of queries (0: all), and all documents."""
    if not 0 < most < len(data.queries):
        return data
    chosen = Random(f"{data.name} {seed}").sample(sorted(data.queries), most)
    return replace(data, queries={id: data.queries[id] for id in chosen})


def evaluate_retrieval(embed: Embed, data: RetrievalSet) -> list[MetricResult]:
    """The metrics of a model, those of BM25, and the difference."""
    documents = list(data.documents.values())
    results = score_search(data, DenseSearch(embed, documents))
    baseline = score_search(data, Bm25Search(documents), section=BASELINE)
    outcomes, of_baseline = (np.array(one[0].outcomes, np.float64) for one in (results, baseline))
    section = f"difference from {BASELINE}"
    difference = mean_result(
        data.name, (outcomes - of_baseline).tolist(), metric=MAIN_METRIC, num_items=len(outcomes), section=section
    )
    return [*results, *baseline, difference]


def score_search(data: RetrievalSet, searcher: Searcher, *, section: str = "") -> list[MetricResult]:
    """All metrics of a search, the main one first; the outcomes are those of the queries."""
    numbers, _ = searcher.search(list(data.queries.values()), top=_DEPTH + 1)
    ids = list(data.documents)
    rows = [
        _score_query(query, [ids[number] for number in row], data)
        for query, row in zip(data.queries, numbers, strict=True)
    ]
    return [
        mean_result(data.name, [row[metric] for row in rows], metric=metric, num_items=len(rows), section=section)
        for metric in rows[0]
    ]


def _score_query(query: str, ranked: Sequence[str], data: RetrievalSet) -> dict[str, float]:
    relevance = data.relevance[query]
    # In datasets of duplicates (ArguAna, Quora), queries are documents too, under the same id.
    text = data.queries[query]
    ranked = [id for id in ranked if id != query or id in relevance or text not in data.documents[id]][:_DEPTH]
    gains = np.array([relevance.get(id, 0.0) for id in ranked])
    ideal = np.array(sorted(relevance.values(), reverse=True))
    first = np.flatnonzero(gains[:_TOP])[:1]
    return {
        MAIN_METRIC: _dcg(gains) / _dcg(ideal),
        f"recall@{_TOP}": np.count_nonzero(gains[:_TOP]) / len(ideal),
        f"recall@{_DEPTH}": np.count_nonzero(gains) / len(ideal),
        f"mrr@{_TOP}": float(1 / (first[0] + 1)) if len(first) else 0.0,
    }


def _dcg(gains: Doubles) -> float:
    """Discounted cumulative gain (Järvelin and Kekäläinen, 2002) of the first ranks."""
    top = gains[:_TOP]
    return float((top / np.log2(np.arange(2, len(top) + 2))).sum())
