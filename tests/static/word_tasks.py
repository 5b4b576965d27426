"""What learners of vectors are given in tests."""

import numpy as np

from polyseme.course import Course
from polyseme.objectives import Source
from polyseme.static.learner import Task
from polyseme.text.store import Store


def store_of(sentences, *, fingerprint, documents=None):
    """A store of sentences of ids, each of them a document if nothing else is said."""
    bounds = np.cumsum([0, *map(len, sentences)])
    return Store(
        tokens=np.concatenate(sentences).astype(np.uint16),
        sentences=bounds,
        documents=np.arange(len(bounds)) if documents is None else np.array(documents),
        num_characters=int(bounds[-1]),
        num_words=int(bounds[-1]),
        unknown=0,
        fingerprint=fingerprint,
    )


def topics(*, num_topics=4, num_words=8, num_sentences=400, length=8, noise=0.0, seed=0):
    """Sentences that keep to a topic each, but for some noise: words n·t to n·(t + 1) stand together."""
    chance = np.random.default_rng(seed)
    own = chance.integers(num_topics, size=(num_sentences, 1)) * num_words
    own = own + chance.integers(num_words, size=(num_sentences, length))
    other = chance.integers(num_topics * num_words, size=own.shape)
    return list(np.where(chance.random(own.shape) < noise, other, own))


def task_of(store, *, vocab_size, width, total=4, threads=1, seed=0, step_tokens=512, rate=0.05, specials=0):
    """A task whose last ids are special tokens."""
    return Task(
        vectors=np.zeros((vocab_size, width), np.float32),
        words=np.arange(vocab_size) < vocab_size - specials,
        source=Source(store, step_tokens, 1),
        course=Course(steps=total),
        rate=rate,
        seed=seed,
        threads=threads,
    )


def cosines(vectors):
    """Of each two words."""
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
    return unit @ unit.T


def apart(vectors, num_topics=4, num_words=8):
    """How much closer words of one topic are than others, as a difference of mean cosines."""
    numbers = np.arange(num_topics * num_words) // num_words
    near = cosines(vectors[: len(numbers)])
    same = (numbers[:, None] == numbers) & ~np.eye(len(numbers), dtype=bool)
    return near[same].mean() - near[numbers[:, None] != numbers].mean()
