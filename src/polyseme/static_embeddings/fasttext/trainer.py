"""Training of fastText: skip-gram and CBOW in which the vector of a word is a mean with those of its n-grams.

The windows and their updates are those of word2vec. The vector of each word of a sentence is composed when the first
window reaches it, updated by the windows that contain it, and its total change is added to its own vector and to those
of its n-grams after the last one. So the n-grams of a word are read and written once instead of once per prediction.

Differences from the original code: those of `word2vec`; and CBOW takes the mean of the composed vectors of a window,
where the original takes that of all n-grams.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyseme.arrays import Floats, Integers
from polyseme.errors import ConfigError
from polyseme.static_embeddings.base import Subwords, TrainingInputs
from polyseme.static_embeddings.config import FastTextObjectiveConfig
from polyseme.static_embeddings.fasttext.encoder import compose
from polyseme.static_embeddings.huffman import HuffmanTree
from polyseme.static_embeddings.jit_rng import HALF, lcg_next, prefetch, randint
from polyseme.static_embeddings.word2vec import MAX_SENTENCE, Word2vecTrainer, set_targets
from polyseme.static_embeddings.word2vec_kernels import allocate_scratch, allocate_windows, update_window
from polyseme.system.jit import jit


class FastTextTrainer(Word2vecTrainer):
    """Trains whole-word vectors and n-gram vectors, and composes the word vectors of the model at the end."""

    def __init__(self, config: FastTextObjectiveConfig, inputs: TrainingInputs) -> None:
        super().__init__(config, inputs)
        if inputs.subwords is None:
            raise ConfigError("objective.kind: fasttext needs a model with n-grams; use the family fasttext")
        self.subwords = inputs.subwords
        self.words = inputs.vectors.copy()
        is_used = np.bincount(self.subwords.buckets, minlength=len(self.subwords.vectors)) > 0
        self.subwords.vectors[~is_used] = 0  # n-grams of OOV words only
        self.arrays = {"words": self.words, "ngrams": self.subwords.vectors, "outputs": self.outputs}

    def finalize(self) -> None:
        self.inputs.vectors[...] = compose(self.words, self.subwords)

    def _train_shard(
        self, tokens: Integers, bounds: Integers, learning_rate: np.float32, measure_every: np.uint64, rng: np.uint64
    ) -> tuple[float, int]:
        return _train(
            tokens,
            bounds,
            self.keep,
            self.config.window,
            self.config.is_cbow,
            self.negative_table,
            self.config.negatives,
            self.tree,
            self.words,
            self.subwords,
            self.outputs,
            learning_rate,
            measure_every,
            rng,
        )


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
    words: Floats,
    subwords: Subwords,
    outputs: Floats,
    learning_rate: np.float32,
    measure_every: np.uint64,
    rng: Any,
) -> tuple[float, int]:
    """Train on some sentences; return the summed loss of the measured windows and their number of predictions."""
    ngrams, buckets, starts = subwords
    max_targets = max(tree.longest, num_negatives + 1)
    windows = allocate_windows(window, max_targets)
    scratch = allocate_scratch(2 * window, max_targets, words.shape[1])
    sentence = np.empty(MAX_SENTENCE, np.int64)
    vectors = np.empty((MAX_SENTENCE, words.shape[1]), np.float32)  # of the words of the sentence
    initial = np.empty_like(vectors)
    loss, count = 0.0, 0
    for number in range(len(bounds) - 1):
        position, end = bounds[number], bounds[number + 1]
        while position < end:
            length = 0
            while position < end and length < MAX_SENTENCE:
                word = tokens[position]
                position += 1
                rng = lcg_next(rng)
                if rng >> HALF < keep[word]:
                    if length <= window:
                        _prefetch(words, ngrams, buckets, starts, word)
                    sentence[length] = word
                    length += 1
            if length < 2:
                continue
            num_composed = 0
            for center in range(length + 1):  # windows are updated one step after they were prepared
                index = center & 1
                if center < length:
                    while num_composed < min(length, center + window + 1):
                        _compose(vectors, initial, num_composed, words, ngrams, buckets, starts, sentence[num_composed])
                        num_composed += 1
                    if num_composed < length:
                        _prefetch(words, ngrams, buckets, starts, sentence[num_composed])
                    rng = lcg_next(rng)
                    radius = 1 + randint(rng, window)
                    num_words = 0
                    for other in range(max(0, center - radius), min(length, center + radius + 1)):
                        if other != center:
                            windows.words[index, num_words] = other
                            num_words += 1
                    windows.num_words[index] = num_words
                    rng = set_targets(windows, index, sentence[center], negative_table, num_negatives, tree, rng)
                    for target in range(windows.num_targets[index]):
                        prefetch(outputs, windows.targets[index, target])
                if center > 0:
                    measure = rng >> HALF & measure_every - np.uint64(1) == 0
                    loss += update_window(
                        vectors, outputs, windows, 1 - index, use_mean, learning_rate, measure, scratch
                    )
                    count += (1 if use_mean else windows.num_words[1 - index]) if measure else 0
                done = center - 1 - window  # no later window contains it
                if done >= 0:
                    _add_change(vectors, initial, done, words, ngrams, buckets, starts, sentence[done])
            for done in range(max(0, length - window), length):
                _add_change(vectors, initial, done, words, ngrams, buckets, starts, sentence[done])
    return loss, count


@jit
def _prefetch(words: Floats, ngrams: Floats, buckets: Integers, starts: Integers, word: int) -> None:
    """Prefetch the vectors that the vector of a word is composed of."""
    prefetch(words, word)
    for ngram in range(starts[word], starts[word + 1]):
        prefetch(ngrams, buckets[ngram])


@jit
def _compose(
    vectors: Floats,
    initial: Floats,
    row: int,
    words: Floats,
    ngrams: Floats,
    buckets: Integers,
    starts: Integers,
    word: int,
) -> None:
    """Write the mean of a word's whole-word vector and n-gram vectors to a row of two tables."""
    first, end = starts[word], starts[word + 1]
    vector, copy = vectors[row], initial[row]
    for column in range(words.shape[1]):
        vector[column] = words[word, column]
    paired = first + (end - first) // 2 * 2
    for ngram in range(first, paired, 2):
        one, two = buckets[ngram], buckets[ngram + 1]
        for column in range(words.shape[1]):
            vector[column] += ngrams[one, column] + ngrams[two, column]
    for ngram in range(paired, end):
        one = buckets[ngram]
        for column in range(words.shape[1]):
            vector[column] += ngrams[one, column]
    factor = np.float32(1) / np.float32(1 + end - first)
    for column in range(words.shape[1]):
        vector[column] *= factor
        copy[column] = vector[column]


@jit
def _add_change(
    vectors: Floats,
    initial: Floats,
    row: int,
    words: Floats,
    ngrams: Floats,
    buckets: Integers,
    starts: Integers,
    word: int,
) -> None:
    """Add the change of a word's vector to its whole-word vector and, undivided, to its n-gram vectors."""
    change, before = vectors[row], initial[row]
    for column in range(words.shape[1]):
        change[column] -= before[column]
        words[word, column] += change[column]
    for ngram in range(starts[word], starts[word + 1]):
        bucket = buckets[ngram]
        for column in range(words.shape[1]):
            ngrams[bucket, column] += change[column]
