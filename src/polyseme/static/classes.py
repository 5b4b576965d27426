"""Classes of words that follow, and are followed by, the same words (Brown et al., 1992).

A word is predicted from the class of the word before it: p(w | v) = p(class of w | class of v) p(w | class of w). The
best classes are those that tell most about each other, in nats of mutual information.

By exchange (Kneser and Ney, 1993; Martin et al., 1998) each word in turn moves to where the text becomes most likely,
by the exact change of the likelihood. Brown's way begins with the most frequent words as classes, adds one word at a
time as a class of its own, and joins the two classes that lose least by it; going on to one class gives a binary tree.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from polyseme.errors import DataError
from polyseme.kernels import compiled
from polyseme.objectives.vectors import ClassesConfig, WindowConfig
from polyseme.static.counts import near_pairs
from polyseme.static.learner import Task, VectorLearner

Integers = NDArray[np.int64]
Reals = NDArray[np.float64]

_NONE = -1  # the class of words that do not occur
_MANY = 1 << 14  # from which on n log n is worked out and not looked up
_LEAST_GAIN = 1e-6  # nats of the whole text, so that rounding moves no word


class Side(NamedTuple):
    """The words on one side: those beside word w, and how often, are at `starts[w]:starts[w + 1]`."""

    starts: Integers
    words: Integers
    counts: Integers


@dataclass(frozen=True, kw_only=True)
class Bigrams:
    """Which words follow each other."""

    before: Side
    after: Side
    repeats: Integers  # (V,), how often a word follows itself, which is in neither

    @classmethod
    def of(cls, counts: csr_array, words: NDArray[np.bool_]) -> Bigrams:
        """From the counts (V, V) of what stands before each word; what is no word is beside nothing."""
        sides = []
        for side in (counts, counts.T.tocsr()):
            rows = np.repeat(np.arange(len(words)), np.diff(side.indptr))
            others = (rows != side.indices) & words[rows] & words[side.indices]
            starts = np.concatenate([[0], np.cumsum(np.bincount(rows[others], minlength=len(words)))])
            sides.append(Side(starts, side.indices[others].astype(np.int64), side.data[others].astype(np.int64)))
        repeats = np.where(words, counts.diagonal(), 0).astype(np.int64)
        return cls(before=sides[0], after=sides[1], repeats=repeats)

    @property
    def seconds(self) -> Integers:
        """How often each word follows another, (V,)."""
        starts, _, counts = self.before
        return np.diff(np.concatenate([[0], np.cumsum(counts)])[starts]) + self.repeats

    def tally(self, classes: Integers, num_classes: int) -> Integers:
        """How often a class (row) stands before a class (column); words of no class are passed over."""
        starts, words, counts = self.after
        firsts = np.repeat(classes, np.diff(starts))
        seconds = classes[words]
        known = (firsts != _NONE) & (seconds != _NONE)
        table = np.zeros((num_classes, num_classes), np.int64)
        np.add.at(table, (firsts[known], seconds[known]), counts[known])
        own = classes != _NONE
        np.add.at(table, (classes[own], classes[own]), self.repeats[own])
        return table


def information(table: Integers) -> float:
    """The mutual information of two classes that follow each other, in nats."""
    total = max(1, int(table.sum()))
    sums = [_weights(part).sum() for part in (table, table.sum(axis=0), table.sum(axis=1))]
    return float(sums[0] - sums[1] - sums[2] + _weights(np.array(total))) / total


def _weights(counts: Integers) -> Reals:
    """n log n."""
    weights: Reals = np.log(np.maximum(counts, 1.0)) * counts
    return weights


def _looked_up() -> Reals:
    return _weights(np.arange(_MANY))


class Classes(VectorLearner):
    """Puts words into as many classes as a vector has numbers; a vector says which class its word is in."""

    def __init__(self, config: ClassesConfig, task: Task) -> None:
        super().__init__(task)
        self.config = config
        vocab_size, self.num_classes = task.vectors.shape
        # What is no word still stands between others, and is taken out only when all are counted.
        window = WindowConfig(window=1, nearness="flat", symmetric=False)
        self.bigrams = Bigrams.of(near_pairs(task.store, window, np.ones(vocab_size, np.bool_)), task.words)
        self.counts = task.counts()
        # The most frequent first.
        self.words = np.argsort(-self.counts, kind="stable")[: np.count_nonzero(self.counts)]
        if not len(self.words):
            raise DataError("no word of the text is in the vocabulary; give more text, or a lower tokenizer.min_count")
        seconds = self.bigrams.seconds
        total = max(1, int(seconds.sum()))
        self.entropy = float(np.log(total) - _weights(seconds).sum() / total)
        self.classes = np.full(vocab_size, _NONE, np.int64)
        first = self.words if config.method == "exchange" else self.words[: self.num_classes]
        self.classes[first] = np.arange(len(first)) % self.num_classes
        self.arrays["classes"] = self.classes
        self._fill()

    def learn(self) -> dict[str, float]:
        """Move every word once, or add the next share of the words."""
        if self.config.method == "exchange":
            _exchange(self.words, *self._given(self.num_classes))
        else:
            waiting = max(0, len(self.words) - self.num_classes)
            begin, end = (self.num_classes + waiting * step // self.total for step in (self.done, self.done + 1))
            _grow(self.words[begin:end], *self._given(self.num_classes + 1))
        self._fill()
        table = self.bigrams.tally(self.classes, self.num_classes)
        return {self.config.kind: self.entropy - information(table)}

    def files(self, token: Callable[[int], str]) -> dict[str, str]:
        """The classes as a table of class, word and count; a class of Brown's is called by its way from the root."""
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
        """The way to each class from the root of a binary tree, in which classes that are alike are joined first."""
        ways = [""] * self.num_classes
        joined = [[number] for number in range(self.num_classes)]
        for left, right in _join_all(self.bigrams.tally(self.classes, self.num_classes), _looked_up()):
            for bit, side in enumerate((left, right)):
                for number in joined[side]:
                    ways[number] = f"{bit}{ways[number]}"
            joined[left] += joined[right]
        return ways

    def _given(self, num_classes: int) -> tuple[Any, ...]:
        bigrams, table = self.bigrams, self.bigrams.tally(self.classes, num_classes)
        return self.classes, bigrams.before, bigrams.after, bigrams.repeats, table, _looked_up()

    def _fill(self) -> None:
        """Write the classes into the vectors."""
        known = np.flatnonzero(self.classes != _NONE)
        self.task.vectors[...] = 0
        self.task.vectors[known, self.classes[known]] = 1


