"""Passages: documents that are read together, cut into sentences."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Self, TypeVar

import numpy as np

from polyseme.kernels import in_order
from polyseme.text.sentences import find_sentences, split_sentences
from polyseme.text.spacing import Spacing
from polyseme.text.utf16 import Numbers, Text, units_of
from polyseme.text.vocabulary import IDEOGRAPHS

LENGTH = 250_000  # characters read together
_NUM_WORKERS = 2
_WHITE, _INK, _IDEOGRAPH = range(3)
_KINDS = np.select([units_of(r"\s"), units_of(IDEOGRAPHS)], [np.uint8(_WHITE), np.uint8(_IDEOGRAPH)], np.uint8(_INK))

Result = TypeVar("Result")


@dataclass(frozen=True, kw_only=True)
class Passage:
    """Some documents."""

    text: Text  # of their sentences, with spaces between the words
    counts: Numbers  # sentences of each document
    num_characters: int

    @classmethod
    def of(cls, documents: list[str], split: Callable[[str], list[str]], spacing: Spacing) -> Self:
        """Cut documents into sentences, and space these."""
        if split is split_sentences:
            text, counts = find_sentences(Text.of(documents))
        else:
            sentences = [split(document) for document in documents]
            text = Text.of([sentence for document in sentences for sentence in document])
            counts = np.array([len(document) for document in sentences])
        return cls(text=spacing.space_all(text), counts=counts, num_characters=sum(map(len, documents)))


def read(
    documents: Iterable[str], split: Callable[[str], list[str]], spacing: Spacing, work: Callable[[Passage], Result]
) -> Iterator[Result]:
    """What is made of one passage after the other, several at once; never more than a few are held."""

    def task(batch: list[str]) -> Result:
        return work(Passage.of(batch, split, spacing))

    return in_order((partial(task, batch) for batch in _batches(documents)), _NUM_WORKERS)


def _batches(documents: Iterable[str]) -> Iterator[list[str]]:
    """Group documents so that each group but the last has at least `LENGTH` characters."""
    batch: list[str] = []
    length = 0
    for document in documents:
        batch.append(document)
        length += len(document)
        if length >= LENGTH:
            yield batch
            batch, length = [], 0
    if batch:
        yield batch


def count_words(text: Text) -> int:
    """Stretches between white space; every ideograph counts as one."""
    kinds = _KINDS.take(text.units)
    firsts = kinds == _INK
    firsts[1:] &= kinds[:-1] != _INK
    starts = text.bounds[:-1][text.bounds[:-1] < len(kinds)]
    firsts[starts] = kinds[starts] == _INK
    return int(np.count_nonzero(firsts) + np.count_nonzero(kinds == _IDEOGRAPH))
