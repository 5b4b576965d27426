"""The lines of a text of word vectors, found and read in its bytes: a million in a second."""

from __future__ import annotations

import mmap
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from polyseme.errors import CheckpointError
from polyseme.kernels import compiled, in_order
from polyseme.machine import num_cores

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]
Ids = NDArray[np.int64]
Flags = NDArray[np.bool_]

_BLOCK = 1 << 22  # bytes that are looked through together, and …
_NUM_LINES = 10_000  # … lines
_BREAK, _TAB, _RETURN, _SPACE, _PLUS, _MINUS, _POINT, _ZERO, _NINE, _CAPITAL_E, _E = map(np.uint8, b"\n\t\r +-.09Ee")
_MOST_DIGITS = 18  # that an integer holds
_EXACT = 1 << 53  # up to which a float holds every integer
_MIXER = np.uint64(0x9E3779B97F4A7C15)
_POWERS = 10.0 ** np.arange(23)  # those that a float holds


@dataclass(frozen=True)
class Lines:
    """Lines that hold a word and numbers, which are read when they are needed."""

    path: Path
    content: mmap.mmap
    width: int
    numbers: Ids  # of the lines, from 1 on
    starts: Ids
    middles: Ids  # the space before the numbers, or the end if there are too few
    ends: Ids

    @classmethod
    def find(cls, path: Path, content: mmap.mmap, start: int, width: int, *, longest: int) -> Self:
        """Find the lines that are not blank, and the numbers in each, which are not looked at yet."""
        values = np.frombuffer(content, np.uint8)
        searches = (partial(_breaks, values, place) for place in range(start, len(values), _BLOCK))
        ends = np.concatenate([*in_order(searches, num_cores()), [len(values)]])
        starts = np.concatenate([[start], ends[:-1] + 1])
        middles = np.empty_like(starts)
        parts = (slice(first, first + _NUM_LINES) for first in range(0, len(starts), _NUM_LINES))
        splits = (partial(_split, values, starts[part], ends[part], width, middles[part]) for part in parts)
        deque(in_order(splits, num_cores()), maxlen=0)
        numbers = np.arange(len(starts)) + (2 if start else 1)
        wrong = np.flatnonzero((ends > starts) & ((middles == ends) | (ends - starts > longest)))
        if len(wrong):
            raise _no_vector(path, numbers[wrong[0]], width)
        lines = cls(path, content, width, numbers, starts, middles, ends)
        return lines if (ends > starts).all() else lines.take(ends > starts)

    def take(self, kept: Ids | Flags) -> Self:
        """Some of the lines."""
        parts = (part[kept] for part in (self.numbers, self.starts, self.middles, self.ends))
        return type(self)(self.path, self.content, self.width, *parts)

    def words(self) -> tuple[list[str], bool]:
        """All that stands before the numbers, and whether that is certainly different in all lines."""
        words = np.empty(int((self.middles - self.starts + 1).sum()), np.uint8)
        checksums = np.empty(len(self.starts), np.uint64)
        _gather(np.frombuffer(self.content, np.uint8), self.starts, self.middles, words, checksums)
        checksums.sort()
        text = words.tobytes().decode("utf-8", "replace")
        return text.split("\n")[:-1], bool((checksums[1:] != checksums[:-1]).all()) and "\ufffd" not in text

    def blocks(self, step: int) -> Iterator[tuple[int, Floats]]:
        """The numbers of so many lines at a time, and which is the first of them."""
        firsts = range(0, len(self.ends), step)
        tasks = (partial(self._parse, slice(first, first + step)) for first in firsts)
        yield from zip(firsts, in_order(tasks, num_cores()), strict=True)

    def _parse(self, which: slice) -> Floats:
        middles, ends = self.middles[which], self.ends[which]
        vectors, left = np.empty((len(ends), self.width), np.float32), np.zeros(len(ends), np.bool_)
        _parse(np.frombuffer(self.content, np.uint8), middles, ends, vectors, left)
        for place in np.flatnonzero(left):
            texts = self.content[middles[place] + 1 : ends[place]].split(b" ")
            try:
                with np.errstate(over="ignore"):
                    vectors[place] = np.array([float(text) for text in texts], np.float64).reshape(self.width)
            except ValueError:
                raise _no_vector(self.path, self.numbers[which][place], self.width) from None
        return vectors


