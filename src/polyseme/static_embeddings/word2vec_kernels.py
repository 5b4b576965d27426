"""The update of one word2vec window: logistic regression between its input vectors and its output vectors.

The buffers of a thread are allocated once. numba's cache of a function that calls these kernels does not notice changes
to this file: delete `__pycache__` after an edit.
"""

from typing import Any, NamedTuple

import numpy as np

from polyseme.arrays import Floats, Integers
from polyseme.system.jit import jit


class Scratch(NamedTuple):
    """The buffers of a thread; rows are padded with zeros to a multiple of the SIMD width."""

    inputs: Floats
    targets: Floats
    scores: Floats  # (inputs, targets), overwritten by the scaled errors
    transposed: Floats  # the scaled errors, (targets, inputs)
    mean_update: Floats  # (1, D), CBOW's update of the mean of the context


class WindowPair(NamedTuple):
    """The window that is trained on, and the next one, whose vectors are being prefetched."""

    words: Integers  # (2, 2 * window), the context words
    num_words: Integers
    targets: Integers  # (2, T), rows of the output vectors
    labels: Floats  # (2, T)
    num_targets: Integers


@jit
def allocate_windows(window: int, num_targets: int) -> WindowPair:
    """Buffers for two windows with at most `num_targets` targets."""
    return WindowPair(
        np.empty((2, 2 * window), np.int64),
        np.zeros(2, np.int64),
        np.zeros((2, num_targets + 2), np.int64),
        np.empty((2, num_targets), np.float32),
        np.zeros(2, np.int64),
    )


@jit
def allocate_scratch(num_inputs: int, num_targets: int, width: int) -> Scratch:
    """Buffers for windows with at most `num_inputs` inputs and `num_targets` targets."""
    # Products are computed in tiles of two inputs by three targets and sixteen dimensions.
    rows, columns, length = num_inputs + 2, num_targets + 2, (width + 15) // 16 * 16
    return Scratch(
        np.zeros((rows, length), np.float32),
        np.zeros((columns, length), np.float32),
        np.zeros((rows, columns), np.float32),
        np.zeros((columns, rows), np.float32),
        np.zeros((1, length), np.float32),
    )


@jit
def update_window(
    vectors: Floats,
    outputs: Floats,
    windows: WindowPair,
    index: int,
    use_mean: bool,
    learning_rate: Any,
    measure: bool,
    scratch: Scratch,
) -> float:
    """Update the vectors of a window's context words (or of their mean) and targets.

    Returns the loss in nats if `measure`, else 0.
    """
    words, targets, labels = windows.words[index], windows.targets[index], windows.labels[index]
    num_words, num_targets = windows.num_words[index], windows.num_targets[index]
    inputs, gathered, scores, transposed, mean_update = scratch
    if use_mean:
        _mean_of_rows(inputs[0], vectors, words, num_words)
        return _update_with_mean(
            inputs[0],
            mean_update[0],
            scores[0],
            vectors,
            outputs,
            words,
            num_words,
            targets,
            labels,
            num_targets,
            learning_rate,
            measure,
        )
    _gather(inputs, vectors, words, num_words)
    _gather(gathered, outputs, targets, num_targets)
    _multiply(inputs, num_words, gathered, num_targets, scores)
    loss = _total_loss(scores, num_words, labels, num_targets) if measure else 0.0
    _scale_errors(scores, transposed, num_words, labels, num_targets, learning_rate)
    _add_products(outputs, targets, num_targets, transposed, inputs, num_words)
    _add_products(vectors, words, num_words, scores, gathered, num_targets)
    return loss


@jit
def _mean_of_rows(mean: Floats, table: Floats, ids: Integers, count: int) -> None:
    """Average rows of a table, three at a time."""
    first, rest = ids[0], (count - 1) % 3
    for column in range(table.shape[1]):
        mean[column] = table[first, column]
    for index in range(1, 1 + rest):
        id = ids[index]
        for column in range(table.shape[1]):
            mean[column] += table[id, column]
    for index in range(1 + rest, count, 3):
        one, two, three = ids[index], ids[index + 1], ids[index + 2]
        for column in range(table.shape[1]):
            mean[column] += table[one, column] + table[two, column] + table[three, column]
    factor = np.float32(1) / np.float32(count)
    for column in range(table.shape[1]):
        mean[column] *= factor


