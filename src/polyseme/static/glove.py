"""GloVe: vectors whose products are the logarithms of how often words stand near each other (Pennington et al., 2014).

The cost of a pair that was met x times is f(x) (w·v + b + c - log x)², where f keeps frequent pairs from ruling and
rare ones from misleading. Each word has a vector as itself and one as a neighbour, and their sum is what is kept.

As in the paper's program, what AdaGrad adds up are squares of whole moves, rate included, and the biases move at rate
1. Pairs are dealt out into parts at random; each pass visits the parts in a new order, and so what is in them.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from tempfile import TemporaryFile
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from polyseme.errors import DataError
from polyseme.files import cache_folder, require_space
from polyseme.kernels import compiled
from polyseme.learning import LearnerState
from polyseme.objectives.vectors import GloveConfig
from polyseme.static.counts import near_pairs
from polyseme.static.kernels import draw, fetch, follow
from polyseme.static.learner import Floats, Task, VectorLearner

_RECORD = np.dtype([("word", np.int32), ("other", np.int32), ("count", np.float32)])
_PART = 1 << 19  # pairs that are shuffled at once
_AHEAD = 4  # pairs whose vectors are on the way from memory
_LARGEST = np.float32(100)  # of a gradient's numbers; beyond it they are clipped

Records = NDArray[np.void]


class Deck:
    """Pairs in random order, in a file that goes with the process."""

    def __init__(self, counts: csr_array, seed: int, *, part: int = _PART) -> None:
        folder = cache_folder()
        num_parts = -(-counts.nnz // part)
        # Each of as many stretches of the matrix gives as much to every part.
        bounds = np.linspace(0, counts.nnz, num_parts + 1).astype(np.int64)
        shares = np.linspace(bounds[:-1], bounds[1:], num_parts + 1, axis=1).astype(np.int64)  # (stretches, parts + 1)
        sizes = np.diff(shares)
        self.seed = seed
        self.starts = np.concatenate([[0], np.cumsum(sizes.sum(axis=0))])
        places = self.starts[:-1] + np.cumsum(sizes, axis=0) - sizes
        try:
            folder.mkdir(parents=True, exist_ok=True)
            require_space(folder, counts.nnz * _RECORD.itemsize, DataError)
            with TemporaryFile(dir=folder) as file:
                for stretch, cuts in enumerate(shares):
                    records = _records(counts, cuts[0], cuts[-1])
                    _shuffle(records, _chance(seed, 0, stretch))
                    for share, place in zip(np.split(records, cuts[1:-1] - cuts[0]), places[stretch], strict=True):
                        file.seek(place * _RECORD.itemsize)
                        file.write(share.data)
                self.records: Records = np.memmap(file, _RECORD, mode="r")
        except OSError as error:
            raise DataError(f"{folder}: {error.strerror}; make room or set POLYSEME_CACHE to another disk") from None

    @property
    def num_parts(self) -> int:
        return len(self.starts) - 1

    def __len__(self) -> int:
        return len(self.records)

    def order(self, turn: int) -> NDArray[np.int64]:
        """In which the parts are visited in a pass."""
        return np.random.default_rng([self.seed, 1, turn]).permutation(self.num_parts)

    def read(self, turn: int, part: int) -> Records:
        """The pairs of a part as they follow each other in a pass."""
        records = np.array(self.records[self.starts[part] : self.starts[part + 1]])
        _shuffle(records, _chance(self.seed, 2, turn, part))
        return records


def _records(counts: csr_array, begin: int, end: int) -> Records:
    records = np.empty(end - begin, _RECORD)
    lengths = np.diff(np.clip(counts.indptr, begin, end))
    records["word"] = np.repeat(np.arange(counts.shape[0]), lengths)
    records["other"] = counts.indices[begin:end]
    records["count"] = counts.data[begin:end]
    return records


def _chance(*numbers: int) -> Any:
    """Where the random numbers of a shuffling begin."""
    return np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0]


@compiled
def _shuffle(records: Records, chance: Any) -> None:
    for last in range(len(records) - 1, 0, -1):
        chance = follow(chance)
        place = draw(chance, last + 1)
        one, other = records[last], records[place]
        word, beside, count = one.word, one.other, one.count
        one.word, one.other, one.count = other.word, other.other, other.count
        other.word, other.other, other.count = word, beside, count


class Glove(VectorLearner):
    """Goes over all pairs in each pass; a step has the share of a pass that its tokens have of the text."""

    def __init__(self, config: GloveConfig, task: Task) -> None:
        super().__init__(task)
        self.config = config
        counts = near_pairs(task.store, config, task.words)
        if not counts.nnz:
            raise DataError("no two words of the text stand near each other; give more text")
        self.deck = Deck(counts, task.seed)
        self.place = (-1, -1)  # the pass and the part of it that are at hand
        self.records = np.empty(0, _RECORD)
        vocab_size, width = task.vectors.shape
        chance = np.random.default_rng(task.seed)
        for name in ("words", "others"):
            # The vector of a word and its bias lie beside what AdaGrad has added up for them: (V, 2, D + 1).
            table = np.ones((vocab_size, 2, width + 1), np.float32)
            table[:, 0] = (chance.random((vocab_size, width + 1), np.float32) - 0.5) / width
            self.arrays[name] = table

    def learn(self) -> dict[str, float]:
        cost, number = 0.0, 0
        place, end = self._begin(self.done), self._begin(self.done + 1)
        with ThreadPoolExecutor(self.task.threads) as pool:
            while place < end:
                records = self._from(place)[: end - place]
                cost += sum(pool.map(self._move, np.array_split(records, self.task.threads)))
                number += len(records)
                place += len(records)
        if self.done + 1 == self.total:
            self._sum_up()
        return {"glove": cost / max(1, number)}

    def state(self) -> LearnerState:
        self._sum_up()
        return super().state()

    def _sum_up(self) -> None:
        np.add(self.arrays["words"][:, 0, :-1], self.arrays["others"][:, 0, :-1], out=self.task.vectors)

    def _begin(self, step: int) -> int:
        """Pairs that were read before a step."""
        return step * self.task.step_tokens * len(self.deck) // self.task.store.num_tokens

    def _from(self, place: int) -> Records:
        """The pairs that follow, up to the end of a part."""
        turn, inside = divmod(place, len(self.deck))
        order = self.deck.order(turn)
        starts = np.concatenate([[0], np.cumsum(np.diff(self.deck.starts)[order])])
        number = int(np.searchsorted(starts, inside, side="right")) - 1
        if self.place != (turn, number):
            self.place, self.records = (turn, number), self.deck.read(turn, int(order[number]))
        return self.records[inside - starts[number] :]

    def _move(self, records: Records) -> float:
        rate, most, power = (np.float32(value) for value in (self.rate, self.config.most, self.config.power))
        return _learn(records, self.arrays["words"], self.arrays["others"], rate, most, power)


@compiled
def _learn(records: Records, words: Floats, others: Floats, rate: Any, most: Any, power: Any) -> float:
    """Move both vectors of each pair; the sum of what they cost before."""
    bias = words.shape[2] - 1
    flat_words, flat_others = words.reshape(len(words), -1), others.reshape(len(others), -1)
    cost = 0.0
    for place in range(len(records)):
        soon = records[min(place + _AHEAD, len(records) - 1)]
        fetch(flat_words, soon.word)
        fetch(flat_others, soon.other)
        record = records[place]
        word, word_squares = words[record.word, 0], words[record.word, 1]
        other, other_squares = others[record.other, 0], others[record.other, 1]
        product = np.float32(0)
        for column in range(bias):
            product += word[column] * other[column]
        error = product + word[bias] + other[bias] - np.log(record.count)
        push = error * (np.float32(1) if record.count >= most else (record.count / most) ** power)
        cost += push * error
        for column in range(bias):
            move = rate * min(max(push * other[column], -_LARGEST), _LARGEST)
            other_move = rate * min(max(push * word[column], -_LARGEST), _LARGEST)
            word[column] -= move / np.sqrt(word_squares[column])
            other[column] -= other_move / np.sqrt(other_squares[column])
            word_squares[column] += move * move
            other_squares[column] += other_move * other_move
        word[bias] -= push / np.sqrt(word_squares[bias])
        other[bias] -= push / np.sqrt(other_squares[bias])
        word_squares[bias] += push * push
        other_squares[bias] += push * push
    return cost
