"""word2vec: words that stand in the same company get close vectors (Mikolov et al., 2013a, b).

Skip-gram predicts the word in the middle of a window from each word around it, CBOW from their mean. What is predicted
is either which of a few words is the true one, the others being drawn at random (negative sampling), or the way to
the word through a Huffman tree (hierarchical softmax). All four come down to the same: some input vectors, some output
vectors with the answers yes or no, and a logistic regression between each two of them.

Set apart from the paper's program in two ways. The words drawn against a window are the same for all of its inputs, so
that a window is a product of two small matrices (Ji et al., 2016), and its vectors move when all of it has been read.

Threads share all vectors and wait for nobody (Recht et al., 2011). So only a run on one thread gives the same vectors
every time, resumed or not; on several they come out as good, and a little different.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polyseme.errors import DataError
from polyseme.kernels import compiled
from polyseme.objectives import Source
from polyseme.objectives.vectors import Word2vecConfig
from polyseme.static.drawing import draw_table, keep_chances
from polyseme.static.huffman import Tree, huffman
from polyseme.static.kernels import draw, fetch, follow
from polyseme.static.learner import Floats, Task, VectorLearner

Integers = NDArray[np.integer[Any]]

_SHARD = 10_000  # tokens that a thread reads before it looks at the rate again, as in the paper's program
_LONGEST = 1000  # words of a sentence; what is longer is cut, as there
_LEAST = 1e-4  # share of the rate in the end
_LOOK_EVERY = np.uint64(32)  # windows, of which one is asked for its loss

_HALF = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)


class Room(NamedTuple):
    """What a thread works in; rows go on with zeros behind a vector, to a number that the processor takes at once."""

    inputs: Floats
    targets: Floats
    scores: Floats  # of each input for each target, and then by how much to move
    turned: Floats  # the same, targets first
    moves: Floats  # (1, D), of the mean of a context


class Windows(NamedTuple):
    """Two windows: one that is learnt, and the next, whose vectors are on the way from memory meanwhile."""

    words: Integers  # (2, 2 * window), which stand around the middle
    num_words: Integers
    targets: Integers  # (2, T), rows of outputs
    labels: Floats  # (2, T), the answers that they should give
    num_targets: Integers


class Word2vec(VectorLearner):
    """Reads the text from its beginning, over and over, with a rate that falls in a straight line."""

    def __init__(self, config: Word2vecConfig, task: Task) -> None:
        super().__init__(task)
        self.config = config
        counts = task.counts()
        if not counts.any():
            raise DataError("no word of the text is in the vocabulary; give more text, or a lower tokenizer.min_count")
        self.keep = (keep_chances(counts, config.sample) * 2.0**32).astype(np.uint64)
        if config.softmax == "hierarchical":
            self.tree, self.table = huffman(counts), np.zeros(0, np.uint64)
            num_outputs = int(np.count_nonzero(counts)) - 1
        else:
            self.tree = huffman(np.zeros_like(counts))
            self.table = draw_table(counts.astype(np.float64) ** config.smoothing)
            num_outputs = len(counts)
        self.outputs = np.zeros((num_outputs, task.vectors.shape[1]), np.float32)
        self.arrays["outputs"] = self.outputs

    @property
    def rate(self) -> float:
        return self._rate_at(self.done * self.task.step_tokens)

    def _rate_at(self, place: int) -> float:
        return self.task.rate * max(_LEAST, 1 - self.course.place(place / self.task.step_tokens) / self.course.steps)

    def learn(self) -> dict[str, float]:
        begin = self.done * self.task.step_tokens
        return self._read(self.task.source, begin, begin + self.task.step_tokens)

    def evaluate(self, source: Source, *, num_batches: int) -> dict[str, float]:
        """What the words of another text cost on the average."""
        return self._read(source, 0, num_batches * source.num_rows * source.length, measuring=True)

    def _read(self, source: Source, begin: int, end: int, *, measuring: bool = False) -> dict[str, float]:
        """Read a stretch of the text, which begins anew where it ends, a shard after another."""

        def learn(shard: tuple[int, int, int]) -> tuple[float, int]:
            place, first, last = shard
            seeds = np.random.SeedSequence([self.task.seed, place])
            return _learn(
                plain(source.store.tokens),
                plain(source.store.sentences),
                first,
                last,
                self.keep,
                self.config.window,
                self.config.kind == "cbow",
                self.table,
                self.config.negative,
                self.tree,
                self.task.vectors,
                self.outputs,
                np.float32(0.0 if measuring else self._rate_at(place)),
                np.uint64(1) if measuring else _LOOK_EVERY,
                seeds.generate_state(1, np.uint64)[0],
            )

        with ThreadPoolExecutor(self.task.threads) as pool:
            losses, counts = zip(*pool.map(learn, shards(source.store.sentences, begin, end)), strict=True)
        return {self.config.kind: sum(losses) / max(1, sum(counts))}


def shards(sentences: Integers, begin: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Cut a stretch of a text that is read over and over: the place of each part, its first sentence and its end."""
    length = int(sentences[-1])
    cuts = {*range(begin, end, _SHARD), *range(-(-begin // length) * length, end, length), end}
    for place, after in pairwise(sorted(cuts)):
        first, last = np.searchsorted(sentences, (place % length, (after - 1) % length + 1))
        yield place, int(first), int(last)


def plain(array: Integers) -> Integers:
    """The same numbers as an array that is not written to, so that kernels are compiled once for files and memory."""
    view = np.asarray(array).view()
    view.flags.writeable = False
    return view


@compiled
def make_windows(window: int, num_targets: int) -> Windows:
    """Two windows of so many words to either side and targets at most."""
    return Windows(
        np.empty((2, 2 * window), np.int64),
        np.zeros(2, np.int64),
        np.zeros((2, num_targets + 2), np.int64),
        np.empty((2, num_targets), np.float32),
        np.zeros(2, np.int64),
    )


@compiled
def make_room(num_inputs: int, num_targets: int, width: int) -> Room:
    """Buffers for windows of so many inputs and targets at most."""
    # Products are made of two rows and three others at a time, in steps of sixteen numbers.
    rows, columns, length = num_inputs + 2, num_targets + 2, (width + 15) // 16 * 16
    return Room(
        np.zeros((rows, length), np.float32),
        np.zeros((columns, length), np.float32),
        np.zeros((rows, columns), np.float32),
        np.zeros((columns, rows), np.float32),
        np.zeros((1, length), np.float32),
    )


@compiled
def move(
    vectors: Floats, outputs: Floats, windows: Windows, row: int, mean: bool, rate: Any, looks: bool, room: Room
) -> float:
    """Move the words around a middle, or their mean, towards targets with label 1 and away from others.

    Gives the nats that it cost, if somebody looks.
    """
    words, targets, labels = windows.words[row], windows.targets[row], windows.labels[row]
    num_words, num_targets = windows.num_words[row], windows.num_targets[row]
    inputs, gathered, scores, turned, moves = room
    if mean:
        _average(inputs[0], vectors, words, num_words)
        return _move_mean(
            inputs[0],
            moves[0],
            scores[0],
            vectors,
            outputs,
            words,
            num_words,
            targets,
            labels,
            num_targets,
            rate,
            looks,
        )
    _gather(inputs, vectors, words, num_words)
    _gather(gathered, outputs, targets, num_targets)
    _compare(inputs, num_words, gathered, num_targets, scores)
    loss = _cost(scores, num_words, labels, num_targets) if looks else 0.0
    _judge(scores, turned, num_words, labels, num_targets, rate)
    _add_products(outputs, targets, num_targets, turned, inputs, num_words)
    _add_products(vectors, words, num_words, scores, gathered, num_targets)
    return loss


@compiled
def _average(mean: Floats, table: Floats, numbers: Integers, count: int) -> None:
    """The mean of rows of a table."""
    first, rest = numbers[0], (count - 1) % 3
    for column in range(table.shape[1]):
        mean[column] = table[first, column]
    for place in range(1, 1 + rest):
        number = numbers[place]
        for column in range(table.shape[1]):
            mean[column] += table[number, column]
    for place in range(1 + rest, count, 3):
        one, two, three = numbers[place], numbers[place + 1], numbers[place + 2]
        for column in range(table.shape[1]):
            mean[column] += table[one, column] + table[two, column] + table[three, column]
    share = np.float32(1) / np.float32(count)
    for column in range(table.shape[1]):
        mean[column] *= share


@compiled
def _move_mean(
    mean: Floats,
    moves: Floats,
    scores: Floats,
    vectors: Floats,
    outputs: Floats,
    words: Integers,
    num_words: int,
    targets: Integers,
    labels: Floats,
    num_targets: int,
    rate: Any,
    looks: bool,
) -> float:
    """The part of `move` for a mean: targets are taken three at a time, where they lie."""
    loss = 0.0
    for column in range(len(moves)):
        moves[column] = 0
    for place in range(0, num_targets, 3):
        one, two, three = targets[place], targets[place + 1], targets[place + 2]
        a = b = c = np.float32(0)
        for column in range(outputs.shape[1]):
            x = mean[column]
            a += x * outputs[one, column]
            b += x * outputs[two, column]
            c += x * outputs[three, column]
        scores[place], scores[place + 1], scores[place + 2] = a, b, c
    for target in range(num_targets):
        loss += _nats(scores[target], labels[target]) if looks else 0.0
        scores[target] = _error(scores[target], labels[target]) * rate
    scores[num_targets] = scores[num_targets + 1] = 0
    for place in range(0, num_targets, 3):
        one, two, three = targets[place], targets[place + 1], targets[place + 2]
        a, b, c = scores[place], scores[place + 1], scores[place + 2]
        for column in range(outputs.shape[1]):
            moves[column] += a * outputs[one, column] + b * outputs[two, column] + c * outputs[three, column]
    for target in range(num_targets):
        number, factor = targets[target], scores[target]
        for column in range(outputs.shape[1]):
            outputs[number, column] += factor * mean[column]
    # Each word of the context is given the whole error, though only a part of the mean was its own, as in the paper's
    # program.
    for place in range(num_words):
        number = words[place]
        for column in range(vectors.shape[1]):
            vectors[number, column] += moves[column]
    return loss


@compiled
def _gather(rows: Floats, table: Floats, numbers: Integers, count: int) -> None:
    """Copy rows of a table."""
    for place in range(count):
        number = numbers[place]
        for column in range(table.shape[1]):
            rows[place, column] = table[number, column]


@compiled
def _compare(inputs: Floats, num_inputs: int, targets: Floats, num_targets: int, scores: Floats) -> None:
    """The products of all inputs and targets, two by three at a time, so that each number read is used often."""
    for row in range(0, num_inputs, 2):
        for target in range(0, num_targets, 3):
            a = b = c = d = e = f = np.float32(0)
            for column in range(inputs.shape[1]):
                x, y = inputs[row, column], inputs[row + 1, column]
                s, t, u = targets[target, column], targets[target + 1, column], targets[target + 2, column]
                a += x * s
                b += x * t
                c += x * u
                d += y * s
                e += y * t
                f += y * u
            scores[row, target], scores[row, target + 1], scores[row, target + 2] = a, b, c
            scores[row + 1, target], scores[row + 1, target + 1], scores[row + 1, target + 2] = d, e, f


@compiled
def _cost(scores: Floats, num_inputs: int, labels: Floats, num_targets: int) -> float:
    """The nats of the right answers."""
    loss = 0.0
    for row in range(num_inputs):
        for target in range(num_targets):
            loss += _nats(scores[row, target], labels[target])
    return loss


@compiled
def _nats(score: np.float32, label: np.float32) -> float:
    wrong = score * (1.0 - 2.0 * label)
    return float(max(wrong, 0.0) + np.log1p(np.exp(-abs(wrong))))


@compiled
def _error(score: np.float32, label: np.float32) -> np.float32:
    """By what the logistic function of a score is wrong."""
    # tanh by Lambert's continued fraction, which has no branches; it is 1 to four digits where it ends.
    half = min(max(score * np.float32(0.5), np.float32(-4.97)), np.float32(4.97))
    square = half * half
    above = np.float32(135135) + square * (np.float32(17325) + square * (np.float32(378) + square))
    below = np.float32(62370) + square * (np.float32(3150) + square * np.float32(28))
    return label - np.float32(0.5) - np.float32(0.5) * (half * above / (np.float32(135135) + square * below))


@compiled
def _judge(scores: Floats, turned: Floats, num_inputs: int, labels: Floats, num_targets: int, rate: np.float32) -> None:
    """Turn scores into how far to move: by what the answers are wrong, times the rate; not at all in empty places."""
    for row in range(num_inputs):
        for target in range(num_targets):
            error = _error(scores[row, target], labels[target]) * rate
            scores[row, target] = error
            turned[target, row] = error
        scores[row, num_targets] = scores[row, num_targets + 1] = 0
    for target in range(num_targets):
        turned[target, num_inputs] = turned[target, num_inputs + 1] = 0


@compiled
def _add_products(
    table: Floats, numbers: Integers, count: int, factors: Floats, others: Floats, num_others: int
) -> None:
    """Add to rows of a table the other rows by their factors, three at a time."""
    for place in range(count):
        number = numbers[place]
        for other in range(0, num_others, 3):
            a, b, c = factors[place, other], factors[place, other + 1], factors[place, other + 2]
            for column in range(table.shape[1]):
                table[number, column] += (
                    a * others[other, column] + b * others[other + 1, column] + c * others[other + 2, column]
                )


@compiled
def _learn(
    tokens: Integers,
    sentences: Integers,
    first: int,
    last: int,
    keep: NDArray[np.uint64],
    window: int,
    mean: bool,
    table: NDArray[np.uint64],
    num_negative: int,
    tree: Tree,
    vectors: Floats,
    outputs: Floats,
    rate: np.float32,
    look_every: np.uint64,
    chance: Any,
) -> tuple[float, int]:
    """Learn from some sentences; the sum of the losses of the windows that were looked at, and their predictions."""
    longest = max(tree.longest, num_negative + 1)
    windows = make_windows(window, longest)
    room = make_room(2 * window, longest, vectors.shape[1])
    sentence = np.empty(_LONGEST, np.int64)
    loss, count, num_windows = 0.0, 0, 0
    for number in range(first, last):
        place, end = sentences[number], sentences[number + 1]
        while place < end:
            length = 0
            while place < end and length < _LONGEST:
                word = tokens[place]
                place += 1
                chance = follow(chance)
                if chance >> _HALF < keep[word]:
                    fetch(vectors, word)
                    sentence[length] = word
                    length += 1
            for middle in range(length):
                chance = follow(chance)
                reach = 1 + draw(chance, window)
                row, num_words = num_windows & 1, 0
                for other in range(max(0, middle - reach), min(length, middle + reach + 1)):
                    if other != middle:
                        windows.words[row, num_words] = sentence[other]
                        num_words += 1
                if num_words == 0:
                    continue
                windows.num_words[row] = num_words
                chance = _ask(windows, row, sentence[middle], table, num_negative, tree, chance)
                for target in range(windows.num_targets[row]):
                    fetch(outputs, windows.targets[row, target])
                num_windows += 1
                if num_windows > 1:
                    looks = chance >> _HALF & look_every - np.uint64(1) == 0
                    loss += move(vectors, outputs, windows, 1 - row, mean, rate, looks, room)
                    count += (1 if mean else windows.num_words[1 - row]) if looks else 0
    if num_windows:
        row = num_windows - 1 & 1
        loss += move(vectors, outputs, windows, row, mean, rate, True, room)
        count += 1 if mean else windows.num_words[row]
    return loss, count


@compiled
def _ask(
    windows: Windows, row: int, word: int, table: NDArray[np.uint64], num_negative: int, tree: Tree, chance: Any
) -> Any:
    """Fill in the targets of a window: the turns on the way to its middle, or that and words drawn against it."""
    targets, labels = windows.targets[row], windows.labels[row]
    first = tree.starts[word]
    num_targets = tree.starts[word + 1] - first
    for turn in range(num_targets):
        targets[turn] = tree.nodes[first + turn]
        labels[turn] = tree.answers[first + turn]
    if len(table):
        targets[0] = word
        labels[0] = 1
        num_targets = 1
        for _ in range(num_negative):
            chance = follow(chance)
            other = draw(chance, len(table))
            entry = table[other]
            chance = follow(chance)
            if chance >> _HALF >= entry >> _HALF:
                other = int(np.int64(entry & _LOW))
            if other != word:
                targets[num_targets] = other
                labels[num_targets] = 0
                num_targets += 1
    targets[num_targets : num_targets + 2] = targets[0]  # where three are taken at a time; they count nothing
    windows.num_targets[row] = num_targets
    return chance
