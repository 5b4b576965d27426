"""Search for a person: the passages of a corpus that fit a query best, by the vectors of a model or by BM25."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from polyseme.arrays import Floats
from polyseme.datasets.derived_retrieval import split_passages
from polyseme.datasets.splits import open_by_language
from polyseme.evaluation.search import Bm25Search, Ranking, embed_blocks, rank_vectors
from polyseme.inference.model import LoadedModel
from polyseme.system.cache import load_or_build

_VECTORS = "vectors.npy"
_BLOCK = 1 << 14  # vectors read at a time


@dataclass(frozen=True, kw_only=True)
class SearchResult:
    """A passage, and its score: a cosine, or that of BM25."""

    text: str
    score: float


def read_passages(corpus: str | Path | Sequence[str], *, whole_documents: bool = False) -> list[str]:
    """The texts to search: the passages of the documents of a corpus, whole documents, or a list of texts as it is."""
    if not isinstance(corpus, str | Path):
        return list(corpus)
    corpora = open_by_language((str(corpus),), "text")
    documents = (document for one in corpora.values() for document in one)
    return list(documents) if whole_documents else [text for one in documents for text in split_passages(one)]


def search_bm25(queries: Sequence[str], texts: Sequence[str], *, top: int) -> list[list[SearchResult]]:
    """The best texts for each query by BM25."""
    return _to_results(Bm25Search(texts).search(queries, top=top), texts)


def search_vectors(
    model: LoadedModel, queries: Sequence[str], texts: Sequence[str], *, top: int
) -> list[list[SearchResult]]:
    """The best texts for each query by the cosine of their vectors, which are cached on disk."""
    vectors = _load_vectors(model, texts)
    blocks = (vectors[start : start + _BLOCK] for start in range(0, len(texts), _BLOCK))
    return _to_results(rank_vectors(model.embed(queries), blocks, top=top), texts)


def _to_results(ranking: Ranking, texts: Sequence[str]) -> list[list[SearchResult]]:
    return [
        [SearchResult(text=texts[number], score=score) for number, score in zip(numbers, scores, strict=True)]
        for numbers, scores in zip(*(part.tolist() for part in ranking), strict=True)
    ]


def _load_vectors(model: LoadedModel, texts: Sequence[str]) -> Floats:
    """The vectors of texts, from the cache if the same model has embedded the same texts before."""

    def build(folder: Path) -> None:
        vectors: Floats | None = None
        for start, block in embed_blocks(model.embed, texts):
            if vectors is None:
                shape = len(texts), block.shape[1]
                vectors = np.lib.format.open_memmap(folder / _VECTORS, mode="w+", dtype=np.float32, shape=shape)
            vectors[start : start + len(block)] = block

    def load(folder: Path) -> Floats:
        vectors: Floats = np.load(folder / _VECTORS, mmap_mode="r")
        return vectors

    digest = hashlib.sha256()
    for part in (*_model_content(model), *(text.encode("utf-8", "surrogatepass") + b"\0" for text in texts)):
        digest.update(part)
    return load_or_build("vectors", digest.hexdigest(), load=load, build=build)


def _model_content(model: LoadedModel) -> Iterator[bytes]:
    """What the vectors of a model depend on: its vocabulary and weights."""
    tokenizer = model.require_tokenizer()
    yield repr((model.family, tokenizer.config, sorted(tokenizer.backend.get_vocab().items()))).encode()
    for weight in model.encoder.state_dict().values():
        yield weight.detach().cpu().reshape(-1).contiguous().view(torch.uint8).numpy().tobytes()
