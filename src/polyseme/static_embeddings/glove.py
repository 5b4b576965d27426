"""GloVe: word vectors by weighted least squares on log co-occurrence counts (Pennington et al., 2014).

The loss of a pair with count x is f(x) (w·v + b + c - log x)², where f limits the weight of frequent and rare pairs.
Each word has a word vector and a context vector; their sum is the result.

As in the original code, AdaGrad accumulates squared updates (learning rate included) and the biases have learning rate
1. Pairs are distributed at random over parts of a file; each epoch visits the parts, and the pairs within them, in a
new order.
"""

from concurrent.futures import ThreadPoolExecutor
from tempfile import TemporaryFile
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from polyseme.arrays import Floats, Ids
from polyseme.errors import DataError
from polyseme.learner import LearnerState
from polyseme.static_embeddings.base import StaticTrainer, TrainingInputs
from polyseme.static_embeddings.config import GloveConfig
from polyseme.static_embeddings.cooccurrence import cooccurrence_counts, require_cooccurrences
from polyseme.static_embeddings.jit_rng import lcg_next, prefetch, randint
from polyseme.system.atomic_io import require_space
from polyseme.system.cache import temporary_folder
from polyseme.system.jit import jit

_RECORD = np.dtype([("word", np.int32), ("context", np.int32), ("count", np.float32)])
_PART = 1 << 19  # pairs that are shuffled at once
_PREFETCH_DISTANCE = 4  # pairs
_MAX_GRADIENT = np.float32(100)  # per dimension, before the learning rate

Records = NDArray[np.void]


