"""Retrieval datasets derived from text without labels, and the passages into which text is split for search.

A title is a query for the paragraph below it, the first sentence of a passage for its other sentences, and a sentence
for its neighbours, as in the inverse cloze task (Lee et al., 2019). No document contains the text of a query.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice, pairwise
from random import Random

from polyseme.corpora.scripts import is_chinese
from polyseme.corpora.sentence_splitting import split_sentences
from polyseme.datasets.beir import RetrievalSet

# In characters; Chinese text of the same content has about a third of them.
_PASSAGE = 600
_MAX_TITLE, _MIN_BODY = 90, 120
_MIN_SENTENCE, _MAX_SENTENCE = 30, 300
_CHINESE_DENSITY = 3

_MIN_QUERIES = 20

Candidate = tuple[str, list[str], list[str]]  # a query, the documents relevant to it, and others from the same passage


def split_passages(document: str) -> Iterator[str]:
    """Split a document into passages of whole sentences, which end at a line break where there is one."""
    passage, longest = "", _PASSAGE // _density(document)
    for sentence in split_sentences(document):
        at_line_break = sentence.startswith("\n") and len(passage) > longest / 2
        if passage.strip() and (at_line_break or len(passage) + len(sentence) > longest):
            yield passage.strip()
            passage = ""
        passage += sentence
    if passage.strip():
        yield passage.strip()


def derive_retrieval_sets(
    documents: Iterable[str], *, most_queries: int, most_documents: int, seed: int
) -> list[RetrievalSet]:
    """Derive a dataset by each method; the sample of queries and documents depends on the seed."""
    documents = list(documents)
    derived = []
    for name, find_candidates in _METHODS.items():
        candidates = [candidate for document in documents for candidate in find_candidates(document)]
        Random(f"{name} {seed}").shuffle(candidates)
        derived.append(_build_set(name, candidates, most_queries, most_documents))
    return [one for one in derived if len(one.queries) >= _MIN_QUERIES]


def _build_set(name: str, candidates: Sequence[Candidate], most_queries: int, most_documents: int) -> RetrievalSet:
    ids: dict[str, str] = {}  # of documents by text, so that equal ones are a single document
    selected = []
    for candidate in candidates:
        _, relevant, others = candidate
        if len(ids) + len(relevant) + len(others) > most_documents:
            break
        selected.append(candidate)
        for text in (*relevant, *others):
            ids.setdefault(text, f"d{len(ids)}")
    all_text, counts = "\n".join(ids), Counter(query for query, _, _ in selected)
    suitable = (one for one in selected if counts[one[0]] == 1 and one[0] not in all_text)
    queries, relevance = {}, {}
    for number, (query, relevant, _) in enumerate(islice(suitable, most_queries)):
        queries[f"q{number}"] = query
        relevance[f"q{number}"] = {ids[text]: 1.0 for text in relevant}
    documents = {id: text for text, id in ids.items()}
    return RetrievalSet(name=name, documents=documents, queries=queries, relevance=relevance)


def _titles(document: str) -> Iterator[Candidate]:
    """Short lines above a paragraph that is a single line."""
    lines, density = [line.strip() for line in document.split("\n") if line.strip()], _density(document)
    for title, body in pairwise(lines):
        if len(title) <= _MAX_TITLE / density and len(body) >= _MIN_BODY / density:
            yield title, [next(split_passages(body))], []


def _first_sentences(document: str) -> Iterator[Candidate]:
    space = "" if is_chinese(document) else " "
    for sentences in _passages_of_sentences(document):
        if len(sentences) > 1:
            yield sentences[0], [space.join(sentences[1:])], []


def _neighbours(document: str) -> Iterator[Candidate]:
    """The middle sentence of each passage, those next to it and the other ones."""
    for sentences in _passages_of_sentences(document):
        if len(sentences) > 2:
            middle = len(sentences) // 2
            yield (
                sentences[middle],
                [sentences[middle - 1], sentences[middle + 1]],
                (sentences[: middle - 1] + sentences[middle + 2 :]),
            )


_METHODS: dict[str, Callable[[str], Iterator[Candidate]]] = {
    "title to paragraph": _titles,
    "first sentence to rest": _first_sentences,
    "sentence to neighbours": _neighbours,
}


def _passages_of_sentences(document: str) -> Iterator[list[str]]:
    """The sentences of each passage, without headings and overlong ones."""
    density = _density(document)
    for passage in split_passages(document):
        sentences = (sentence.strip() for sentence in split_sentences(passage))
        yield [one for one in sentences if _MIN_SENTENCE <= len(one) * density <= _MAX_SENTENCE]


def _density(text: str) -> int:
    return _CHINESE_DENSITY if is_chinese(text) else 1