@compiled
def _weight(count: int, weights: Reals) -> float:
    """n log n, looked up if n is small."""
    return float(weights[count]) if count < len(weights) else count * float(np.log(count))


@compiled
def _apart(one: int, other: int, weights: Reals) -> float:
    """The weights of two counts less the weight of their sum."""
    if one == 0 or other == 0:
        return 0.0
    return _weight(one, weights) + _weight(other, weights) - _weight(one + other, weights)


@compiled
def _add_up(word: int, classes: Integers, side: Side, sums: Integers) -> Integers:
    """Add up the neighbours of a word on one side by class; the classes that were met."""
    sums[:] = 0
    met = np.empty(min(len(sums), side.starts[word + 1] - side.starts[word]), np.int64)
    number = 0
    for place in range(side.starts[word], side.starts[word + 1]):
        group = classes[side.words[place]]
        if group != _NONE:
            if sums[group] == 0:
                met[number] = group
                number += 1
            sums[group] += side.counts[place]
    return met[:number]


@compiled
def _change(table: Integers, group: int, after: Integers, before: Integers, repeats: int) -> None:
    """Put a word into a class of the table, or take it out where the counts of its neighbours are negative."""
    table[group] += after
    table[:, group] += before
    table[group, group] += repeats


@compiled
def _exchange(
    order: Integers, classes: Integers, before: Side, after: Side, repeats: Integers, table: Integers, weights: Reals
) -> int:
    """Move each word to the class in which the text is most likely; how many moved."""
    turned = table.T.copy()  # so that its columns lie in memory as its rows do
    firsts, seconds = table.sum(axis=1), table.sum(axis=0)
    befores, afters = np.zeros(len(table), np.int64), np.zeros(len(table), np.int64)
    gains = np.empty(len(table))
    num_moved = 0
    for word in order:
        met_before = _add_up(word, classes, before, befores)
        met_after = _add_up(word, classes, after, afters)
        old, repeat = classes[word], repeats[word]
        first, second = afters.sum() + repeat, befores.sum() + repeat
        _change(table, old, -afters, -befores, -repeat)
        _change(turned, old, -befores, -afters, -repeat)
        firsts[old] -= first
        seconds[old] -= second
        for new in range(len(table)):
            # What the likelihood gains, but for what it gains in any class.
            gain = _apart(firsts[new], first, weights) + _apart(seconds[new], second, weights)
            for other in met_after:
                if other != new:
                    gain -= _apart(table[new, other], afters[other], weights)
            for other in met_before:
                if other != new:
                    gain -= _apart(turned[new, other], befores[other], weights)
            # Inside its own class the neighbours on both sides and the repeats are one count.
            own = afters[new] + befores[new] + repeat
            gain += _weight(own, weights) - _weight(afters[new], weights) - _weight(befores[new], weights)
            gains[new] = gain - _apart(table[new, new], own, weights)
        best = int(np.argmax(gains))
        if gains[best] < gains[old] + _LEAST_GAIN:
            best = old
        _change(table, best, afters, befores, repeat)
        _change(turned, best, befores, afters, repeat)
        firsts[best] += first
        seconds[best] += second
        classes[word] = best
        num_moved += best != old
    return num_moved


