"""Word clusters that maximize the likelihood of a class bigram model (Brown et al., 1992).

A word is predicted from the class of the word before it: p(w | v) = p(class of w | class of v) p(w | class of w). The
optimal classes maximize the mutual information of adjacent classes.

The exchange algorithm (Kneser and Ney, 1993; Martin et al., 1998) moves each word in turn to the class with the highest
likelihood, using exact changes of the likelihood. Brown clustering starts with the most frequent words as classes, adds
one word at a time as a new class, and merges the two classes that lose the least mutual information; merging down to
one class yields a binary tree.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.sparse import coo_array, csr_array

from polyseme.arrays import Doubles, Flags, Ids
from polyseme.static_embeddings.base import StaticTrainer, TrainingInputs
from polyseme.static_embeddings.config import WindowConfig, WordClusterConfig
from polyseme.static_embeddings.cooccurrence import cooccurrence_counts
from polyseme.system.jit import jit

_NONE = -1  # the class of words that do not occur
_MIN_GAIN = 1e-6  # nats over the whole corpus, so that no word moves because of rounding


class Neighbours(NamedTuple):
    """Adjacent words on one side: those of word w, with their counts, are at `starts[w]:starts[w + 1]`."""

    starts: Ids
    words: Ids
    counts: Ids


@dataclass(frozen=True, kw_only=True)
class Bigrams:
    """Bigram counts, indexed by first and by second word."""

    before: Neighbours
    after: Neighbours
    repeats: Ids  # (V,), how often a word follows itself, which neither of the two contains

    @classmethod
    def of(cls, counts: csr_array, is_word: Flags) -> Self:
        """Split the counts (V, V) of the words before each word, without special tokens."""
        neighbours = []
        for direction in (counts, counts.T.tocsr()):
            rows = np.repeat(np.arange(len(is_word)), np.diff(direction.indptr))
            keep = (rows != direction.indices) & is_word[rows] & is_word[direction.indices]
            starts = np.concatenate([[0], np.cumsum(np.bincount(rows[keep], minlength=len(is_word)))])
            words, values = direction.indices[keep].astype(np.int64), direction.data[keep].astype(np.int64)
            neighbours.append(Neighbours(starts, words, values))
        repeats = np.where(is_word, counts.diagonal(), 0).astype(np.int64)
        return cls(before=neighbours[0], after=neighbours[1], repeats=repeats)

    @property
    def second_counts(self) -> Ids:
        """How often each word is the second of a bigram, (V,)."""
        starts, _, counts = self.before
        return np.diff(np.concatenate([[0], np.cumsum(counts)])[starts]) + self.repeats

    def class_counts(self, classes: Ids, num_classes: int) -> Ids:
        """How often a class (row) precedes a class (column); words without a class are skipped."""
        starts, words, counts = self.after
        first = np.concatenate([np.repeat(classes, np.diff(starts)), classes])
        second = np.concatenate([classes[words], classes])
        counts = np.concatenate([counts, self.repeats])
        known = (first != _NONE) & (second != _NONE)
        table: Ids = coo_array((counts[known], (first[known], second[known])), shape=(num_classes,) * 2).toarray()
        return table


def mutual_information(table: Ids) -> float:
    """The mutual information of adjacent classes, in nats."""
    total = max(1, int(table.sum()))
    sums = [_n_log_n(part).sum() for part in (table, table.sum(axis=0), table.sum(axis=1))]
    return float(sums[0] - sums[1] - sums[2] + _n_log_n(np.array(total))) / total


def _n_log_n(counts: Ids) -> Doubles:
    values: Doubles = np.log(np.maximum(counts, 1.0)) * counts
    return values


_N_LOG_N = _n_log_n(np.arange(1 << 14))  # of small counts


class WordClusterTrainer(StaticTrainer):
    """Clusters words into as many classes as the vectors have dimensions; a vector is the one-hot code of a class."""

    def __init__(self, config: WordClusterConfig, inputs: TrainingInputs) -> None:
        super().__init__(config, inputs)
        vocab_size, self.num_classes = inputs.vectors.shape
        # Special tokens still separate words, so they are counted and then dropped.
        window = WindowConfig(window=1, distance_weighting="flat", symmetric=False)
        counts = cooccurrence_counts(inputs.source.store, window, np.ones(vocab_size, np.bool_))
        self.bigrams = Bigrams.of(counts, inputs.is_word)
        self.counts = inputs.word_counts()
        self.words = np.argsort(-self.counts, kind="stable")[: np.count_nonzero(self.counts)]  # most frequent first
        second_counts = self.bigrams.second_counts
        total = max(1, int(second_counts.sum()))
        self.entropy = float(np.log(total) - _n_log_n(second_counts).sum() / total)
        self.classes = np.full(vocab_size, _NONE, np.int64)
        first = self.words if config.method == "exchange" else self.words[: self.num_classes]
        self.classes[first] = np.arange(len(first)) % self.num_classes
        self.arrays["classes"] = self.classes
        self._write_vectors()

    def train_step(self) -> dict[str, float]:
        """Move every word once, or add the next share of the words."""
        if self.config.method == "exchange":
            _exchange(self.words, *self._kernel_arguments(self.num_classes))
        else:
            num_new = max(0, len(self.words) - self.num_classes)
            begin, end = (
                self.num_classes + num_new * step // self.total_steps for step in (self.steps_done, self.steps_done + 1)
            )
            _add_and_merge(self.words[begin:end], *self._kernel_arguments(self.num_classes + 1))
        self._write_vectors()
        table = self.bigrams.class_counts(self.classes, self.num_classes)
        return {self.config.kind: self.entropy - mutual_information(table)}

    def extra_files(self, token: Callable[[int], str]) -> dict[str, str]:
        """A table of class, word and count; Brown clusters are named by their path from the root of the tree."""
        brown = self.config.method == "brown"
        names = self.paths() if brown else [f"{number}" for number in range(self.num_classes)]
        order = sorted(range(self.num_classes), key=names.__getitem__) if brown else range(self.num_classes)
        lines = [
            f"{names[number]}\t{token(word)}\t{self.counts[word]}\n"
            for number in order
            for word in self.words[self.classes[self.words] == number].tolist()
        ]
        return {"classes.tsv": "".join(lines)}

    def paths(self) -> list[str]:
        """The bit string of each class: its path in the binary tree of merges."""
        paths = [""] * self.num_classes
        members = [[number] for number in range(self.num_classes)]
        table = self.bigrams.class_counts(self.classes, self.num_classes)
        for left, right in _merge_all(table):
            for bit, branch in enumerate((left, right)):
                for number in members[branch]:
                    paths[number] = f"{bit}{paths[number]}"
            members[left] += members[right]
        return paths

    def _kernel_arguments(self, num_classes: int) -> tuple[Any, ...]:
        bigrams, table = self.bigrams, self.bigrams.class_counts(self.classes, num_classes)
        return self.classes, bigrams.before, bigrams.after, bigrams.repeats, table

    def _write_vectors(self) -> None:
        known = np.flatnonzero(self.classes != _NONE)
        self.inputs.vectors[...] = 0
        self.inputs.vectors[known, self.classes[known]] = 1


@jit
def _lookup(count: int) -> float:
    """n log n, from the table if n is small enough."""
    return float(_N_LOG_N[count]) if count < len(_N_LOG_N) else count * float(np.log(count))


@jit
def _pooling_loss(a: int, b: int) -> float:
    """a log a + b log b - (a + b) log (a + b): what pooling two counts loses; never positive."""
    if a == 0 or b == 0:
        return 0.0
    return _lookup(a) + _lookup(b) - _lookup(a + b)


@jit
def _sum_by_class(word: int, classes: Ids, neighbours: Neighbours, sums: Ids) -> Ids:
    """Sum the neighbour counts of a word by class into `sums`; return the classes that occur."""
    sums[:] = 0
    found = np.empty(min(len(sums), neighbours.starts[word + 1] - neighbours.starts[word]), np.int64)
    num_found = 0
    for index in range(neighbours.starts[word], neighbours.starts[word + 1]):
        class_id = classes[neighbours.words[index]]
        if class_id != _NONE:
            if sums[class_id] == 0:
                found[num_found] = class_id
                num_found += 1
            sums[class_id] += neighbours.counts[index]
    return found[:num_found]


@jit
def _add_word(table: Ids, class_id: int, after: Ids, before: Ids, repeats: int) -> None:
    """Add a word to a class of the table; negative counts remove it."""
    table[class_id] += after
    table[:, class_id] += before
    table[class_id, class_id] += repeats


@jit
def _exchange(order: Ids, classes: Ids, before: Neighbours, after: Neighbours, repeats: Ids, table: Ids) -> None:
    """Move each word to the class with the highest likelihood."""
    transposed = table.T.copy()  # columns become contiguous
    row_sums, column_sums = table.sum(axis=1), table.sum(axis=0)
    before_counts, after_counts = np.zeros(len(table), np.int64), np.zeros(len(table), np.int64)
    gains = np.empty(len(table))
    for word in order:
        seen_before = _sum_by_class(word, classes, before, before_counts)
        seen_after = _sum_by_class(word, classes, after, after_counts)
        old, num_repeats = classes[word], repeats[word]
        first, second = after_counts.sum() + num_repeats, before_counts.sum() + num_repeats
        _add_word(table, old, -after_counts, -before_counts, -num_repeats)
        _add_word(transposed, old, -before_counts, -after_counts, -num_repeats)
        row_sums[old] -= first
        column_sums[old] -= second
        for new in range(len(table)):
            # The gain in likelihood up to a constant that is the same for all classes.
            gain = _pooling_loss(row_sums[new], first) + _pooling_loss(column_sums[new], second)
            for other in seen_after:
                if other != new:
                    gain -= _pooling_loss(table[new, other], after_counts[other])
            for other in seen_before:
                if other != new:
                    gain -= _pooling_loss(transposed[new, other], before_counts[other])
            # Within one class, both neighbours and the repeats fall into the same cell.
            own = after_counts[new] + before_counts[new] + num_repeats
            gain += _lookup(own) - _lookup(after_counts[new]) - _lookup(before_counts[new])
            gains[new] = gain - _pooling_loss(table[new, new], own)
        best = int(np.argmax(gains))
        if gains[best] < gains[old] + _MIN_GAIN:
            best = old
        _add_word(table, best, after_counts, before_counts, num_repeats)
        _add_word(transposed, best, before_counts, after_counts, num_repeats)
        row_sums[best] += first
        column_sums[best] += second
        classes[word] = best


@jit
def _merge_loss(table: Ids, transposed: Ids, one: int, other: int) -> float:
    """The loss in the sum of n log n over the table when two classes are merged."""
    loss = 0.0
    merged = 0
    for first in (one, other):
        for second in (one, other):
            merged += table[first, second]
            loss += _lookup(table[first, second])
    loss -= _lookup(merged)
    for class_id in range(len(table)):
        if class_id not in (one, other):
            loss += _pooling_loss(table[one, class_id], table[other, class_id])
            loss += _pooling_loss(transposed[one, class_id], transposed[other, class_id])
    return loss


@jit
def _merge_losses(table: Ids, transposed: Ids) -> Doubles:
    """The merge loss of every pair of classes, at [larger, smaller]."""
    losses = np.zeros(table.shape)
    for one in range(len(table)):
        for other in range(one):
            losses[one, other] = _merge_loss(table, transposed, one, other)
    return losses


@jit
def _cheapest_merge(losses: Doubles, row_sums: Ids, column_sums: Ids, active: Ids) -> tuple[int, int]:
    """The two classes whose merge loses the least mutual information, the smaller number first."""
    best, least = (0, 0), np.inf
    for one in range(len(losses)):
        for other in range(one):
            if active[one] and active[other] and losses[one, other] < least:  # the remaining terms only add to it
                pooling = _pooling_loss(row_sums[one], row_sums[other])
                pooling += _pooling_loss(column_sums[one], column_sums[other])
                loss = losses[one, other] - pooling
                if loss < least:
                    best, least = (other, one), loss
    return best


@jit
def _merge(into: int, absorbed: int, table: Ids, transposed: Ids, losses: Doubles, active: Ids) -> None:
    """Merge class `absorbed` into class `into` and update the merge losses of all other pairs."""
    for one in range(len(table)):
        if one in (into, absorbed) or not active[one]:
            continue
        adjacent = table[absorbed, one] or transposed[absorbed, one]
        for other in range(one):
            if other in (into, absorbed) or not active[other]:
                continue
            if adjacent or table[absorbed, other] or transposed[absorbed, other]:
                for counts in (table, transposed):
                    with_one = counts[into, one] + counts[absorbed, one]
                    with_other = counts[into, other] + counts[absorbed, other]
                    losses[one, other] += (
                        _pooling_loss(with_one, with_other)
                        - _pooling_loss(counts[into, one], counts[into, other])
                        - _pooling_loss(counts[absorbed, one], counts[absorbed, other])
                    )
    for counts in (table, transposed):
        counts[into] += counts[absorbed]
        counts[:, into] += counts[:, absorbed]
        counts[absorbed] = 0
        counts[:, absorbed] = 0
    active[absorbed] = 0
    for other in range(len(table)):
        if other != into and active[other]:
            losses[max(into, other), min(into, other)] = _merge_loss(table, transposed, into, other)


@jit
def _add_and_merge(order: Ids, classes: Ids, before: Neighbours, after: Neighbours, repeats: Ids, table: Ids) -> None:
    """Add each word as a new class in the spare row of the table, then make the cheapest merge."""
    transposed = table.T.copy()
    losses = _merge_losses(table, transposed)
    before_counts, after_counts = np.zeros(len(table), np.int64), np.zeros(len(table), np.int64)
    active = np.ones(len(table), np.int64)
    new = len(table) - 1
    for word in order:
        _sum_by_class(word, classes, before, before_counts)
        _sum_by_class(word, classes, after, after_counts)
        classes[word] = new
        active[new] = 1
        _add_word(table, new, after_counts, before_counts, repeats[word])
        _add_word(transposed, new, before_counts, after_counts, repeats[word])
        for one in range(len(table)):
            if one == new:
                continue
            if before_counts[one] or after_counts[one]:
                for other in range(one):
                    if other != new:
                        losses[one, other] += _pooling_loss(before_counts[one], before_counts[other])
                        losses[one, other] += _pooling_loss(after_counts[one], after_counts[other])
            losses[max(one, new), min(one, new)] = _merge_loss(table, transposed, one, new)
        into, absorbed = _cheapest_merge(losses, transposed.sum(axis=0), table.sum(axis=0), active)
        _merge(into, absorbed, table, transposed, losses, active)
        classes[classes == absorbed] = into
        new = absorbed
    classes[classes == len(table) - 1] = new


@jit
def _merge_all(table: Ids) -> list[tuple[int, int]]:
    """The merges that lead to a single class; the second class of each pair is absorbed."""
    transposed = table.T.copy()
    losses = _merge_losses(table, transposed)
    active = np.ones(len(table), np.int64)
    merges = []
    for _ in range(len(table) - 1):
        into, absorbed = _cheapest_merge(losses, transposed.sum(axis=0), table.sum(axis=0), active)
        _merge(into, absorbed, table, transposed, losses, active)
        merges.append((into, absorbed))
    return merges
