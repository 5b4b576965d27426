"""Huffman's tree over the words of a text, by which hierarchical softmax asks a few questions instead of V."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polyseme.kernels import compiled
from polyseme.static.learner import Floats

Integers = NDArray[np.integer[Any]]


class Tree(NamedTuple):
    """The ways from the root to all words, one after another: the inner nodes, and the answer to give at each."""

    starts: NDArray[np.int64]  # (V + 1,), where the way of each word begins
    nodes: NDArray[np.int32]
    answers: Floats  # 1 where it turns left, which is code bit 0, and 0 where right
    longest: int  # way


def huffman(counts: Integers) -> Tree:
    """The tree in which frequent words have short ways; words that never occur have none."""
    words = np.flatnonzero(counts)
    if not len(words):
        return Tree(np.zeros(len(counts) + 1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32), 0)
    words = words[np.argsort(-counts[words], kind="stable")]
    parents, turns = _merge(counts[words].astype(np.int64))
    lengths, nodes, turned = _ways(parents, turns, len(words))
    starts = np.zeros(len(counts) + 1, np.int64)
    starts[words + 1] = lengths
    starts = np.cumsum(starts)
    # Ways were found in the order of the counts; they are kept in the order of the ids.
    begins = np.cumsum(lengths) - lengths
    order = np.argsort(words)
    places = np.repeat(begins[order] - starts[words[order]], lengths[order]) + np.arange(lengths.sum())
    answers = np.float32(1) - turned[places].astype(np.float32)
    return Tree(starts=starts, nodes=nodes[places], answers=answers, longest=int(lengths.max()))


@compiled
def _merge(counts: NDArray[np.int64]) -> tuple[Integers, Integers]:
    """Join the two rarest until one is left: the parent of each leaf and inner node, and which turn leads to it."""
    number = len(counts)
    sizes = np.full(2 * number - 1, np.int64(2**62))
    sizes[:number] = counts
    parents = np.zeros(2 * number - 1, np.int64)
    turns = np.zeros(2 * number - 1, np.uint8)
    leaf, inner = number - 1, number
    for new in range(number, 2 * number - 1):
        size = 0
        for turn in range(2):
            if leaf >= 0 and sizes[leaf] < sizes[inner]:
                rarest = leaf
                leaf -= 1
            else:
                rarest = inner
                inner += 1
            size += sizes[rarest]
            parents[rarest] = new
            turns[rarest] = turn
        sizes[new] = size
    return parents, turns


@compiled
def _ways(parents: Integers, turns: Integers, number: int) -> tuple[Integers, Integers, Integers]:
    """From the root to each leaf: how long the ways are, and all their inner nodes and turns in a row."""
    root = 2 * number - 2
    depths = np.zeros(2 * number - 1, np.int64)
    for node in range(root - 1, -1, -1):
        depths[node] = depths[parents[node]] + 1
    lengths = depths[:number].copy()
    nodes = np.empty(lengths.sum(), np.int32)
    turned = np.empty(lengths.sum(), np.uint8)
    end = 0
    for leaf in range(number):
        end += lengths[leaf]
        node = leaf
        for place in range(lengths[leaf]):
            turned[end - 1 - place] = turns[node]
            node = parents[node]
            nodes[end - 1 - place] = node - number
    return lengths, nodes, turned
