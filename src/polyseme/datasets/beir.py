"""Retrieval datasets: documents, queries and relevance judgements, in folders of the BEIR format (Thakur et al., 2021).

A folder has `corpus.jsonl` (`_id`, `title`, `text`), `queries.jsonl` (`_id`, `text`) and `qrels/SPLIT.tsv` with the
columns `query-id`, `corpus-id` and `score`; a document is relevant to a query if its score is positive.
"""

from collections import defaultdict
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from polyseme.corpora.file_readers import FileReader
from polyseme.datasets.records import Record
from polyseme.errors import DataError

SPLITS = ("train", "dev", "test")

_CORPUS, _QUERIES, _JUDGEMENTS = "corpus.jsonl", "queries.jsonl", "qrels"
_FORMAT = f"give a folder with {_CORPUS}, {_QUERIES} and {_JUDGEMENTS}/test.tsv"
_MISSING = "add it, or correct the id"


@dataclass(frozen=True, kw_only=True)
class RetrievalSet:
    """Documents, and queries with the documents that are relevant to them."""

    name: str
    documents: Mapping[str, str]  # by id
    queries: Mapping[str, str]
    relevance: Mapping[str, Mapping[str, float]]  # by query, the positive scores of documents


def find_beir_folders(path: Path) -> list[Path]:
    """The folders of the BEIR format among a folder and those directly inside it, complete or not."""
    names = (_CORPUS, _QUERIES, _JUDGEMENTS)
    return [one for one in [path, *sorted(path.glob("*/"))] if any((one / name).exists() for name in names)]


def read_beir(folder: Path, *, split: str = "test") -> RetrievalSet:
    """Read the queries of a split and all documents; queries without a relevant document are omitted."""
    judgements = folder / _JUDGEMENTS / f"{split}.tsv"
    for file in (folder / _CORPUS, folder / _QUERIES, judgements):
        if not file.is_file():
            raise DataError(f"{file} does not exist; {_FORMAT}, or choose another split")
    documents, queries = _read_texts(folder / _CORPUS, ("title", "text")), _read_texts(folder / _QUERIES, ("text",))
    relevance = _read_judgements(judgements, queries, documents)
    if not relevance:
        raise DataError(f"{judgements} has no relevant documents; give at least one row with a positive score")
    return RetrievalSet(
        name=folder.name, documents=documents, queries={id: queries[id] for id in relevance}, relevance=relevance
    )


def _read_texts(file: Path, fields: tuple[str, ...]) -> dict[str, str]:
    """The texts of a file by id; the optional title is the first line of a document."""
    texts: dict[str, str] = {}
    for record in _records(file, ("_id", "text")):
        id = record.label("_id")
        if id in texts:
            raise record.error("another row has the same _id", "give each row its own", found=id)
        values = [record.values.get(field) or "" for field in fields]
        if not all(isinstance(value, str) for value in values):
            raise record.error(f"{' or '.join(fields)} is not a string", "write text")
        texts[id] = "\n".join(value.strip() for value in values if value.strip())
        if not texts[id] and file.name == _QUERIES:
            raise record.error("the query is empty", "write a text or remove the row")
    if not any(texts.values()):
        raise DataError(f"{file} holds no texts; give at least one row with _id and text")
    return texts


def _read_judgements(file: Path, queries: Container[str], documents: Container[str]) -> dict[str, Mapping[str, float]]:
    relevance: defaultdict[str, dict[str, float]] = defaultdict(dict)
    seen: set[tuple[str, str]] = set()
    for record in _records(file, ("query-id", "corpus-id", "score")):
        pair = query, document = record.label("query-id"), record.label("corpus-id")
        for id, known, source in ((query, queries, _QUERIES), (document, documents, _CORPUS)):
            if id not in known:
                raise record.error(f"an id does not occur in {source}", _MISSING, found=id)
        if pair in seen:
            raise record.error("the document is judged twice for this query", "remove one of the rows", found=document)
        seen.add(pair)
        if (score := record.number("score")) > 0:
            relevance[query][document] = score
    return dict(relevance)


def _records(file: Path, required: tuple[str, ...]) -> Iterator[Record]:
    return (Record(file, row, values, {}) for row, values in FileReader(file).records(required))
