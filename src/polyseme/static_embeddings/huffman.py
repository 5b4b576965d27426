"""Huffman coding of a vocabulary for hierarchical softmax (Morin and Bengio, 2005; Mikolov et al., 2013b)."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from polyseme.arrays import Floats, Ids, Integers
from polyseme.system.jit import jit


class HuffmanTree(NamedTuple):
    """The path from the root to each word: that of word w is at `starts[w]:starts[w + 1]`."""

    starts: Ids  # (V + 1,)
    nodes: NDArray[np.int32]  # inner nodes
    labels: Floats  # the binary target at each: 1 for the left branch (code bit 0), 0 for the right
    longest: int  # length of the longest path


def build_huffman_tree(counts: Integers) -> HuffmanTree:
    """Build the tree in which frequent words have short paths; words with count 0 have an empty one."""
    words = np.flatnonzero(counts)
    if not len(words):
        return HuffmanTree(np.zeros(len(counts) + 1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32), 0)
    words = words[np.argsort(-counts[words], kind="stable")]
    parents, bits = _merge(counts[words].astype(np.int64))
    lengths, nodes, codes = _paths(parents, bits, len(words))
    starts = np.zeros(len(counts) + 1, np.int64)
    starts[words + 1] = lengths
    starts = np.cumsum(starts)
    # The paths are sorted by count; reorder them by id.
    path_starts = np.cumsum(lengths) - lengths
    by_id = np.argsort(words)
    order = np.repeat(path_starts[by_id] - starts[words[by_id]], lengths[by_id]) + np.arange(lengths.sum())
    labels = np.float32(1) - codes[order].astype(np.float32)
    return HuffmanTree(starts=starts, nodes=nodes[order], labels=labels, longest=int(lengths.max()))


@jit
def _merge(counts: Ids) -> tuple[Integers, Integers]:
    """Merge the two rarest nodes until one is left; return the parent and the code bit of each leaf and inner node."""
    num_leaves = len(counts)
    sizes = np.full(2 * num_leaves - 1, np.int64(2**62))
    sizes[:num_leaves] = counts
    parents = np.zeros(2 * num_leaves - 1, np.int64)
    bits = np.zeros(2 * num_leaves - 1, np.uint8)
    leaf, inner = num_leaves - 1, num_leaves
    for new in range(num_leaves, 2 * num_leaves - 1):
        size = 0
        for bit in range(2):
            if leaf >= 0 and sizes[leaf] < sizes[inner]:
                rarest = leaf
                leaf -= 1
            else:
                rarest = inner
                inner += 1
            size += sizes[rarest]
            parents[rarest] = new
            bits[rarest] = bit
        sizes[new] = size
    return parents, bits


@jit
def _paths(parents: Integers, bits: Integers, num_leaves: int) -> tuple[Integers, Integers, Integers]:
    """The length of the path to each leaf, and the inner nodes and code bits of all paths concatenated."""
    root = 2 * num_leaves - 2
    depths = np.zeros(2 * num_leaves - 1, np.int64)
    for node in range(root - 1, -1, -1):
        depths[node] = depths[parents[node]] + 1
    lengths = depths[:num_leaves].copy()
    nodes = np.empty(lengths.sum(), np.int32)
    codes = np.empty(lengths.sum(), np.uint8)
    end = 0
    for leaf in range(num_leaves):
        end += lengths[leaf]
        node = leaf
        for depth in range(lengths[leaf]):
            codes[end - 1 - depth] = bits[node]
            node = parents[node]
            nodes[end - 1 - depth] = node - num_leaves
    return lengths, nodes, codes
