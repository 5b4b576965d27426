"""Parser of word vectors in text form that works on bytes: a million lines per second."""

import mmap
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from polyseme.arrays import Bytes, Flags, Floats, Ids
from polyseme.errors import CheckpointError
from polyseme.system.hardware import num_cores
from polyseme.system.jit import jit
from polyseme.system.threads import ordered_map

_BLOCK = 1 << 22  # bytes searched at once
_BLOCK_LINES = 10_000  # lines split at once
_NEWLINE, _TAB, _RETURN, _SPACE, _PLUS, _MINUS, _POINT, _ZERO, _NINE, _CAPITAL_E, _E = map(np.uint8, b"\n\t\r +-.09Ee")
_MAX_DIGITS = 18  # of an int64
_EXACT = 1 << 53  # float64 represents all integers up to here
_MIXER = np.uint64(0x9E3779B97F4A7C15)
_POWERS = 10.0 ** np.arange(23)  # exact in float64


@dataclass(frozen=True)
class EmbeddingLines:
    """Lines of a word and its vector, which are parsed on demand."""

    path: Path
    content: mmap.mmap
    width: int
    line_numbers: Ids  # from 1
    starts: Ids
    splits: Ids  # the space between word and vector, or the end if values are missing
    ends: Ids

    @classmethod
    def find(cls, path: Path, content: mmap.mmap, start: int, width: int, *, max_length: int) -> Self:
        """Find the non-empty lines and the vector in each, without parsing it."""
        values = np.frombuffer(content, np.uint8)
        searches = (partial(_newlines, values, offset) for offset in range(start, len(values), _BLOCK))
        ends = np.concatenate([*ordered_map(searches, num_cores()), [len(values)]])
        starts = np.concatenate([[start], ends[:-1] + 1])
        splits = np.empty_like(starts)
        parts = (slice(first, first + _BLOCK_LINES) for first in range(0, len(starts), _BLOCK_LINES))
        tasks = (partial(_split, values, starts[part], ends[part], width, splits[part]) for part in parts)
        deque(ordered_map(tasks, num_cores()), maxlen=0)
        line_numbers = np.arange(len(starts)) + (2 if start else 1)
        invalid = np.flatnonzero((ends > starts) & ((splits == ends) | (ends - starts > max_length)))
        if len(invalid):
            raise _invalid_line(path, line_numbers[invalid[0]], width)
        lines = cls(path, content, width, line_numbers, starts, splits, ends)
        return lines if (ends > starts).all() else lines.take(ends > starts)

    def take(self, indices: Ids | Flags) -> Self:
        """A selection of the lines."""
        parts = (part[indices] for part in (self.line_numbers, self.starts, self.splits, self.ends))
        return type(self)(self.path, self.content, self.width, *parts)

    def words(self) -> tuple[list[str], bool]:
        """The words, and whether they are certainly distinct."""
        words = np.empty(int((self.splits - self.starts + 1).sum()), np.uint8)
        hashes = np.empty(len(self.starts), np.uint64)
        _gather(np.frombuffer(self.content, np.uint8), self.starts, self.splits, words, hashes)
        hashes.sort()
        text = words.tobytes().decode("utf-8", "replace")
        return text.split("\n")[:-1], bool((hashes[1:] != hashes[:-1]).all()) and "\ufffd" not in text

    def blocks(self, step: int) -> Iterator[tuple[int, Floats]]:
        """The vectors of `step` lines at a time, with the index of the first."""
        firsts = range(0, len(self.ends), step)
        tasks = (partial(self._parse, slice(first, first + step)) for first in firsts)
        yield from zip(firsts, ordered_map(tasks, num_cores()), strict=True)

    def _parse(self, lines: slice) -> Floats:
        splits, ends = self.splits[lines], self.ends[lines]
        vectors, skipped = np.empty((len(ends), self.width), np.float32), np.zeros(len(ends), np.bool_)
        _parse(np.frombuffer(self.content, np.uint8), splits, ends, vectors, skipped)
        for index in np.flatnonzero(skipped):
            values = self.content[splits[index] + 1 : ends[index]].split(b" ")
            try:
                with np.errstate(over="ignore"):
                    vectors[index] = np.array([float(value) for value in values], np.float64).reshape(self.width)
            except ValueError:
                raise _invalid_line(self.path, self.line_numbers[lines][index], self.width) from None
        return vectors


