"""Word vectors in the files of other programs: word2vec's text and binary, GloVe's text, fastText's .vec.

A binary file begins with the number of words and of their numbers; then comes each word, a space, and its numbers.
The text of word2vec and fastText has the same first line, and GloVe's has none. The word of a line is all that stands
before its numbers, spaces and all.
"""

from __future__ import annotations

import itertools
import logging
import mmap
import os
import re
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import models

from polyseme.errors import CheckpointError, DataError
from polyseme.files import sync_file, sync_folder
from polyseme.text.tokenizer import Specials, Tokenizer
from polyseme.text.vocabulary import TokenizerConfig, mend, stages

logger = logging.getLogger(__name__)

VECTOR_FORMATS = ("word2vec", "word2vec-text", "glove")
"""What can be written; fastText's .vec is word2vec-text."""

UNKNOWN = "<unk>"
"""Stands for words that a file does not have: its own vector where it has one, else zeros."""

_BLOCK = 10_000  # words that are read together, and …
_BLOCK_NUMBERS = 250_000  # … numbers
_LONGEST_WORD = 1_000  # bytes
_LONGEST_LINE = 1 << 24
_LOOKED_AT = 100  # lines that tell how many numbers a word has
_HEADER = re.compile(rb"(\d{1,12})[ \t](\d{1,6})[ \t\r]*(?:\n|\Z)")
_NUMBER = re.compile(rb"[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?|[-+]?(?:nan|inf|infinity)", re.IGNORECASE)
_OTHERS = {
    b"\xba\x16\x4f\x2f": "a fastText model with its subwords; take the .vec that belongs to it",
    b"\x1f\x8b": "packed; unpack it with gunzip first",
    b"PK\x03\x04": "packed; unpack it with unzip first",
}

Floats = NDArray[np.float32]
Ids = NDArray[np.int64]
Blocks = Iterator[tuple[int, Floats]]  # vectors, a few at a time, and the number of the first


@dataclass(frozen=True, kw_only=True)
class WordVectors:
    """What a file holds; it has been looked through, but its vectors are read when they are needed."""

    family: str  # that such a file is usual for; it does not say how its vectors were learnt
    words: list[str]  # one of them `UNKNOWN`
    width: int
    read: Callable[[], Floats]  # (N, D)


class Words(Tokenizer):
    """The words of a file as a tokenizer, which is made when it is first used: a million take seconds."""

    def __init__(self, words: Sequence[str]) -> None:
        self.words = words

    def __getattr__(self, name: str) -> Any:
        if "backend" in vars(self):
            raise AttributeError(f"a tokenizer has no attribute {name!r}")
        together = "\n".join(self.words)
        config = TokenizerConfig(kind="word", specials="plain", lowercase=together == together.lower())
        numbers = {word: number for number, word in enumerate(self.words)}
        unknown = numbers[UNKNOWN]  # which is an empty text too
        backend = stages(config, models.WordLevel(numbers, unk_token=UNKNOWN))
        super().__init__(backend, config, Specials(unknown=unknown, end=unknown))
        return getattr(self, name)


def read_vectors(path: Path) -> WordVectors:
    """Open a file: find its words, and look whether what stands behind them can be vectors."""
    try:
        with path.open("rb") as file:
            if not os.fstat(file.fileno()).st_size:
                raise CheckpointError(f"{path} is empty; download or export it again")
            content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read ({error.strerror}); check the path") from None
    for mark, what in _OTHERS.items():
        if content[: len(mark)] == mark:
            raise CheckpointError(f"{path} is {what}")
    found = _HEADER.match(content[:100])
    count, width, start = (int(found[1]), int(found[2]), found.end()) if found else (None, None, 0)
    if count == 0 or width == 0:
        raise CheckpointError(f"{path} holds no vectors, as its first line says; export it again")
    blocks: Callable[[], Blocks]
    if count and width and not _is_text(content, start, width):
        words, places = _scan_binary(path, content, start, count, width)
        blocks = partial(_binary_blocks, content, places, width)
    else:
        width = _width_of_text(path, content, start, width)
        words, blocks = _scan_text(path, content, start, count, width)
    words = words if UNKNOWN in words else [*words, UNKNOWN]
    return WordVectors(
        family="skipgram" if found else "glove",
        words=words,
        width=width,
        read=lambda: _fill(np.zeros((len(words), width), np.float32), _finite(path, words, blocks())),
    )


def _fill(vectors: Floats, blocks: Blocks) -> Floats:
    for first, block in blocks:
        vectors[first : first + len(block)] = block
    return vectors


def _is_text(content: mmap.mmap, start: int, width: int) -> bool:
    """Whether numbers are written in digits after the first word; no vector of floats happens to look so."""
    line = next(filter(None, _lines(content, start)), b"")
    return _num_numbers(line) >= max(1, min(width, len(line.split(b" ")) - 1))


