"""Retrieval with the vectors of a family, and by the terms of a baseline, on the same documents and queries."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from polyseme.comparison.measure.intrinsic import metric_row
from polyseme.comparison.rows import Row
from polyseme.datasets.beir import RetrievalSet
from polyseme.evaluation.retrieval import score_search
from polyseme.evaluation.search import Bm25Search, DenseSearch, Searcher, TfidfSearch
from polyseme.pretrained import Pretrained

SEARCH_BASELINES: Mapping[str, Callable[[Sequence[str]], Searcher]] = {"bm25": Bm25Search, "tfidf": TfidfSearch}


def measure_retrieval(model: Pretrained, sets: Iterable[RetrievalSet]) -> Iterator[Row]:
    """nDCG@10 of exact search by the cosine of vectors."""
    if model.encoder.has_vectors:
        yield from _rows(sets, lambda documents: DenseSearch(model.embed, documents))


def measure_search_baseline(name: str, sets: Iterable[RetrievalSet]) -> list[Row]:
    """nDCG@10 of a baseline, and the time to index 1,000 documents."""
    seconds: list[float] = []

    def build(documents: Sequence[str]) -> Searcher:
        started = time.perf_counter()
        searcher = SEARCH_BASELINES[name](documents)
        seconds.append((time.perf_counter() - started) * 1000 / max(1, len(documents)))
        return searcher

    rows = list(_rows(sets, build))
    return [row | {"inference_seconds": round(cost, 6)} for row, cost in zip(rows, seconds, strict=True)]


def _rows(sets: Iterable[RetrievalSet], build: Callable[[Sequence[str]], Searcher]) -> Iterator[Row]:
    for data in sets:
        main, *_ = score_search(data, build(list(data.documents.values())))
        yield metric_row("retrieval", data.name, main, scale=main.metric)
