"""Text as an array of UTF-16 code units, for work that is too slow character by character."""

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from polyseme.arrays import CodeUnits, Flags, Integers

NUM_CODE_UNITS = 1 << 16
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, kw_only=True)
class Utf16Text:
    """Concatenated sentences or documents."""

    characters: str
    units: CodeUnits
    bounds: Integers  # (N + 1,), offsets in `units` of the N segments
    low_surrogates: Integers  # offsets of the second units of characters that take two

    @classmethod
    def of(cls, segments: Sequence[str]) -> Self:
        """Concatenate strings; lone surrogates become U+FFFD."""
        characters = "".join(segments)
        try:
            encoded = characters.encode("utf-16-le")
        except UnicodeEncodeError:
            characters = replace_surrogates(characters)
            encoded = characters.encode("utf-16-le")
        units = np.frombuffer(encoded, "<u2")
        low_surrogates = np.zeros(0, np.int64)
        if len(units) != len(characters):
            low_surrogates = np.flatnonzero((units[1:] & 0xFC00 == 0xDC00) & (units[:-1] & 0xFC00 == 0xD800)) + 1
        bounds = np.zeros(len(segments) + 1, np.int64)
        np.cumsum(np.fromiter(map(len, segments), np.int64, len(segments)), out=bounds[1:])
        bounds += np.searchsorted(low_surrogates - np.arange(1, len(low_surrogates) + 1), bounds)
        return cls(characters=characters, units=units, bounds=bounds, low_surrogates=low_surrogates)

    def substrings(self, starts: Integers, ends: Integers) -> list[str]:
        """Substrings between offsets in the code units."""
        offsets = (self.character_offsets(units).tolist() for units in (starts, ends))
        return [self.characters[start:end] for start, end in zip(*offsets, strict=True)]

    def character_offsets(self, offsets: Integers) -> Integers:
        """Convert offsets in the code units to offsets in the characters."""
        return offsets - np.searchsorted(self.low_surrogates, offsets) if len(self.low_surrogates) else offsets

    def segments(self, first: int, last: int) -> Self:
        """Segments `first` to `last`, the latter excluded."""
        bounds = self.bounds[first : last + 1]
        start, end = self.character_offsets(bounds[[0, -1]])
        inside = slice(*np.searchsorted(self.low_surrogates, bounds[[0, -1]]))
        return replace(
            self,
            characters=self.characters[start:end],
            units=self.units[bounds[0] : bounds[-1]],
            bounds=bounds - bounds[0],
            low_surrogates=self.low_surrogates[inside] - bounds[0],
        )


def character_class(characters: str) -> Flags:
    """Which code units match a character class of a regular expression."""
    flags = np.zeros(NUM_CODE_UNITS, np.bool_)
    for match in re.finditer(f"[{characters}]+", _all_units()):
        flags[match.start() : match.end()] = True
    return flags


def replace_surrogates(text: str) -> str:
    """Replace lone surrogates, which cannot be encoded, by U+FFFD, one character for one."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return _SURROGATE.sub("\ufffd", text)
    return text


@functools.cache
def _all_units() -> str:
    return "".join(map(chr, range(NUM_CODE_UNITS)))