def _no_vector(path: Path, number: int, width: int) -> CheckpointError:
    return CheckpointError(f"{path}, line {number}: not a word and {width:,} numbers; mend it")


def _breaks(content: Bytes, start: int) -> Ids:
    return start + np.flatnonzero(content[start : start + _BLOCK] == _BREAK)


@compiled
def _split(content: Bytes, starts: Ids, ends: Ids, width: int, middles: Ids) -> None:
    """Find the space before the numbers of each line, and take what is blank from its end."""
    for number in range(len(starts)):
        start, end = starts[number], ends[number]
        while end > start and content[end - 1] in (_SPACE, _TAB, _RETURN):
            end -= 1
        line = content[start:end]
        inside = -width  # spaces of the word
        for place in range(len(line)):
            inside += line[place] == _SPACE
        place = len(line) if inside < 0 else 0
        while place < len(line) and (line[place] != _SPACE or inside):
            inside -= line[place] == _SPACE
            place += 1
        middles[number], ends[number] = start + place, end


@compiled
def _parse(content: Bytes, middles: Ids, ends: Ids, vectors: Floats, left: Flags) -> None:
    """Read the numbers of lines as Python does; lines with numbers that take more than that are left."""
    for number in range(len(middles)):
        line = content[middles[number] : ends[number]]
        place = 0
        for column in range(vectors.shape[1]):
            place += 1  # a space
            negative = place < len(line) and line[place] == _MINUS
            place += negative
            mantissa, num_digits, power = 0, 0, 0
            behind = False  # the point
            while place < len(line):
                byte = line[place]
                if _ZERO <= byte <= _NINE:
                    mantissa = mantissa * 10 + (byte - _ZERO)
                    num_digits += 1
                    power -= behind
                elif byte == _POINT and not behind:
                    behind = True
                else:
                    break
                place += 1
            if place < len(line) and (line[place] == _E or line[place] == _CAPITAL_E):
                place += 1
                sign = 1
                if place < len(line) and (line[place] == _MINUS or line[place] == _PLUS):
                    sign = -1 if line[place] == _MINUS else 1
                    place += 1
                first, exponent = place, 0
                while place < min(len(line), first + 3) and _ZERO <= line[place] <= _NINE:
                    exponent = exponent * 10 + (line[place] - _ZERO)
                    place += 1
                num_digits = num_digits if place > first else 0
                power += sign * exponent
            whole = (
                place == len(line) if column == vectors.shape[1] - 1 else place < len(line) and line[place] == _SPACE
            )
            if not whole or not 0 < num_digits <= _MOST_DIGITS or mantissa > _EXACT or abs(power) >= len(_POWERS):
                left[number] = True
                break
            value = mantissa / _POWERS[-power] if power < 0 else mantissa * _POWERS[power]
            vectors[number, column] = -value if negative else value


@compiled
def _gather(content: Bytes, starts: Ids, ends: Ids, gathered: Bytes, checksums: NDArray[np.uint64]) -> None:
    """Write parts of a text in a row, with a line break behind each, and a number for each: for equal ones the same."""
    length = 0
    for number in range(len(starts)):
        checksums[number] = 0
        for place in range(starts[number], ends[number]):
            gathered[length] = content[place]
            checksums[number] = (checksums[number] ^ np.uint64(content[place])) * _MIXER
            checksums[number] ^= checksums[number] >> np.uint64(32)
            length += 1
        gathered[length] = _BREAK
        length += 1
