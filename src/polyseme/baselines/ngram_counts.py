"""Counting of n-grams by sorting the positions of a text.

All positions are sorted by the n words from there on, by one counting sort per word (least significant word first).
Then equal n-grams of every length lie side by side, and one pass over the sorted positions writes the trie of all
orders. Nothing is hashed, and the result does not depend on the machine. Memory is proportional to the text; so is
that of the n-grams themselves, most of which occur once.
"""

from dataclasses import dataclass

import numpy as np

from polyseme.arrays import Bytes, Ids, Integers
from polyseme.baselines.ngram_trie import Indices, NgramTrie
from polyseme.errors import ConfigError, DataError
from polyseme.system.formatting import format_bytes
from polyseme.system.hardware import available_memory
from polyseme.system.jit import jit

_BYTES_PER_TOKEN = 16  # for each length of n-grams; up to 20 if none of them occurred twice
_MAX_TOKENS = 1 << 29  # nodes of an order of 6 are numbered by 32 bits


@dataclass(frozen=True, kw_only=True)
class NgramCounts:
    """N-grams with the counts that Kneser–Ney smoothing is estimated from.

    An n-gram of the highest order counts as often as it occurs; a shorter one as often as there are different words
    before it (its continuation count), unless it begins a document: then nothing precedes it, and it counts as often as
    it occurs.
    """

    trie: NgramTrie
    counts: Indices  # (N + 1,)


def count_ngrams(tokens: Integers, *, vocab_size: int, order: int, end: int | None) -> NgramCounts:
    """Count the n-grams of up to `order` tokens; those of a document follow the `end` token of another one."""
    needed, free = _BYTES_PER_TOKEN * order * len(tokens), available_memory()
    if len(tokens) > _MAX_TOKENS:
        raise DataError(f"the text has {len(tokens):,} tokens, more than {_MAX_TOKENS:,} cannot be counted; use less")
    if needed > free:
        raise ConfigError(
            f"counting {len(tokens):,} tokens takes about {format_bytes(needed)}, and {format_bytes(free)} are free; "
            "use less text or a lower model.order"
        )
    text = np.empty(len(tokens) + (end is not None), np.int32)
    text[len(text) - len(tokens) :] = tokens
    if end is not None:
        text[0] = end
    lengths = _ngram_lengths(text, order, -1 if end is None else end)
    positions = _sorted_positions(text, lengths, order, vocab_size)
    shared = _shared_lengths(text, lengths, positions)
    sizes = _level_sizes(positions, lengths, shared, order)
    level_starts = np.concatenate([[0, 1, 1 + vocab_size], 1 + vocab_size + np.cumsum(sizes)])
    words, counts = np.zeros(level_starts[-1], np.int32), np.zeros(level_starts[-1], np.int32)
    first = np.zeros(level_starts[-2] + 1, np.int32)
    _write_nodes(text, lengths, positions, shared, level_starts, -1 if end is None else end, words, counts, first)
    for length in range(1, order):
        _count_preceding_words(text, lengths, positions, shared, level_starts, length, counts)
    trie = NgramTrie(words=words, first=first, level_starts=tuple(level_starts.tolist()))
    return NgramCounts(trie=trie, counts=counts)


@jit
def _ngram_lengths(text: Indices, order: int, end: int) -> Bytes:
    """The length of the longest n-gram at each position; none crosses the end of a document."""
    lengths = np.empty(len(text), np.uint8)
    available = 0
    for position in range(len(text) - 1, -1, -1):
        available += 1
        lengths[position] = min(order, available)
        if text[position] == end:
            available = 1
    return lengths


@jit
def _sorted_positions(text: Indices, lengths: Bytes, order: int, vocab_size: int) -> Indices:
    """All positions in the lexicographic order of their n-grams, of which shorter ones come first."""
    positions, after = np.arange(len(text)).astype(np.int32), np.empty(len(text), np.int32)
    for offset in range(order - 1, -1, -1):
        starts = np.zeros(vocab_size + 2, np.int64)
        for position in range(len(text)):
            starts[1 + (text[position + offset] + 1 if offset < lengths[position] else 0)] += 1
        starts = np.cumsum(starts)
        for start in positions:
            word = int(text[start + offset]) + 1 if offset < lengths[start] else 0
            after[starts[word]] = start
            starts[word] += 1
        positions, after = after, positions
    return positions


@jit
def _shared_lengths(text: Indices, lengths: Bytes, positions: Indices) -> Bytes:
    """The number of words in which the n-gram of each sorted position begins like the one before."""
    shared = np.zeros(len(positions), np.uint8)
    for index in range(1, len(positions)):
        before, here = positions[index - 1], positions[index]
        longest, length = min(lengths[before], lengths[here]), 0
        while length < longest and text[before + length] == text[here + length]:
            length += 1
        shared[index] = length
    return shared


@jit
def _level_sizes(positions: Indices, lengths: Bytes, shared: Bytes, order: int) -> Ids:
    """The number of different n-grams of each length from 2 on."""
    sizes = np.zeros(order - 1, np.int64)
    for index in range(len(positions)):
        for length in range(max(2, shared[index] + 1), lengths[positions[index]] + 1):
            sizes[length - 2] += 1
    return sizes


@jit
def _write_nodes(
    text: Indices,
    lengths: Bytes,
    positions: Indices,
    shared: Bytes,
    level_starts: Ids,
    end: int,
    words: Indices,
    counts: Indices,
    first: Indices,
) -> None:
    """Write the nodes of all lengths, and how often n-grams occur where that is their count."""
    order = len(level_starts) - 2
    vocab_size = level_starts[2] - 1
    for word in range(vocab_size):
        words[word + 1] = word
    first[1] = vocab_size  # children of the root
    next_nodes, path = level_starts[:-1].copy(), np.zeros(order + 1, np.int64)
    for index in range(len(positions)):
        position = positions[index]
        path[1] = 1 + text[position]
        for length in range(max(2, shared[index] + 1), lengths[position] + 1):
            node = next_nodes[length]
            next_nodes[length] += 1
            words[node] = text[position + length - 1]
            first[path[length - 1] + 1] += 1
            path[length] = node
        if text[position] == end:
            for length in range(2, lengths[position] + 1):
                counts[path[length]] += 1
        elif lengths[position] == order:
            counts[path[order]] += 1
    first[0] = 1
    for node in range(len(first) - 1):
        first[node + 1] += first[node]


@jit
def _count_preceding_words(
    text: Indices, lengths: Bytes, positions: Indices, shared: Bytes, level_starts: Ids, length: int, counts: Indices
) -> None:
    """Count the different words before each n-gram of a length: the n-grams that are longer by one word."""
    nodes = np.empty(len(text), np.int32)
    node = int(level_starts[length]) - 1
    for index in range(len(positions)):
        position = positions[index]
        if length == 1:
            node = 1 + int(text[position])
        elif shared[index] < length <= lengths[position]:
            node += 1
        nodes[position] = node  # not used for positions with shorter n-grams
    for index in range(len(positions)):
        position = positions[index]
        if shared[index] <= length < lengths[position]:
            counts[nodes[position + 1]] += 1