def _invalid_line(path: Path, line_number: int, width: int) -> CheckpointError:
    return CheckpointError(f"{path}, line {line_number}: not a word and {width:,} numbers; correct the line")


def _newlines(content: Bytes, start: int) -> Ids:
    return start + np.flatnonzero(content[start : start + _BLOCK] == _NEWLINE)


@jit
def _split(content: Bytes, starts: Ids, ends: Ids, width: int, splits: Ids) -> None:
    """Find the space before the vector of each line, and strip trailing white space."""
    for index in range(len(starts)):
        start, end = starts[index], ends[index]
        while end > start and content[end - 1] in (_SPACE, _TAB, _RETURN):
            end -= 1
        line = content[start:end]
        num_spaces = -width  # within the word
        for position in range(len(line)):
            num_spaces += line[position] == _SPACE
        position = len(line) if num_spaces < 0 else 0
        while position < len(line) and (line[position] != _SPACE or num_spaces):
            num_spaces -= line[position] == _SPACE
            position += 1
        splits[index], ends[index] = start + position, end


@jit
def _parse(content: Bytes, splits: Ids, ends: Ids, vectors: Floats, skipped: Flags) -> None:
    """Parse the values of lines exactly as Python does; lines with harder numbers are marked as skipped."""
    for index in range(len(splits)):
        line = content[splits[index] : ends[index]]
        position = 0
        for column in range(vectors.shape[1]):
            position += 1  # a space
            negative = position < len(line) and line[position] == _MINUS
            position += negative
            mantissa, num_digits, power = 0, 0, 0
            after_point = False
            while position < len(line):
                byte = line[position]
                if _ZERO <= byte <= _NINE:
                    mantissa = mantissa * 10 + (byte - _ZERO)
                    num_digits += 1
                    power -= after_point
                elif byte == _POINT and not after_point:
                    after_point = True
                else:
                    break
                position += 1
            if position < len(line) and (line[position] == _E or line[position] == _CAPITAL_E):
                position += 1
                sign = 1
                if position < len(line) and (line[position] == _MINUS or line[position] == _PLUS):
                    sign = -1 if line[position] == _MINUS else 1
                    position += 1
                first, exponent = position, 0
                while position < min(len(line), first + 3) and _ZERO <= line[position] <= _NINE:
                    exponent = exponent * 10 + (line[position] - _ZERO)
                    position += 1
                num_digits = num_digits if position > first else 0
                power += sign * exponent
            at_end = position == len(line)
            complete = at_end if column == vectors.shape[1] - 1 else not at_end and line[position] == _SPACE
            if not complete or not 0 < num_digits <= _MAX_DIGITS or mantissa > _EXACT or abs(power) >= len(_POWERS):
                skipped[index] = True
                break
            value = mantissa / _POWERS[-power] if power < 0 else mantissa * _POWERS[power]
            vectors[index, column] = -value if negative else value


@jit
def _gather(content: Bytes, starts: Ids, ends: Ids, gathered: Bytes, hashes: NDArray[np.uint64]) -> None:
    """Concatenate words with a line break after each, and hash each word."""
    length = 0
    for index in range(len(starts)):
        hashes[index] = 0
        for position in range(starts[index], ends[index]):
            gathered[length] = content[position]
            hashes[index] = (hashes[index] ^ np.uint64(content[position])) * _MIXER
            hashes[index] ^= hashes[index] >> np.uint64(32)
            length += 1
        gathered[length] = _NEWLINE
        length += 1
