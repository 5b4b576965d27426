"""Spaces between the words of Chinese, which is written without."""

import functools
import re
from collections.abc import Callable, Iterable

import numpy as np

from polyseme.text.units import choose_segmenter, load_segmenter
from polyseme.text.utf16 import Numbers
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
            for word in [*self._cut(run[0]), ""]:
                parts += [" ", word]
                places.append(length)
                length += 1 + len(word)
        return "".join([*parts, text[end:]]), np.array(places, np.int64)