class ShuffledPairs:
    """Co-occurring pairs in random order, in a temporary file."""

    def __init__(self, counts: csr_array, seed: int, *, part: int = _PART) -> None:
        num_parts = -(-counts.nnz // part)
        # The matrix is split into as many chunks as there are parts; each chunk contributes equally to every part.
        bounds = np.linspace(0, counts.nnz, num_parts + 1).astype(np.int64)
        cuts = np.linspace(bounds[:-1], bounds[1:], num_parts + 1, axis=1).astype(np.int64)  # (chunks, parts + 1)
        sizes = np.diff(cuts)
        self.seed = seed
        self.starts = np.concatenate([[0], np.cumsum(sizes.sum(axis=0))])
        offsets = self.starts[:-1] + np.cumsum(sizes, axis=0) - sizes
        with temporary_folder() as folder:
            require_space(folder, counts.nnz * _RECORD.itemsize, DataError)
            with TemporaryFile(dir=folder) as file:
                for chunk, chunk_cuts in enumerate(cuts):
                    records = _records(counts, chunk_cuts[0], chunk_cuts[-1])
                    _shuffle(records, _rng_state(seed, 0, chunk))
                    split = np.split(records, chunk_cuts[1:-1] - chunk_cuts[0])
                    for records_of_part, offset in zip(split, offsets[chunk], strict=True):
                        file.seek(offset * _RECORD.itemsize)
                        file.write(records_of_part.data)
                self.records: Records = np.memmap(file, _RECORD, mode="r")

    @property
    def num_parts(self) -> int:
        return len(self.starts) - 1

    def __len__(self) -> int:
        return len(self.records)

    def part_order(self, epoch: int) -> Ids:
        """The order in which an epoch visits the parts."""
        return np.random.default_rng([self.seed, 1, epoch]).permutation(self.num_parts)

    def read(self, epoch: int, part: int) -> Records:
        """The pairs of a part in the order of an epoch."""
        records = np.array(self.records[self.starts[part] : self.starts[part + 1]])
        _shuffle(records, _rng_state(self.seed, 2, epoch, part))
        return records


def _records(counts: csr_array, begin: int, end: int) -> Records:
    records = np.empty(end - begin, _RECORD)
    lengths = np.diff(np.clip(counts.indptr, begin, end))
    records["word"] = np.repeat(np.arange(counts.shape[0]), lengths)
    records["context"] = counts.indices[begin:end]
    records["count"] = counts.data[begin:end]
    return records


def _rng_state(*key: int) -> Any:
    """The initial state of the generator of one shuffle."""
    return np.random.SeedSequence(key).generate_state(1, np.uint64)[0]


@jit
def _shuffle(records: Records, rng: Any) -> None:
    """Fisher–Yates shuffle."""
    for last in range(len(records) - 1, 0, -1):
        rng = lcg_next(rng)
        a, b = records[last], records[randint(rng, last + 1)]
        word, context, count = a.word, a.context, a.count
        a.word, a.context, a.count = b.word, b.context, b.count
        b.word, b.context, b.count = word, context, count


class GloveTrainer(StaticTrainer):
    """AdaGrad over all pairs; a step covers the same fraction of the pairs as its tokens are of the corpus."""

    def __init__(self, config: GloveConfig, inputs: TrainingInputs) -> None:
        super().__init__(config, inputs)
        counts = require_cooccurrences(cooccurrence_counts(inputs.source.store, config, inputs.is_word))
        self.pairs = ShuffledPairs(counts, inputs.seed)
        self.loaded = (-1, -1)  # the epoch of the records in memory, and the index of their part in its order
        self.records = np.empty(0, _RECORD)
        vocab_size, width = inputs.vectors.shape
        rng = np.random.default_rng(inputs.seed)
        for name in ("words", "contexts"):
            # Each vector and its bias lie beside their AdaGrad accumulators: (V, 2, D + 1).
            table = np.ones((vocab_size, 2, width + 1), np.float32)
            table[:, 0] = (rng.random((vocab_size, width + 1), np.float32) - 0.5) / width
            self.arrays[name] = table

    def train_step(self) -> dict[str, float]:
        loss, num_pairs = 0.0, 0
        position, end = self._first_pair(self.steps_done), self._first_pair(self.steps_done + 1)
        with ThreadPoolExecutor(self.inputs.num_threads) as pool:
            while position < end:
                records = self._records_from(position)[: end - position]
                loss += sum(pool.map(self._update, np.array_split(records, self.inputs.num_threads)))
                num_pairs += len(records)
                position += len(records)
        if self.steps_done + 1 == self.total_steps:
            self._sum_vectors()
        return {"glove": loss / max(1, num_pairs)}

    def state(self) -> LearnerState:
        self._sum_vectors()
        return super().state()

    def _sum_vectors(self) -> None:
        np.add(self.arrays["words"][:, 0, :-1], self.arrays["contexts"][:, 0, :-1], out=self.inputs.vectors)

    def _first_pair(self, step: int) -> int:
        """The number of pairs read before a step."""
        return step * self.inputs.tokens_per_step * len(self.pairs) // self.inputs.source.store.num_tokens

    def _records_from(self, position: int) -> Records:
        """The pairs from a position on, up to the end of a part."""
        epoch, offset = divmod(position, len(self.pairs))
        order = self.pairs.part_order(epoch)
        starts = np.concatenate([[0], np.cumsum(np.diff(self.pairs.starts)[order])])
        index = int(np.searchsorted(starts, offset, side="right")) - 1
        if self.loaded != (epoch, index):
            self.loaded, self.records = (epoch, index), self.pairs.read(epoch, int(order[index]))
        return self.records[offset - starts[index] :]

    def _update(self, records: Records) -> float:
        settings = (np.float32(value) for value in (self.learning_rate, self.config.x_max, self.config.alpha))
        return update_pairs(records, self.arrays["words"], self.arrays["contexts"], *settings)


@jit
def update_pairs(
    records: Records, words: Floats, contexts: Floats, learning_rate: Any, x_max: Any, alpha: Any
) -> float:
    """Update both vectors of each pair in turn; return the sum of the losses before each update."""
    bias = words.shape[2] - 1
    flat_words, flat_contexts = words.reshape(len(words), -1), contexts.reshape(len(contexts), -1)
    loss = 0.0
    for index in range(len(records)):
        upcoming = records[min(index + _PREFETCH_DISTANCE, len(records) - 1)]
        prefetch(flat_words, upcoming.word)
        prefetch(flat_contexts, upcoming.context)
        record = records[index]
        word, word_squares = words[record.word, 0], words[record.word, 1]
        context, context_squares = contexts[record.context, 0], contexts[record.context, 1]
        product = np.float32(0)
        for column in range(bias):
            product += word[column] * context[column]
        error = product + word[bias] + context[bias] - np.log(record.count)
        weighted = error * (np.float32(1) if record.count >= x_max else (record.count / x_max) ** alpha)
        loss += weighted * error
        for column in range(bias):
            word_update = learning_rate * min(max(weighted * context[column], -_MAX_GRADIENT), _MAX_GRADIENT)
            context_update = learning_rate * min(max(weighted * word[column], -_MAX_GRADIENT), _MAX_GRADIENT)
            word[column] -= word_update / np.sqrt(word_squares[column])
            context[column] -= context_update / np.sqrt(context_squares[column])
            word_squares[column] += word_update * word_update
            context_squares[column] += context_update * context_update
        word[bias] -= weighted / np.sqrt(word_squares[bias])
        context[bias] -= weighted / np.sqrt(context_squares[bias])
        word_squares[bias] += weighted * weighted
        context_squares[bias] += weighted * weighted
    return loss
