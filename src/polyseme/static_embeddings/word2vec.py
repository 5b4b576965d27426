"""word2vec: skip-gram and CBOW with negative sampling or hierarchical softmax (Mikolov et al., 2013a, b).

Skip-gram predicts the center word from each word of its window, CBOW from their mean. All four combinations reduce to
logistic regression between some input vectors and some output vectors with binary labels: the center word against
negative samples, or the branches on its path through a Huffman tree.

Two differences from the original code: the negative samples are shared by all inputs of a window, so that a window is a
product of two small matrices (Ji et al., 2016), and its vectors are updated after the whole window has been read.

Threads share all vectors without locks (Hogwild; Recht et al., 2011). Only runs on one thread are deterministic,
resumed or not; runs on several give vectors of the same quality.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyseme.arrays import Floats, Integers
from polyseme.objectives.sources import TokenSource
from polyseme.static_embeddings.base import StaticTrainer, TrainingInputs
from polyseme.static_embeddings.config import PredictionConfig
from polyseme.static_embeddings.huffman import HuffmanTree, build_huffman_tree
from polyseme.static_embeddings.jit_rng import HALF, lcg_next, prefetch, randint
from polyseme.static_embeddings.sampling import alias_table, keep_probabilities
from polyseme.static_embeddings.word2vec_kernels import WindowPair, allocate_scratch, allocate_windows, update_window
from polyseme.system.jit import jit

_SHARD = 10_000  # tokens between two updates of the learning rate, as in the original code
MAX_SENTENCE = 1000  # words; longer sentences are split, as in the original code
_MIN_LEARNING_RATE = 1e-4  # at the end, relative to the initial one
_MEASURE_EVERY = np.uint64(32)  # the training loss is computed for one window of this many

_LOWER_HALF = np.uint64(0xFFFFFFFF)


class Word2vecTrainer(StaticTrainer):
    """Reads the corpus sequentially, epoch after epoch, with a linearly decaying learning rate."""

    def __init__(self, config: PredictionConfig, inputs: TrainingInputs) -> None:
        super().__init__(config, inputs)
        counts = inputs.word_counts()
        self.keep = (keep_probabilities(counts, config.subsample) * 2.0**32).astype(np.uint64)
        if config.softmax == "hierarchical":
            self.tree, self.negative_table = build_huffman_tree(counts), np.zeros(0, np.uint64)
            num_outputs = int(np.count_nonzero(counts)) - 1
        else:
            self.tree = build_huffman_tree(np.zeros_like(counts))
            self.negative_table = alias_table(counts.astype(np.float64) ** config.smoothing)
            num_outputs = len(counts)
        self.outputs = np.zeros((num_outputs, inputs.vectors.shape[1]), np.float32)
        self.arrays["outputs"] = self.outputs

    @property
    def learning_rate(self) -> float:
        return self._learning_rate_at(self.steps_done * self.inputs.tokens_per_step)

    def _learning_rate_at(self, num_tokens: int) -> float:
        progress = self.schedule.scaled_step(num_tokens / self.inputs.tokens_per_step) / self.schedule.steps
        return self.inputs.learning_rate * max(_MIN_LEARNING_RATE, 1 - progress)

    def train_step(self) -> dict[str, float]:
        begin = self.steps_done * self.inputs.tokens_per_step
        return self._run(self.inputs.source, begin, begin + self.inputs.tokens_per_step)

    def evaluate(self, source: TokenSource, *, num_batches: int) -> dict[str, float]:
        """The mean loss on another text."""
        return self._run(source, 0, num_batches * source.num_rows * source.length, validation=True)

    def _run(self, source: TokenSource, begin: int, end: int, *, validation: bool = False) -> dict[str, float]:
        """Process a span of the corpus, which repeats without end, in shards."""

        def run_shard(shard: tuple[int, int, int]) -> tuple[float, int]:
            position, first, last = shard
            seeds = np.random.SeedSequence([self.inputs.seed, position])
            return self._train_shard(
                read_only(source.store.tokens),
                read_only(source.store.sentences[first : last + 1]),
                np.float32(0.0 if validation else self._learning_rate_at(position)),
                np.uint64(1) if validation else _MEASURE_EVERY,
                seeds.generate_state(1, np.uint64)[0],
            )

        with ThreadPoolExecutor(self.inputs.num_threads) as pool:
            losses, counts = zip(*pool.map(run_shard, shards(source.store.sentences, begin, end)), strict=True)
        return {self.config.kind: sum(losses) / max(1, sum(counts))}

    def _train_shard(
        self, tokens: Integers, bounds: Integers, learning_rate: np.float32, measure_every: np.uint64, rng: np.uint64
    ) -> tuple[float, int]:
        """Train on some sentences; return the summed loss of the measured windows and their number of predictions."""
        return _train(
            tokens,
            bounds,
            self.keep,
            self.config.window,
            self.config.is_cbow,
            self.negative_table,
            self.config.negatives,
            self.tree,
            self.inputs.vectors,
            self.outputs,
            learning_rate,
            measure_every,
            rng,
        )


def shards(sentences: Integers, begin: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Split a span of the repeated corpus: the position of each shard, its first sentence and its end."""
    length = int(sentences[-1])
    cuts = {*range(begin, end, _SHARD), *range(-(-begin // length) * length, end, length), end}
    for position, following in pairwise(sorted(cuts)):
        first, last = np.searchsorted(sentences, (position % length, (following - 1) % length + 1))
        yield position, int(first), int(last)


def read_only(array: Integers) -> Integers:
    """A read-only view, so that kernels are compiled once for memory-mapped and in-memory arrays."""
    view = np.asarray(array).view()
    view.flags.writeable = False
    return view


@jit
def _train(
    tokens: Integers,
    bounds: Integers,
    keep: NDArray[np.uint64],
    window: int,
    use_mean: bool,
    negative_table: NDArray[np.uint64],
    num_negatives: int,
    tree: HuffmanTree,
    vectors: Floats,
    outputs: Floats,
    learning_rate: np.float32,
    measure_every: np.uint64,
    rng: Any,
) -> tuple[float, int]:
    """Train on some sentences; return the summed loss of the measured windows and their number of predictions."""
    max_targets = max(tree.longest, num_negatives + 1)
    windows = allocate_windows(window, max_targets)
    scratch = allocate_scratch(2 * window, max_targets, vectors.shape[1])
    sentence = np.empty(MAX_SENTENCE, np.int64)
    loss, count, num_windows = 0.0, 0, 0
    for number in range(len(bounds) - 1):
        position, end = bounds[number], bounds[number + 1]
        while position < end:
            length = 0
            while position < end and length < MAX_SENTENCE:
                word = tokens[position]
                position += 1
                rng = lcg_next(rng)
                if rng >> HALF < keep[word]:
                    prefetch(vectors, word)
                    sentence[length] = word
                    length += 1
            for center in range(length):
                rng = lcg_next(rng)
                radius = 1 + randint(rng, window)
                index, num_words = num_windows & 1, 0
                for other in range(max(0, center - radius), min(length, center + radius + 1)):
                    if other != center:
                        windows.words[index, num_words] = sentence[other]
                        num_words += 1
                if num_words == 0:
                    continue
                windows.num_words[index] = num_words
                rng = set_targets(windows, index, sentence[center], negative_table, num_negatives, tree, rng)
                for target in range(windows.num_targets[index]):
                    prefetch(outputs, windows.targets[index, target])
                num_windows += 1
                if num_windows > 1:
                    measure = rng >> HALF & measure_every - np.uint64(1) == 0
                    loss += update_window(
                        vectors, outputs, windows, 1 - index, use_mean, learning_rate, measure, scratch
                    )
                    count += (1 if use_mean else windows.num_words[1 - index]) if measure else 0
    if num_windows:
        index = num_windows - 1 & 1
        loss += update_window(vectors, outputs, windows, index, use_mean, learning_rate, True, scratch)
        count += 1 if use_mean else windows.num_words[index]
    return loss, count


@jit
def set_targets(
    windows: WindowPair,
    index: int,
    center: int,
    negative_table: NDArray[np.uint64],
    num_negatives: int,
    tree: HuffmanTree,
    rng: Any,
) -> Any:
    """Set the targets of a window: the path to its center word, or that word and negative samples."""
    targets, labels = windows.targets[index], windows.labels[index]
    first = tree.starts[center]
    num_targets = tree.starts[center + 1] - first
    for depth in range(num_targets):
        targets[depth] = tree.nodes[first + depth]
        labels[depth] = tree.labels[first + depth]
    if len(negative_table):
        targets[0] = center
        labels[0] = 1
        num_targets = 1
        for _ in range(num_negatives):
            rng = lcg_next(rng)
            sample = randint(rng, len(negative_table))
            entry = negative_table[sample]
            rng = lcg_next(rng)
            if rng >> HALF >= entry >> HALF:
                sample = int(np.int64(entry & _LOWER_HALF))
            if sample != center:
                targets[num_targets] = sample
                labels[num_targets] = 0
                num_targets += 1
    targets[num_targets : num_targets + 2] = targets[0]  # padding to tiles of three, with zero error
    windows.num_targets[index] = num_targets
    return rng
