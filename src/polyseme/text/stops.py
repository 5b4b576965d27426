"""Where sentences end: one loop over the units of a text."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyseme.kernels import compiled
from polyseme.text.utf16 import NUM_UNITS, Numbers, units_of

Traits = NDArray[np.uint8]

_STOP, _WIDE, _CLOSING, _WHITE, _LINE_END, _LOWER, _LETTER = (1 << bit for bit in range(7))
_NUM_CHARACTERS = 1 << 18  # no letters lie beyond
_FULL_STOP, _ELLIPSIS, _SPACE, _I, _FIRST_IDEOGRAPH = map(ord, ".… I⺀")
_OPENING = tuple(map(ord, "(\"'“‘["))
_WORD = 8  # characters in which an abbreviation is looked for
ABBREVIATIONS = frozenset(
    """
    Mr Mrs Ms Dr Prof Rev Hon St Sr Jr Gen Col Lt Sgt Capt Cmdr Adm Gov Sen Rep Pres Messrs Mme Mlle Fr Mt Ft
    vs etc al cf ca viz approx ed eds vol vols no nos pp fig figs sec ch art dept univ est inc ltd co corp bros
    Jan Feb Mar Apr Jun Jul Aug Sep Sept Oct Nov Dec e.g i.e a.m p.m Ph.D
    """.lower().split()
)
_PACKED = np.array([int.from_bytes(word.encode(), "big") for word in ABBREVIATIONS], np.int64)


def _traits() -> Traits:
    traits = np.zeros(_NUM_CHARACTERS, np.uint8)
    characters = list(map(chr, range(_NUM_CHARACTERS)))
    for trait, has in ((_LOWER, str.islower), (_LETTER, str.isalpha)):
        traits[np.fromiter(map(has, characters), np.bool_, _NUM_CHARACTERS)] |= trait
    wide, closing = "。！？｡…", "\"'”’»)\\]}）］｝」』】》〉〕"
    members = {_STOP: f".!?{wide}", _WIDE: wide, _CLOSING: closing, _WHITE: r"\s", _LINE_END: r"\n"}
    for trait, pattern in members.items():
        traits[:NUM_UNITS][units_of(pattern)] |= trait
    return traits


_TRAITS = _traits()


def find_bounds(units: NDArray[np.uint16], documents: Numbers) -> Numbers:
    """Where the sentences of documents begin, and the last ends."""
    bounds: Numbers = _find(units, documents, _TRAITS, _PACKED)
    return bounds


@compiled
def _find(units: Any, documents: Any, traits: Traits, abbreviations: Any) -> Any:
    bounds = np.empty(len(units) + 1, np.int64)
    bounds[0] = number = 0
    for document in range(len(documents) - 1):
        begin, end = documents[document], documents[document + 1]
        place = begin
        while place < end:
            stop = place
            place += 1
            trait = traits[units[stop]] & (_STOP | _LINE_END)
            if not trait:
                continue
            if trait == _LINE_END:
                place = _skip(units, place, end, traits, _WHITE)
                cut = stop
                while cut > begin and traits[units[cut - 1]] & _WHITE:
                    cut -= 1
                ends = cut > begin
            else:
                marks = _skip(units, place, end, traits, _STOP)
                cut = _skip(units, marks, end, traits, _CLOSING)
                place = _skip(units, cut, end, traits, _WHITE)
                ends = place < end and _ends(units, begin, stop, marks, cut, place, traits, abbreviations)
            if ends and place < end:
                number += 1
                bounds[number] = cut
        if begin < end:
            number += 1
            bounds[number] = end
    return bounds[: number + 1]


@compiled
def _skip(units: Any, place: int, end: int, traits: Traits, trait: int) -> int:
    while place < end and traits[units[place]] & trait:
        place += 1
    return place


@compiled
def _ends(
    units: Any, begin: int, stop: int, marks: int, cut: int, following: int, traits: Traits, abbreviations: Any
) -> Any:
    """Whether a sentence ends with stops up to `marks`, what closes them up to `cut`, and white space behind."""
    last = units[marks - 1]
    if traits[last] & _WIDE:
        return last != _ELLIPSIS or marks - stop > 1 or units[following] >= _FIRST_IDEOGRAPH
    if cut == following:
        return last != _FULL_STOP and units[following] >= _FIRST_IDEOGRAPH
    for place in range(cut, following):
        if traits[units[place]] & _LINE_END:
            return True
    if _trait(units, following, traits) & _LOWER:
        return False
    return last != _FULL_STOP or not _abbreviated(units, begin, stop, traits, abbreviations)


@compiled
def _trait(units: Any, place: int, traits: Traits) -> Any:
    """The traits of a character, which may take two units."""
    character = np.int64(units[place])
    if character & 0xFC00 == 0xD800:
        character = 0x10000 + ((character & 0x3FF) << 10) + (np.int64(units[place + 1]) & 0x3FF)
    return traits[character] if character < len(traits) else 0


@compiled
def _abbreviated(units: Any, begin: int, stop: int, traits: Traits, abbreviations: Any) -> bool:
    """Whether the full stop at `stop` belongs to the word before it: Dr., U.S., J."""
    start = stop
    length = 0
    while start > begin:
        if length == _WORD:
            return False
        if units[start - 1] == _SPACE:
            break
        start -= 1
        length += units[start] & 0xFC00 != 0xDC00  # the second half of a character
    while start < stop and units[start] in _OPENING:
        start += 1
    if start == stop:
        return False
    last = stop - 1 - (units[stop - 1] & 0xFC00 == 0xDC00)
    alone = last == start or units[last - 1] == _FULL_STOP
    if alone and _trait(units, last, traits) & _LETTER and units[last] != _I:
        return True
    packed = np.int64(0)
    for place in range(start, stop):
        unit = np.int64(units[place])
        if unit >= 0x80:
            return False
        packed = packed << 8 | (unit + 32 if 65 <= unit <= 90 else unit)
    return bool(np.any(abbreviations == packed))