@jit
def _update_with_mean(
    mean: Floats,
    mean_update: Floats,
    scores: Floats,
    vectors: Floats,
    outputs: Floats,
    words: Integers,
    num_words: int,
    targets: Integers,
    labels: Floats,
    num_targets: int,
    learning_rate: Any,
    measure: bool,
) -> float:
    """CBOW's update: targets are processed three at a time, without copying them.

    Takes arrays: reading them from the named tuples in here would take a fifth longer (measured).
    """
    loss = 0.0
    for column in range(len(mean_update)):
        mean_update[column] = 0
    for index in range(0, num_targets, 3):
        one, two, three = targets[index], targets[index + 1], targets[index + 2]
        a = b = c = np.float32(0)
        for column in range(outputs.shape[1]):
            x = mean[column]
            a += x * outputs[one, column]
            b += x * outputs[two, column]
            c += x * outputs[three, column]
        scores[index], scores[index + 1], scores[index + 2] = a, b, c
    for target in range(num_targets):
        loss += _loss(scores[target], labels[target]) if measure else 0.0
        scores[target] = _error(scores[target], labels[target]) * learning_rate
    scores[num_targets] = scores[num_targets + 1] = 0
    for index in range(0, num_targets, 3):
        one, two, three = targets[index], targets[index + 1], targets[index + 2]
        a, b, c = scores[index], scores[index + 1], scores[index + 2]
        for column in range(outputs.shape[1]):
            mean_update[column] += a * outputs[one, column] + b * outputs[two, column] + c * outputs[three, column]
    for target in range(num_targets):
        id, factor = targets[target], scores[target]
        for column in range(outputs.shape[1]):
            outputs[id, column] += factor * mean[column]
    # Each context word receives the whole update, not its share of the mean, as in the original code.
    for index in range(num_words):
        id = words[index]
        for column in range(vectors.shape[1]):
            vectors[id, column] += mean_update[column]
    return loss


@jit
def _gather(rows: Floats, table: Floats, ids: Integers, count: int) -> None:
    """Copy rows of a table."""
    for index in range(count):
        id = ids[index]
        for column in range(table.shape[1]):
            rows[index, column] = table[id, column]


@jit
def _multiply(inputs: Floats, num_inputs: int, targets: Floats, num_targets: int, scores: Floats) -> None:
    """scores = inputs @ targets.T, in register tiles of two by three."""
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


@jit
def _total_loss(scores: Floats, num_inputs: int, labels: Floats, num_targets: int) -> float:
    """The summed binary cross-entropy, in nats."""
    loss = 0.0
    for row in range(num_inputs):
        for target in range(num_targets):
            loss += _loss(scores[row, target], labels[target])
    return loss


@jit
def _loss(score: np.float32, label: np.float32) -> float:
    """Binary cross-entropy of a logit."""
    wrong = score * (1.0 - 2.0 * label)
    return float(max(wrong, 0.0) + np.log1p(np.exp(-abs(wrong))))


@jit
def _error(score: np.float32, label: np.float32) -> np.float32:
    """label - sigmoid(score)."""
    # tanh by Lambert's continued fraction, which has no branches; it is 1 to four digits at the clipping bound.
    half = min(max(score * np.float32(0.5), np.float32(-4.97)), np.float32(4.97))
    square = half * half
    numerator = np.float32(135135) + square * (np.float32(17325) + square * (np.float32(378) + square))
    denominator = np.float32(62370) + square * (np.float32(3150) + square * np.float32(28))
    return label - np.float32(0.5) - np.float32(0.5) * (half * numerator / (np.float32(135135) + square * denominator))


@jit
def _scale_errors(
    scores: Floats, transposed: Floats, num_inputs: int, labels: Floats, num_targets: int, learning_rate: np.float32
) -> None:
    """Replace scores by errors times the learning rate; the padding becomes zero."""
    for row in range(num_inputs):
        for target in range(num_targets):
            error = _error(scores[row, target], labels[target]) * learning_rate
            scores[row, target] = error
            transposed[target, row] = error
        scores[row, num_targets] = scores[row, num_targets + 1] = 0
    for target in range(num_targets):
        transposed[target, num_inputs] = transposed[target, num_inputs + 1] = 0


@jit
def _add_products(table: Floats, ids: Integers, count: int, factors: Floats, others: Floats, num_others: int) -> None:
    """table[ids] += factors @ others, three rows of `others` at a time."""
    for index in range(count):
        id = ids[index]
        for other in range(0, num_others, 3):
            a, b, c = factors[index, other], factors[index, other + 1], factors[index, other + 2]
            for column in range(table.shape[1]):
                table[id, column] += (
                    a * others[other, column] + b * others[other + 1, column] + c * others[other + 2, column]
                )
