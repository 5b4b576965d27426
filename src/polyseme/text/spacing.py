"""Spaces between the words of Chinese, which is written without."""

import functools
import re
from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np

from polyseme.text.units import choose_segmenter, load_segmenter
from polyseme.text.utf16 import Numbers, Text
from polyseme.text.vocabulary import IDEOGRAPHS

_RUN = re.compile(f"[{IDEOGRAPHS}]+")


class Spacing:
    """Puts a space before and behind every word that a segmenter finds in a run of ideographs."""

    def __init__(self, segmenter: str) -> None:
        self.segmenter = segmenter

    @functools.cached_property
    def _cut(self) -> Callable[[str], Iterable[str]]:
        # Not before there are ideographs, for which alone it has to be installed.
        return load_segmenter(choose_segmenter(self.segmenter, group="tokenizer"))

    def space_all(self, text: Text) -> Text:
        """The sentences of a text with spaces."""
        if self.segmenter == "none":
            return text
        high = np.flatnonzero(text.units >= ord(IDEOGRAPHS[0]))
        if not len(high):
            return text
        numbers = np.unique(np.searchsorted(text.bounds, high, "right") - 1)
        # Every other piece is a sentence that may need spaces; those between may be many.
        ends = np.stack([text.bounds[numbers], text.bounds[numbers + 1]], axis=1).ravel()
        edges = np.concatenate([[0], ends, text.bounds[-1:]])
        pieces = text.pieces(edges[:-1], edges[1:])
        pieces[1::2] = map(self.space, pieces[1::2])
        spaced = Text.of(pieces)
        added = np.zeros_like(text.bounds)
        added[numbers + 1] = np.diff(spaced.bounds - edges)[1::2]
        return replace(spaced, bounds=text.bounds + np.cumsum(added))

    def space(self, text: str) -> str:
        """The text with spaces."""
        return self.place(text)[0]

    def place(self, text: str) -> tuple[str, Numbers]:
        """The text with spaces, and where in it these are."""
        if self.segmenter == "none" or text.isascii():
            return text, np.zeros(0, np.int64)
        parts: list[str] = []
        places: list[int] = []
        length = end = 0
        for run in _RUN.finditer(text):
            parts.append(text[end : run.start()])
            length += run.start() - end
            end = run.end()
            # What stands in a phrase is a word, and stays with the others: 人工_智能.
            before, behind = text.endswith("_", 0, run.start()), text.startswith("_", run.end())
            words = [run[0]] if before or behind else self._cut(run[0])
            for number, word in enumerate([*words, ""]):
                if (number or not before) and (word or not behind):
                    parts.append(" ")
                    places.append(length)
                    length += 1
                parts.append(word)
                length += len(word)
        return "".join([*parts, text[end:]]), np.array(places, np.int64)