@compiled
def _loss(table: Integers, turned: Integers, one: int, other: int, weights: Reals) -> float:
    """What joining two classes loses of the weights of the table."""
    loss = 0.0
    inside = 0
    for first in (one, other):
        for second in (one, other):
            inside += table[first, second]
            loss += _weight(table[first, second], weights)
    loss -= _weight(inside, weights)
    for group in range(len(table)):
        if group not in (one, other):
            loss += _apart(table[one, group], table[other, group], weights)
            loss += _apart(turned[one, group], turned[other, group], weights)
    return loss


@compiled
def _losses(table: Integers, turned: Integers, weights: Reals) -> Reals:
    """What joining each two classes loses; the first is the larger number."""
    losses = np.zeros(table.shape)
    for one in range(len(table)):
        for other in range(one):
            losses[one, other] = _loss(table, turned, one, other, weights)
    return losses


@compiled
def _cheapest(losses: Reals, firsts: Integers, seconds: Integers, active: Integers, weights: Reals) -> tuple[int, int]:
    """The two classes that lose least information by being joined, the smaller number first."""
    best, least = (0, 0), np.inf
    for one in range(len(losses)):
        for other in range(one):
            if active[one] and active[other] and losses[one, other] < least:  # the rest only adds to it
                loss = losses[one, other]
                loss -= _apart(firsts[one], firsts[other], weights) + _apart(seconds[one], seconds[other], weights)
                if loss < least:
                    best, least = (other, one), loss
    return best


@compiled
def _join(
    into: int, gone: int, table: Integers, turned: Integers, losses: Reals, active: Integers, weights: Reals
) -> None:
    """Make one class of two, and put the losses of all others right."""
    for one in range(len(table)):
        if one in (into, gone) or not active[one]:
            continue
        met = table[gone, one] or turned[gone, one]
        for other in range(one):
            if other in (into, gone) or not active[other]:
                continue
            if met or table[gone, other] or turned[gone, other]:
                for counts in (table, turned):
                    losses[one, other] += (
                        _apart(
                            counts[into, one] + counts[gone, one], counts[into, other] + counts[gone, other], weights
                        )
                        - _apart(counts[into, one], counts[into, other], weights)
                        - _apart(counts[gone, one], counts[gone, other], weights)
                    )
    for counts in (table, turned):
        counts[into] += counts[gone]
        counts[:, into] += counts[:, gone]
        counts[gone] = 0
        counts[:, gone] = 0
    active[gone] = 0
    for other in range(len(table)):
        if other != into and active[other]:
            losses[max(into, other), min(into, other)] = _loss(table, turned, into, other, weights)


@compiled
def _grow(
    order: Integers, classes: Integers, before: Side, after: Side, repeats: Integers, table: Integers, weights: Reals
) -> None:
    """Add each word as a class, for which there is room in the table, and join the two classes that lose least."""
    turned = table.T.copy()
    losses = _losses(table, turned, weights)
    befores, afters = np.zeros(len(table), np.int64), np.zeros(len(table), np.int64)
    active = np.ones(len(table), np.int64)
    room = len(table) - 1
    for word in order:
        _add_up(word, classes, before, befores)
        _add_up(word, classes, after, afters)
        classes[word] = room
        active[room] = 1
        _change(table, room, afters, befores, repeats[word])
        _change(turned, room, befores, afters, repeats[word])
        for one in range(len(table)):
            if one == room:
                continue
            if befores[one] or afters[one]:
                for other in range(one):
                    if other != room:
                        losses[one, other] += _apart(befores[one], befores[other], weights)
                        losses[one, other] += _apart(afters[one], afters[other], weights)
            losses[max(one, room), min(one, room)] = _loss(table, turned, one, room, weights)
        into, gone = _cheapest(losses, turned.sum(axis=0), table.sum(axis=0), active, weights)
        _join(into, gone, table, turned, losses, active, weights)
        _rename(classes, gone, into)
        room = gone
    _rename(classes, len(table) - 1, room)


@compiled
def _rename(classes: Integers, old: int, new: int) -> None:
    for word in range(len(classes)):
        if classes[word] == old:
            classes[word] = new


@compiled
def _join_all(table: Integers, weights: Reals) -> list[tuple[int, int]]:
    """Which classes are joined until one is left; the second of each two is gone."""
    turned = table.T.copy()
    losses = _losses(table, turned, weights)
    active = np.ones(len(table), np.int64)
    joined = []
    for _ in range(len(table) - 1):
        into, gone = _cheapest(losses, turned.sum(axis=0), table.sum(axis=0), active, weights)
        _join(into, gone, table, turned, losses, active, weights)
        joined.append((into, gone))
    return joined
