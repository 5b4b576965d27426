"""Sentence splitting of Latin, Chinese, Japanese and Korean scripts and their mixtures."""

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import numpy as np

from polyseme.arrays import Integers
from polyseme.corpora.utf16_text import Utf16Text

MAX_SENTENCE_LENGTH = 10_000  # characters

_WHITE_SPACE = re.compile(r"\s")
_NON_SPACE = re.compile(r"\S")


def split_sentences(document: str) -> list[str]:
    """Split a document into sentences whose concatenation is exactly the document.

    White space belongs to the sentence that follows it, as byte-level tokenizers expect.
    """
    text, _ = split_documents(Utf16Text.of([document]))
    return [document[start:end] for start, end in pairwise(text.character_offsets(text.bounds).tolist())]


def split_documents(documents: Utf16Text) -> tuple[Utf16Text, Integers]:
    """Split documents into sentences; return the text segmented by sentence and the sentences per document."""
    from polyseme.corpora.sentence_boundaries import find_sentence_boundaries  # numba takes a while to import

    bounds = find_sentence_boundaries(documents.units, documents.bounds)
    long = np.flatnonzero(np.diff(bounds) > MAX_SENTENCE_LENGTH)
    if len(long):
        starts = bounds[long]
        pieces = map(_split_long_sentence, documents.substrings(starts, bounds[long + 1]))
        lengths = [[len(piece.encode("utf-16-le")) // 2 for piece in sentence][:-1] for sentence in pieces]
        cuts = [start + np.cumsum(row, dtype=np.int64) for start, row in zip(starts, lengths, strict=True)]
        bounds = np.sort(np.concatenate([bounds, *cuts]))
    return replace(documents, bounds=bounds), np.diff(np.searchsorted(bounds, documents.bounds))


def _split_long_sentence(sentence: str) -> Iterator[str]:
    """Split before white space where there is any."""
    start = 0
    while len(sentence) - start > MAX_SENTENCE_LENGTH:
        # A piece must contain more than white space, so its length counts from the first other character.
        text = _NON_SPACE.search(sentence, start)
        if text is None:
            break
        first = text.start()
        head = sentence[first : first + MAX_SENTENCE_LENGTH + 1]
        length = len(head.rsplit(None, 1)[0].rstrip()) if _WHITE_SPACE.search(head) else MAX_SENTENCE_LENGTH
        end = first + length
        if _NON_SPACE.search(sentence, end) is None:
            break
        yield sentence[start:end]
        start = end
    yield sentence[start:]
