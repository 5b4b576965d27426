"""Text as an array of UTF-16 units, for work that is too slow character by character."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from polyseme.text.vocabulary import mend

Numbers = NDArray[np.integer[Any]]
Flags = NDArray[np.bool_]

NUM_UNITS = 1 << 16
_EVERY = "".join(map(chr, range(NUM_UNITS)))


@dataclass(frozen=True, kw_only=True)
class Text:
    """Sentences or documents in a row."""

    characters: str
    units: NDArray[np.uint16]
    bounds: Numbers  # where in the units each of them begins, and the last ends
    doubles: Numbers  # the second units of characters that take two

    @classmethod
    def of(cls, sentences: Sequence[str]) -> Self:
        """Of strings in a row, in which U+FFFD takes the place of lone surrogates."""
        characters = "".join(sentences)
        try:
            encoded = characters.encode("utf-16-le")
        except UnicodeEncodeError:
            characters = mend(characters)
            encoded = characters.encode("utf-16-le")
        units = np.frombuffer(encoded, "<u2")
        doubles = np.zeros(0, np.int64)
        if len(units) != len(characters):
            doubles = np.flatnonzero((units[1:] & 0xFC00 == 0xDC00) & (units[:-1] & 0xFC00 == 0xD800)) + 1
        bounds = np.zeros(len(sentences) + 1, np.int64)
        np.cumsum(np.fromiter(map(len, sentences), np.int64, len(sentences)), out=bounds[1:])
        bounds += np.searchsorted(doubles - np.arange(1, len(doubles) + 1), bounds)
        return cls(characters=characters, units=units, bounds=bounds, doubles=doubles)

    def pieces(self, starts: Numbers, ends: Numbers) -> list[str]:
        """Parts of the text, given by places in the units."""
        places = (self.places(numbers).tolist() for numbers in (starts, ends))
        return [self.characters[start:end] for start, end in zip(*places, strict=True)]

    def places(self, numbers: Numbers) -> Numbers:
        """Places in the units as places in the characters."""
        return numbers - np.searchsorted(self.doubles, numbers) if len(self.doubles) else numbers

    def part(self, first: int, last: int) -> Self:
        """Some of the sentences."""
        bounds = self.bounds[first : last + 1]
        start, end = self.places(bounds[[0, -1]])
        return replace(
            self,
            characters=self.characters[start:end],
            units=self.units[bounds[0] : bounds[-1]],
            bounds=bounds - bounds[0],
            doubles=self.doubles[slice(*np.searchsorted(self.doubles, bounds[[0, -1]]))] - bounds[0],
        )


def units_of(characters: str) -> Flags:
    """Which units belong to a character class of a regular expression."""
    flags = np.zeros(NUM_UNITS, np.bool_)
    for match in re.finditer(f"[{characters}]+", _EVERY):
        flags[match.start() : match.end()] = True
    return flags
