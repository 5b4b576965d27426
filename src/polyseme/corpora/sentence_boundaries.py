"""Rule-based sentence boundary detection: one compiled loop over the code units of a text."""

import functools
from typing import Any

import numpy as np

from polyseme.arrays import Bytes, CodeUnits, Integers
from polyseme.corpora.utf16_text import NUM_CODE_UNITS, character_class
from polyseme.system.jit import jit

# Properties of a character, one bit each.
_STOP, _WIDE_STOP, _CLOSING, _WHITE_SPACE, _LINE_END, _LOWER, _ALPHABETIC = (1 << bit for bit in range(7))
_NUM_CHARACTERS = 1 << 18  # no alphabetic characters lie beyond
_FULL_STOP, _ELLIPSIS, _SPACE, _I, _FIRST_IDEOGRAPH = map(ord, ".… I⺀")
_OPENING = tuple(map(ord, "(\"'“‘["))
_MAX_ABBREVIATION = 8  # characters
ABBREVIATIONS = frozenset(
    """
    Mr Mrs Ms Dr Prof Rev Hon St Sr Jr Gen Col Lt Sgt Capt Cmdr Adm Gov Sen Rep Pres Messrs Mme Mlle Fr Mt Ft
    vs etc al cf ca viz approx ed eds vol vols no nos pp fig figs sec ch art dept univ est inc ltd co corp bros
    Jan Feb Mar Apr Jun Jul Aug Sep Sept Oct Nov Dec e.g i.e a.m p.m Ph.D
    """.lower().split()
)


def find_sentence_boundaries(units: CodeUnits, documents: Integers) -> Integers:
    """The offsets at which the sentences of documents begin, and the end of the last one."""
    return _find(units, documents, *_tables())


@functools.cache
def _tables() -> tuple[Bytes, Integers]:
    """The properties of every character; and each abbreviation as the number whose bytes are its characters."""
    table = np.zeros(_NUM_CHARACTERS, np.uint8)
    characters = list(map(chr, range(_NUM_CHARACTERS)))
    for flag, predicate in ((_LOWER, str.islower), (_ALPHABETIC, str.isalpha)):
        table[np.fromiter(map(predicate, characters), np.bool_, _NUM_CHARACTERS)] |= flag
    wide, closing = "。！？｡…", "\"'”’»)\\]}）］｝」』】》〉〕"
    classes = {_STOP: f".!?{wide}", _WIDE_STOP: wide, _CLOSING: closing, _WHITE_SPACE: r"\s", _LINE_END: r"\n"}
    for flag, pattern in classes.items():
        table[:NUM_CODE_UNITS][character_class(pattern)] |= flag
    return table, np.array([int.from_bytes(word.encode(), "big") for word in ABBREVIATIONS], np.int64)


@jit
def _find(units: Any, documents: Integers, properties: Bytes, abbreviations: Integers) -> Integers:
    bounds = np.empty(len(units) + 1, np.int64)
    bounds[0] = number = 0
    for document in range(len(documents) - 1):
        begin, end = documents[document], documents[document + 1]
        place = begin
        while place < end:
            stop = place
            place += 1
            found = properties[units[stop]] & (_STOP | _LINE_END)
            if not found:
                continue
            if found == _LINE_END:
                place = _skip(units, place, end, properties, _WHITE_SPACE)
                cut = stop
                while cut > begin and properties[units[cut - 1]] & _WHITE_SPACE:
                    cut -= 1
                ends = cut > begin
            else:
                stops_end = _skip(units, place, end, properties, _STOP)
                cut = _skip(units, stops_end, end, properties, _CLOSING)
                place = _skip(units, cut, end, properties, _WHITE_SPACE)
                ends = place < end and _ends(units, begin, stop, stops_end, cut, place, properties, abbreviations)
            if ends and place < end:
                number += 1
                bounds[number] = cut
        if begin < end:
            number += 1
            bounds[number] = end
    return bounds[: number + 1]


@jit
def _skip(units: Any, place: int, end: int, properties: Bytes, flag: int) -> int:
    while place < end and properties[units[place]] & flag:
        place += 1
    return place


@jit
def _ends(
    units: Any, begin: int, stop: int, stops_end: int, cut: int, following: int, properties: Bytes, abbreviations: Any
) -> Any:
    """Whether a sentence ends at `cut`: after the stops from `stop` to `stops_end` and closing quotes or brackets."""
    last = units[stops_end - 1]
    if properties[last] & _WIDE_STOP:
        return last != _ELLIPSIS or stops_end - stop > 1 or units[following] >= _FIRST_IDEOGRAPH
    if cut == following:
        return last != _FULL_STOP and units[following] >= _FIRST_IDEOGRAPH
    for place in range(cut, following):
        if properties[units[place]] & _LINE_END:
            return True
    if _properties_at(units, following, properties) & _LOWER:
        return False
    return last != _FULL_STOP or not _is_abbreviation(units, begin, stop, properties, abbreviations)


@jit
def _properties_at(units: Any, place: int, properties: Bytes) -> Any:
    """The properties of a character, which may take two units."""
    character = np.int64(units[place])
    if character & 0xFC00 == 0xD800:
        character = 0x10000 + ((character & 0x3FF) << 10) + (np.int64(units[place + 1]) & 0x3FF)
    return properties[character] if character < len(properties) else 0


@jit
def _is_abbreviation(units: Any, begin: int, stop: int, properties: Bytes, abbreviations: Any) -> bool:
    """Whether the full stop at `stop` belongs to the word before it: Dr., U.S., J."""
    start = stop
    length = 0
    while start > begin:
        if length == _MAX_ABBREVIATION:
            return False
        if units[start - 1] == _SPACE:
            break
        start -= 1
        length += units[start] & 0xFC00 != 0xDC00  # the second unit of a character
    while start < stop and units[start] in _OPENING:
        start += 1
    if start == stop:
        return False
    last = stop - 1 - (units[stop - 1] & 0xFC00 == 0xDC00)
    single = last == start or units[last - 1] == _FULL_STOP
    if single and _properties_at(units, last, properties) & _ALPHABETIC and units[last] != _I:
        return True
    packed = np.int64(0)
    for place in range(start, stop):
        unit = np.int64(units[place])
        if unit >= 0x80:
            return False
        packed = packed << 8 | (unit + 32 if 65 <= unit <= 90 else unit)
    return bool(np.any(abbreviations == packed))
