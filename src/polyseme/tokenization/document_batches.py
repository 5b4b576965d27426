"""Batches of documents, split into sentences and processed by several threads."""

import functools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TypeVar

import numpy as np

from polyseme.arrays import Bytes, Integers
from polyseme.corpora.scripts import IDEOGRAPHS
from polyseme.corpora.sentence_splitting import split_documents, split_sentences
from polyseme.corpora.utf16_text import Utf16Text, character_class
from polyseme.system.threads import ordered_map
from polyseme.tokenization.word_segmentation import WordSegmentation

BATCH_LENGTH = 250_000  # characters of a batch
_NUM_THREADS = 2
_WHITE_SPACE, _VISIBLE, _IDEOGRAPH = range(3)

Result = TypeVar("Result")


@dataclass(frozen=True, kw_only=True)
class DocumentBatch:
    """Some documents, split into sentences."""

    text: Utf16Text  # its segments are sentences, with spaces between Chinese words
    counts: Integers  # sentences of each document
    num_characters: int

    @property
    def num_words(self) -> int:
        """The number of words between white space; every ideograph is a word."""
        return count_whitespace_words(self.text)


def map_document_batches(
    documents: Iterable[str],
    split: Callable[[str], list[str]],
    segmentation: WordSegmentation,
    function: Callable[[DocumentBatch], Result],
) -> Iterator[Result]:
    """Apply a function to batches of documents, several at once, in order; only a few are in memory."""

    def task(documents: list[str]) -> Result:
        if split is split_sentences:
            text, counts = split_documents(Utf16Text.of(documents))
        else:
            sentences = [split(document) for document in documents]
            text, counts = Utf16Text.of([*chain(*sentences)]), np.array([*map(len, sentences)])
        text = segmentation.segment_all(text)
        return function(DocumentBatch(text=text, counts=counts, num_characters=sum(map(len, documents))))

    return ordered_map((partial(task, group) for group in group_documents(documents, BATCH_LENGTH)), _NUM_THREADS)


def group_documents(documents: Iterable[str], min_length: int) -> Iterator[list[str]]:
    """Group documents so that each group but the last has at least `min_length` characters."""
    group: list[str] = []
    length = 0
    for document in documents:
        group.append(document)
        length += len(document)
        if length >= min_length:
            yield group
            group, length = [], 0
    if group:
        yield group


def count_whitespace_words(text: Utf16Text) -> int:
    """Count words between white space; every ideograph is a word."""
    kinds = _unit_kinds().take(text.units)
    starts = kinds == _VISIBLE
    starts[1:] &= kinds[:-1] != _VISIBLE
    sentences = text.bounds[:-1][text.bounds[:-1] < len(kinds)]
    starts[sentences] = kinds[sentences] == _VISIBLE
    return int(np.count_nonzero(starts) + np.count_nonzero(kinds == _IDEOGRAPH))


@functools.cache
def _unit_kinds() -> Bytes:
    classes = [character_class(r"\s"), character_class(IDEOGRAPHS)]
    return np.select(classes, [np.uint8(_WHITE_SPACE), np.uint8(_IDEOGRAPH)], np.uint8(_VISIBLE))
