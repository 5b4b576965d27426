"""N-grams as a trie in breadth-first order, and probabilities by interpolation along it.

Node 0 is the root; then come the words of the vocabulary, all bigrams, all trigrams and so on, in lexicographic order
of their words. So the children of a node, which are the words that followed it, lie side by side and are sorted, and
`first` is the only pointer that a node needs. Every suffix of an n-gram is an n-gram of the trie.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Self

import numpy as np
from numpy.typing import NDArray

from polyseme.arrays import Doubles, Floats, Ids, Integers
from polyseme.system.jit import jit

Indices = NDArray[np.int32]


@dataclass(frozen=True, kw_only=True)
class NgramTrie:
    """The n-grams of a text."""

    words: Indices  # (N + 1,), the last word of each n-gram
    first: Indices  # (C + 1,), the first child of each node that may have children, and the end of the last one's
    level_starts: tuple[int, ...]  # the first node of each length, from 0 to the order, and the end

    @property
    def order(self) -> int:
        return len(self.level_starts) - 2

    @property
    def vocab_size(self) -> int:
        return self.level_starts[2] - 1

    @property
    def num_ngrams(self) -> tuple[int, ...]:
        """The number of n-grams of each length from 2 on."""
        return tuple(end - start for start, end in pairwise(self.level_starts[2:]))

    def find(self, ngrams: Integers) -> Ids:
        """The node of each n-gram (N, length), 0 where it is not in the trie."""
        nodes = np.empty(len(ngrams), np.int64)
        _find_nodes(self.words, self.first, ngrams, nodes)
        return nodes

    def extended(self, parents: Ids, words: Integers) -> Self:
        """A trie with one more level: `words` after the n-grams `parents`, sorted by both."""
        *_, start, end = self.level_starts
        ends = self.first[-1] + np.cumsum(np.bincount(parents - start, minlength=end - start))
        return replace(
            self,
            words=np.concatenate([self.words, words], dtype=np.int32),
            first=np.concatenate([self.first, ends], dtype=np.int32),
            level_starts=(*self.level_starts, end + len(words)),
        )

    def is_consistent(self) -> bool:
        """Whether no index points outside of the arrays, which compiled code does not check."""
        children = (self.first[0], self.first[-1]) == (1, len(self.words)) and bool((np.diff(self.first) >= 0).all())
        return children and bool(((self.words >= 0) & (self.words < self.vocab_size)).all())


@dataclass(frozen=True, kw_only=True)
class InterpolatedNgrams:
    """p(w | h) = frequency(h w) + backoff(h) p(w | h'), where h' is h without its first word.

    Discounted relative frequencies are 0 for n-grams that are not in the trie; backoff weights are 1 for contexts that
    are not. The distribution of the empty context is interpolated with the uniform one. A backoff model that is not
    interpolated has the same form, with the difference as the frequency, which may be negative.
    """

    trie: NgramTrie
    frequencies: Floats  # (N + 1,)
    backoffs: Floats  # (C,)

    @cached_property
    def _arrays(self) -> tuple[Indices, Indices, Floats, Floats]:
        return self.trie.words, self.trie.first, self.frequencies, self.backoffs

    @cached_property
    def _most_probable(self) -> Indices:
        """One more than the most probable word after each context, 0 where it has not been computed."""
        return np.zeros(len(self.backoffs), np.int32)

    @cached_property
    def _has_negative(self) -> bool:
        return bool((self.frequencies < 0).any())

    def probabilities(self, contexts: Ids, targets: Ids) -> Doubles:
        """The probability of each target (N,) after a context (N, order - 1), with -1 before the first word.

        It is fastest if each context continues the one before by its target.
        """
        found = np.empty(len(targets))
        _probabilities(*self._arrays, contexts, targets, found)
        return found

    def distributions(self, contexts: Ids) -> Doubles:
        """The probability of every word after each context, (N, V)."""
        found = np.empty((len(contexts), self.trie.vocab_size))
        _distributions(*self._arrays, contexts, found)
        return found

    def most_probable(self, contexts: Ids) -> Ids:
        """The most probable word after each context; of several, the one with the lowest id."""
        if self._has_negative:  # the most probable word may be one that has not followed the context
            return np.array([self.distributions(context[None])[0].argmax() for context in contexts], np.int64)
        found = np.empty(len(contexts), np.int64)
        _most_probable_words(*self._arrays, contexts, self._most_probable, found)
        return found


@jit
def find_child(words: Indices, first: Indices, node: int, word: int) -> int:
    """The node of an n-gram and one more word; 0 if there is none."""
    if node == 0:
        return word + 1
    if node >= len(first) - 1:
        return 0
    low, high = first[node], first[node + 1]
    end = high
    while low < high:
        middle = (low + high) >> 1
        if words[middle] < word:
            low = middle + 1
        else:
            high = middle
    return low if low < end and words[low] == word else 0


@jit
def _find_nodes(words: Indices, first: Indices, ngrams: Integers, nodes: Ids) -> None:
    """Write the node of each n-gram, 0 where it is not in the trie."""
    for row in range(len(ngrams)):
        node = 0
        for position in range(ngrams.shape[1]):
            node = find_child(words, first, node, ngrams[row, position])
            if node == 0:
                break
        nodes[row] = node


@jit
def _find_contexts(words: Indices, first: Indices, context: Ids, nodes: Ids) -> int:
    """Write the nodes of the last 0, 1, 2 … words of a context, as far as they are in the trie; return the largest."""
    nodes[0] = 0
    length = 0
    for start in range(len(context) - 1, -1, -1):
        if context[start] < 0:
            break
        node = 0
        for position in range(start, len(context)):
            node = find_child(words, first, node, context[position])
            if node == 0:
                break
        if node == 0:
            break
        length += 1
        nodes[length] = node
    return length


@jit
def _probability(
    words: Indices, first: Indices, frequencies: Floats, backoffs: Floats, nodes: Ids, length: int, word: int
) -> float:
    """The probability of a word after the longest of some contexts."""
    probability = 1 / np.float64(first[1] - 1)
    in_trie = True
    for level in range(length + 1):
        node = nodes[level]
        if node < len(backoffs):
            probability *= backoffs[node]
        child = find_child(words, first, node, word) if in_trie else 0
        in_trie = child > 0
        if in_trie:
            probability += frequencies[child]
    return probability


@jit
def _probabilities(
    words: Indices,
    first: Indices,
    frequencies: Floats,
    backoffs: Floats,
    contexts: Ids,
    targets: Ids,
    probabilities: Doubles,
) -> None:
    max_length = contexts.shape[1]
    nodes, children = np.zeros(max_length + 1, np.int64), np.zeros(max_length + 2, np.int64)
    length = 0  # of the context, as far as it is in the trie
    for row in range(len(targets)):
        context, word = contexts[row], targets[row]
        continues = row > 0 and context[max_length - 1] == targets[row - 1]
        for position in range(max_length - 1):
            continues = continues and context[position] == contexts[row - 1, position + 1]
        if not continues:
            length = _find_contexts(words, first, context, nodes)
        probability = 1 / np.float64(first[1] - 1)
        num_children = 0
        for level in range(length + 1):
            node = nodes[level]
            if node < len(backoffs):
                probability *= backoffs[node]
            if num_children == level:
                child = find_child(words, first, node, word)
                if child > 0:
                    probability += frequencies[child]
                    num_children += 1
                    children[num_children] = child
        probabilities[row] = probability
        # The n-grams that end in this word are the contexts of the next one.
        length = min(num_children, max_length)
        nodes[1 : length + 1] = children[1 : length + 1]


@jit
def _distributions(
    words: Indices, first: Indices, frequencies: Floats, backoffs: Floats, contexts: Ids, probabilities: Doubles
) -> None:
    nodes = np.zeros(contexts.shape[1] + 1, np.int64)
    for row in range(len(contexts)):
        distribution = probabilities[row]
        distribution[:] = 1 / np.float64(len(distribution))
        for level in range(_find_contexts(words, first, contexts[row], nodes) + 1):
            node = nodes[level]
            if node < len(backoffs):
                distribution *= np.float64(backoffs[node])
                for child in range(first[node], first[node + 1]):
                    distribution[words[child]] += frequencies[child]


@jit
def _most_probable_words(
    words: Indices,
    first: Indices,
    frequencies: Floats,
    backoffs: Floats,
    contexts: Ids,
    known: Indices,
    found: Ids,
) -> None:
    """The most probable word after a context is one of its children, or the most probable one after a shorter context.

    It is computed once for each context.
    """
    nodes = np.zeros(contexts.shape[1] + 1, np.int64)
    for row in range(len(contexts)):
        best = 0
        for level in range(_find_contexts(words, first, contexts[row], nodes) + 1):
            node = nodes[level]
            if node >= len(known):
                continue
            if known[node] == 0:
                highest = _probability(words, first, frequencies, backoffs, nodes, level, best)
                for child in range(first[node], first[node + 1]):
                    word = words[child]
                    probability = _probability(words, first, frequencies, backoffs, nodes, level, word)
                    if probability > highest or (probability == highest and word < best):
                        best, highest = word, probability
                known[node] = best + 1
            best = known[node] - 1
        found[row] = best
