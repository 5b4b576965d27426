"""Character n-grams of words, hashed into buckets exactly as by the fastText program."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from polyseme.arrays import Integers
from polyseme.corpora.utf16_text import replace_surrogates
from polyseme.system.jit import jit

_SENTENCE_END = "</s>"  # the program's token at the end of a line, which has no n-grams
_OFFSET_BASIS, _PRIME = np.uint32(2166136261), np.uint32(16777619)  # FNV-1a
_FIRST_BYTE = np.int8(-64)  # of a character: 0x80 to 0xBF, which continue one, are below it


def hash_ngrams(words: Sequence[str], *, min_n: int, max_n: int, num_buckets: int) -> tuple[Integers, Integers]:
    """The buckets of the n-grams of all words, concatenated, and where those of each word start, (N + 1,).

    The n-grams are those of the word between < and >; these two alone are none. An empty word has no n-grams.
    """
    spellings = [replace_surrogates(f"<{word}>").encode() if word and word != _SENTENCE_END else b"" for word in words]
    text = np.frombuffer(b"".join(spellings), np.int8)
    bounds = np.cumsum(np.fromiter(map(len, spellings), np.int64, len(spellings)))
    buckets = np.empty(len(text) * max(0, max_n - max(1, min_n) + 1), np.int32)
    starts = _hash_ngrams(text, np.append(0, bounds), min_n, max_n, np.uint32(num_buckets), buckets)
    return buckets[: starts[-1]].copy(), starts


@jit
def _hash_ngrams(
    text: NDArray[np.int8], bounds: Integers, min_n: int, max_n: int, num_buckets: np.uint32, buckets: Integers
) -> Integers:
    """Write the buckets of all n-grams, by first character and then by length; return where each word starts."""
    starts = np.zeros(len(bounds), np.int64)
    count = 0
    for word in range(len(bounds) - 1):
        begin, end = bounds[word], bounds[word + 1]
        for first in range(begin, end):
            if text[first] < _FIRST_BYTE:
                continue
            hash, position = _OFFSET_BASIS, first
            for length in range(1, max_n + 1):
                if position == end:
                    break
                hash = _extend(hash, text[position])
                position += 1
                while position < end and text[position] < _FIRST_BYTE:
                    hash = _extend(hash, text[position])
                    position += 1
                if length >= min_n and not (length == 1 and (first == begin or position == end)):
                    buckets[count] = hash % num_buckets
                    count += 1
        starts[word + 1] = count
    return starts


@jit
def _extend(hash: np.uint32, byte: np.int8) -> np.uint32:
    """FNV-1a of one more byte; the fastText program extends its sign to 32 bits."""
    return np.uint32(np.uint32(hash ^ np.uint32(byte)) * _PRIME)