def _scan_binary(path: Path, content: mmap.mmap, start: int, count: int, width: int) -> tuple[list[str], Ids]:
    """The words of a binary file, and where their numbers begin."""
    size = 4 * width
    # A word and its numbers; or else, once, all the rest.
    entry = re.compile(rb"(?s)([^ ]{0,%d}+ ).{%d}|.+" % (_LONGEST_WORD, size))
    found: list[bytes] = entry.findall(content, start) if count * (size + 1) <= len(content) - start else []
    if found and not found[-1]:
        del found[-1]  # the rest
    ends = start + np.cumsum(np.fromiter(map(len, found), np.int64, len(found)) + size)
    if len(found) != count or len(content) - ends[-1] > 1:  # a line may end there
        raise CheckpointError(
            f"{path} does not hold {count:,} words with {width:,} numbers each, as its first line says; "
            "it may be cut short: download or export it again"
        )
    # Some programs end a line after each vector, and so before the next word.
    words = b"".join(found).replace(b" \n", b" ").decode("utf-8", "replace").split(" ")[:-1]
    words, kept = _different(path, words)
    return words, (ends - size)[kept]


def _binary_blocks(content: mmap.mmap, places: Ids, width: int) -> Blocks:
    """The vectors that begin at some places, a few at a time, and the number of the first."""
    windows = np.ndarray(len(content) - 4 * width + 1, f"V{4 * width}", content, strides=(1,))  # a vector anywhere
    step = _words_in_block(width)
    for first in range(0, len(places), step):
        yield first, windows[places[first : first + step]].view("<f4").reshape(-1, width)


def _width_of_text(path: Path, content: mmap.mmap, start: int, width: int | None) -> int:
    """How many numbers a word has."""
    runs = [_num_numbers(line) for line in itertools.islice(filter(None, _lines(content, start)), _LOOKED_AT)]
    usual = statistics.mode(runs) if runs else 0  # more than the others have is a word such as "route 66"
    if not usual:
        raise CheckpointError(f"{path} holds no word vectors; give a model, or a file of word2vec, GloVe or fastText")
    if width not in (None, usual):
        raise CheckpointError(
            f"{path} has {usual:,} numbers a word and not {width:,}, as its first line says; mend that line"
        )
    return usual


def _scan_text(
    path: Path, content: mmap.mmap, start: int, count: int | None, width: int
) -> tuple[list[str], Callable[[], Blocks]]:
    """The words of a text, and what reads their numbers."""
    from polyseme.interchange.vector_lines import Lines  # which brings a compiler

    lines = Lines.find(path, content, start, width, longest=_LONGEST_LINE)
    words, different = lines.words()
    if count not in (None, len(words)):
        raise CheckpointError(
            f"{path} holds {len(words):,} words and not {count:,}, as its first line says; "
            "it may be cut short: download or export it again"
        )
    if not different:
        words, kept = _different(path, words)
        lines = lines.take(kept)
    return words, partial(lines.blocks, _words_in_block(width))


def _different(path: Path, words: list[str]) -> tuple[list[str], Ids]:
    """The words, each once, and where each stood first."""
    if len(set(words)) == len(words):
        return words, np.arange(len(words))
    first = {word: number for number, word in reversed([*enumerate(words)])}
    logger.warning(
        "%s names %d words again that it had already; their first vectors count", path, len(words) - len(first)
    )
    kept = np.sort(np.fromiter(first.values(), np.int64, len(first)))
    return [words[number] for number in kept.tolist()], kept


def _finite(path: Path, words: Sequence[str], blocks: Blocks) -> Blocks:
    """The same vectors, if they are finite."""
    for first, block in blocks:
        finite = np.isfinite(block)
        if not finite.all():
            word = words[first + int(np.argmin(finite.all(1)))]
            raise CheckpointError(f"{path}: the vector of {word!r:.60} has numbers that are not finite; leave it out")
        yield first, block


def _words_in_block(width: int) -> int:
    return max(1, min(_BLOCK, _BLOCK_NUMBERS // width))


def _lines(content: mmap.mmap, start: int) -> Iterator[bytes]:
    """The lines without what is blank at their end; one that is too long for any vector is cut, and then refused."""
    while start < len(content):
        end = content.find(b"\n", start, start + _LONGEST_LINE)
        end = end if end >= 0 else min(len(content), start + _LONGEST_LINE)
        yield content[start:end].rstrip(b" \t\r")
        start = end + 1


def _num_numbers(line: bytes) -> int:
    """How many of the last fields of a line are numbers, its first not counted, which is a word."""
    fields = line.split(b" ")[:0:-1]
    return sum(1 for _ in itertools.takewhile(_NUMBER.fullmatch, fields))


def write_vectors(path: Path, words: Sequence[str], vectors: Floats, to: str) -> None:
    """Write words and their vectors in one of the formats, in one go."""
    breaks = re.compile("\n" if to == "glove" else "[ \n]")
    wrong = next(filter(breaks.search, words), None)
    if wrong is not None:
        what, instead = ("a line break", "leave it out") if "\n" in wrong else ("a space", "choose glove")
        raise DataError(f"{wrong!r:.60} has {what} in it, which {to} cannot hold; {instead}")
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with beside.open("wb") as file:
            if to != "glove":
                file.write(b"%d %d\n" % vectors.shape)
            template = b" %.9g" * vectors.shape[1]  # as many digits as tell any two floats apart
            for word, vector in zip(words, vectors.astype("<f4", copy=False), strict=True):
                numbers = b" " + vector.tobytes() if to == "word2vec" else template % tuple(vector.tolist())
                file.write(mend(word).encode() + numbers + b"\n")
        sync_file(beside)
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)
    sync_folder(path.parent)
