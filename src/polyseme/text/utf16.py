"""Text as an array of UTF-16 units, for work that is too slow character by character."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.integer[Any]]
Flags = NDArray[np.bool_]

NUM_UNITS = 1 << 16
_EVERY = "".join(map(chr, range(NUM_UNITS)))


@dataclass(frozen=True, kw_only=True)
class Text:
    """Sentences in a row."""

    characters: str
    units: NDArray[np.uint16]
    bounds: Numbers  # where in the units each sentence begins, and the last ends
    doubles: Numbers  # the second units of characters that take two

    @classmethod
    def of(cls, sentences: Sequence[str]) -> Self:
        characters = "".join(sentences)
        units = np.frombuffer(characters.encode("utf-16-le", "surrogatepass"), "<u2")
        doubles = np.zeros(0, np.int64)
        if len(units) != len(characters):
            doubles = np.flatnonzero((units[1:] & 0xFC00 == 0xDC00) & (units[:-1] & 0xFC00 == 0xD800)) + 1
        bounds = np.zeros(len(sentences) + 1, np.int64)
        np.cumsum(np.fromiter(map(len, sentences), np.int64, len(sentences)), out=bounds[1:])
        bounds += np.searchsorted(doubles - np.arange(1, len(doubles) + 1), bounds)
        return cls(characters=characters, units=units, bounds=bounds, doubles=doubles)

    def pieces(self, starts: Numbers, ends: Numbers) -> list[str]:
        """Parts of the text, given by places in the units."""
        places = [(numbers - np.searchsorted(self.doubles, numbers)).tolist() for numbers in (starts, ends)]
        return [self.characters[start:end] for start, end in zip(*places, strict=True)]


def units_of(characters: str) -> Flags:
    """Which units belong to a character class of a regular expression."""
    flags = np.zeros(NUM_UNITS, np.bool_)
    for match in re.finditer(f"[{characters}]+", _EVERY):
        flags[match.start() : match.end()] = True
    return flags
