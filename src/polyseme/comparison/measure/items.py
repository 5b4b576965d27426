"""The evaluation items of a comparison: sampled once, from the text and the seed, and shared by all families."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import cycle, islice
from pathlib import Path
from random import Random

from polyseme.comparison.config import EvaluationBudget
from polyseme.comparison.measure.corpus_items import PseudoWord, WordIndex, make_pseudo_words, word_forms, word_order
from polyseme.corpora.sentence_splitting import split_sentences
from polyseme.datasets.beir import RetrievalSet
from polyseme.datasets.derived_retrieval import derive_retrieval_sets
from polyseme.evaluation.minimal_pairs import PairSet, read_pairs, sample_pairs
from polyseme.evaluation.retrieval import read_retrieval_sets
from polyseme.evaluation.word_similarity import WordSet, read_sets

_MAX_DOCUMENT = 600  # characters of a document that are scored
_MIN_TEXT = 100  # characters
_NUM_SENTENCES = 1000  # to embed
_NUM_FREQUENT_WORDS, _NUM_PROMPTS = 6, 3
_MIN_PAIRS = 5  # of each set of minimal pairs
_SEARCHED_CHARACTERS = 2_000_000  # of the text that queries are derived from


@dataclass(frozen=True, kw_only=True)
class EvaluationItems:
    """Everything that each family is evaluated on, except labelled datasets."""

    texts: list[tuple[str, str]]  # (language, text) to score
    sentences: list[str]  # to embed, repeated if there are too few
    minimal_pairs: list[tuple[str, list[PairSet]]]  # by name
    words: list[WordSet]
    pseudo_words: list[PseudoWord]
    senses: list[Path]  # folders
    retrieval: list[RetrievalSet]
    prompts: list[str]
    masked_sentences: list[str]
    frequent_words: list[str]  # whose neighbours are shown

    @property
    def sha256(self) -> str:
        """A checksum of the scored texts."""
        return hashlib.sha256("\0".join(text for _, text in self.texts).encode("utf-8", "surrogatepass")).hexdigest()

    @property
    def num_characters(self) -> int:
        """Characters of the scored texts."""
        return sum(len(text) for _, text in self.texts)


def build_items(
    documents: Sequence[tuple[str, str]],
    index: WordIndex,
    suites: Mapping[str, Sequence[Path]],
    budget: EvaluationBudget,
    *,
    seed: int,
) -> EvaluationItems:
    """Sample items from the (language, text) documents, and read the given evaluation suites."""
    frequent = index.content_words(min_count=5, most=_NUM_FREQUENT_WORDS, bursty=True)
    frequent += index.content_words(min_count=5, most=_NUM_FREQUENT_WORDS - len(frequent))
    prompts, masked = sample_prompts(index, frequent, seed=seed)
    order, forms = word_order(index, most=budget.num_word_order_pairs, seed=seed), word_forms(index, seed=seed)
    most = 2 * budget.num_word_order_pairs
    pairs = [_read_minimal_pairs(folder, most=most, seed=seed) for folder in suites.get("minimal-pairs", ())]
    words = [one for folder in suites.get("words", ()) for one in _read_word_sets(folder)]
    return EvaluationItems(
        texts=sample_texts(documents, most=budget.scored_characters),
        sentences=list(islice(cycle(sentence.text for sentence in index.sentences), _NUM_SENTENCES)),
        minimal_pairs=[*pairs, *([("word order", [order])] if order else ())],
        words=[*words, *([forms] if forms else ())],
        pseudo_words=make_pseudo_words(index, most=budget.num_pseudo_words, seed=seed),
        senses=list(suites.get("senses", ())),
        retrieval=_build_retrieval_sets(documents, suites.get("retrieval", ()), budget, seed=seed),
        prompts=prompts,
        masked_sentences=masked,
        frequent_words=frequent,
    )


def sample_texts(documents: Iterable[tuple[str, str]], *, most: int) -> list[tuple[str, str]]:
    """Whole sentences from the starts of documents, the same number of characters per language."""
    by_language: dict[str, list[str]] = {}
    for language, document in documents:
        by_language.setdefault(language, []).append(document)
    texts = []
    for language, some in by_language.items():
        room = most // len(by_language)
        for document in some:
            text = ""
            for sentence in split_sentences(document):
                if len(text) + len(sentence) > min(_MAX_DOCUMENT, room):
                    break
                text += sentence
            if text.strip():
                texts.append((language, text.strip()))
                room -= len(text)
            if room < _MIN_TEXT:
                break
    return texts


def sample_prompts(index: WordIndex, words: Sequence[str], *, seed: int) -> tuple[list[str], list[str]]:
    """Starts of sentences to continue, and sentences with a masked content word."""
    rng = Random(f"prompts {seed}")
    suitable = [sentence for sentence in index.sentences if 8 <= len(sentence.spans) <= 20]
    chosen = rng.sample(suitable, min(_NUM_PROMPTS, len(suitable)))
    prompts = [sentence.text[: sentence.spans[3][1]] for sentence in chosen]
    masked = []
    for word in words:
        positions = [
            (one, position)
            for sentence, position in index.positions[word]
            if 6 <= len((one := index.sentences[sentence]).spans) <= 20 and position
        ]
        if positions:
            sentence, position = rng.choice(positions)
            start, end = sentence.spans[position]
            masked.append(f"{sentence.text[:start]}[MASK]{sentence.text[end:]}")
        if len(masked) == _NUM_PROMPTS:
            break
    return prompts, masked


def _build_retrieval_sets(
    documents: Iterable[tuple[str, str]], folders: Iterable[Path], budget: EvaluationBudget, *, seed: int
) -> list[RetrievalSet]:
    """The datasets in folders, and those derived from the documents."""
    given = [one for folder in folders for one in read_retrieval_sets(folder, most=budget.num_queries, seed=seed)]
    texts, characters = [], 0
    for _, document in documents:
        if characters > _SEARCHED_CHARACTERS:
            break
        texts.append(document)
        characters += len(document)
    sizes = {"most_queries": budget.num_queries, "most_documents": budget.num_searched}
    return [*given, *derive_retrieval_sets(texts, **sizes, seed=seed)]


def _read_minimal_pairs(folder: Path, *, most: int, seed: int) -> tuple[str, list[PairSet]]:
    """The sets of minimal pairs in a folder, subsampled to about `most` pairs in total."""
    sets = read_pairs(folder)
    return folder.name.replace("_", " "), [sample_pairs(one, max(_MIN_PAIRS, most // len(sets)), seed) for one in sets]


def _read_word_sets(folder: Path) -> list[WordSet]:
    """The word sets in a folder; those of another language are named after it."""
    suffix = " zh" if folder.name.endswith("_zh") else ""
    return [replace(words, name=words.name + suffix) for words in read_sets(folder)]
