"""Documents into sentences, in Latin and Chinese, Japanese and Korean scripts and their mixes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from polyseme.text.utf16 import Numbers, Text

LONGEST = 10_000  # characters of a sentence

_SPACE = re.compile(r"\s")
_TEXT = re.compile(r"\S")


def split_sentences(document: str) -> list[str]:
    """Cut a document into sentences that join to exactly the document.

    White space stands at the front of the sentence that follows it, as byte-level tokenizers want it.
    """
    from polyseme.text.utf16 import Text

    text, _ = find_sentences(Text.of([document]))
    return [document[start:end] for start, end in pairwise(text.places(text.bounds).tolist())]


def find_sentences(documents: Text) -> tuple[Text, Numbers]:
    """A text of documents as one of sentences, and how many each document has."""
    import numpy as np

    from polyseme.text.stops import find_bounds

    bounds = find_bounds(documents.units, documents.bounds)
    long = np.flatnonzero(np.diff(bounds) > LONGEST)
    if len(long):
        starts = bounds[long]
        pieces = map(_shorten, documents.pieces(starts, bounds[long + 1]))
        lengths = [[len(part.encode("utf-16-le")) // 2 for part in parts][:-1] for parts in pieces]
        cuts = [start + np.cumsum(row, dtype=np.int64) for start, row in zip(starts, lengths, strict=True)]
        bounds = np.sort(np.concatenate([bounds, *cuts]))
    return replace(documents, bounds=bounds), np.diff(np.searchsorted(bounds, documents.bounds))


def _shorten(sentence: str) -> Iterator[str]:
    """Cut what is longer than any sentence, before white space where there is any."""
    start = 0
    while len(sentence) - start > LONGEST:
        # White space alone is no piece, however long, so the count begins where it ends.
        text = _TEXT.search(sentence, start)
        if text is None:
            break
        first = text.start()
        head = sentence[first : first + LONGEST + 1]
        end = first + (len(head.rsplit(None, 1)[0].rstrip()) if _SPACE.search(head) else LONGEST)
        if _TEXT.search(sentence, end) is None:
            break
        yield sentence[start:end]
        start = end
    yield sentence[start:]
