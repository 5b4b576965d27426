"""A hash index from pre-tokens to rows of a table, in compiled loops."""

from typing import Any

import numpy as np

from polyseme.arrays import Integers
from polyseme.corpora.utf16_text import Utf16Text
from polyseme.system.jit import jit

MAX_KEY_LENGTH = 15  # code units; a key is four 64-bit numbers of four units each, the last with the length
_MASKS = (np.tri(MAX_KEY_LENGTH + 1, k=-1, dtype=np.uint16) * np.uint16(0xFFFF)).view(np.uint64)  # by length
_MULTIPLIERS = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93], np.uint64)
_HALF, _LAST_UNIT = np.uint64(32), np.uint64(48)


class HashIndex:
    """Assigns rows to pre-tokens in order of first occurrence; one that is too long for a key always gets a new row."""

    MIN_CAPACITY = 1 << 19  # rows
    NUM_PROBES = 16  # slots that may hold a key, so that no input makes a search slow

    def __init__(self, min_capacity: int = 0) -> None:
        self.num_rows = 0
        self.capacity = max(self.MIN_CAPACITY, min_capacity)
        self.slots = np.full(2 * self.capacity + self.NUM_PROBES, -1, np.int32)  # a row, or -1
        self.keys = np.empty((self.capacity, 4), np.uint64)  # of each row

    def has_room(self, number: int) -> bool:
        """Whether this number of new rows fits."""
        return self.num_rows + number <= self.capacity

    def find_or_add(self, text: Utf16Text, starts: Integers, ends: Integers) -> tuple[Integers, Integers]:
        """The rows of pre-tokens, and which pre-tokens are new, whose rows are the next ones."""
        padded = np.append(text.units, np.zeros(MAX_KEY_LENGTH + 1, np.uint16))
        four_units = np.ndarray(len(padded) - 3, np.uint64, padded, strides=(2,))  # the four units at each offset
        rows, new = _find_or_add(four_units, starts, ends, self.slots, self.keys, self.num_rows, self.NUM_PROBES)
        self.num_rows += len(new)
        return rows, new


@jit
def _find_or_add(
    four_units: Any, starts: Integers, ends: Integers, slots: Integers, keys: Any, num_rows: int, num_probes: int
) -> Any:
    rows, new = np.empty(len(starts), np.int32), np.empty(len(starts), np.int32)
    num_new = 0
    num_slots = np.uint64(len(slots) - num_probes)
    for number in range(len(starts)):
        start, length = starts[number], ends[number] - starts[number]
        row = num_rows + num_new
        if length <= MAX_KEY_LENGTH:
            masks = _MASKS[length]
            a, b = four_units[start] & masks[0], four_units[start + 4] & masks[1]
            c = four_units[start + 8] & masks[2]
            d = four_units[start + 12] & masks[3] | np.uint64(length) << _LAST_UNIT
            mixed = a * _MULTIPLIERS[0]
            mixed = ((mixed ^ mixed >> _HALF) + b) * _MULTIPLIERS[1]
            mixed = ((mixed ^ mixed >> _HALF) + c) * _MULTIPLIERS[2]
            mixed = ((mixed ^ mixed >> _HALF) + d) * _MULTIPLIERS[3]
            first = np.int64((mixed >> _HALF) * num_slots >> _HALF)
            for slot in range(first, first + num_probes):
                other = slots[slot]
                if other < 0:
                    slots[slot] = row
                    keys[row, 0], keys[row, 1], keys[row, 2], keys[row, 3] = a, b, c, d
                    break
                key = keys[other]
                if key[0] == a and key[1] == b and key[2] == c and key[3] == d:
                    row = other
                    break
        rows[number] = row
        if row == num_rows + num_new:
            new[num_new] = number
            num_new += 1
    return rows, new[:num_new]
