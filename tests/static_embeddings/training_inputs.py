"""Synthetic corpora and inputs for the trainers of static embeddings."""

import numpy as np

from polyseme.datasets.token_store import TokenStore
from polyseme.objectives.sources import TokenSource
from polyseme.static_embeddings.base import TrainingInputs
from polyseme.step_schedule import StepSchedule


def store_of(sentences, *, fingerprint, documents=None):
    """A store of sentences of ids, by default with one document per sentence."""
    bounds = np.cumsum([0, *map(len, sentences)])
    return TokenStore(
        tokens=np.concatenate(sentences).astype(np.uint16),
        sentences=bounds,
        documents=np.arange(len(bounds)) if documents is None else np.array(documents),
        num_characters=int(bounds[-1]),
        num_words=int(bounds[-1]),
        num_unknown=0,
        fingerprint=fingerprint,
    )


def topics(*, num_topics=4, num_words=8, num_sentences=400, length=8, random_share=0.0, seed=0):
    """Sentences of one topic each, with some random words: topic t has the words n·t to n·(t + 1)."""
    rng = np.random.default_rng(seed)
    own = rng.integers(num_topics, size=(num_sentences, 1)) * num_words
    own = own + rng.integers(num_words, size=(num_sentences, length))
    other = rng.integers(num_topics * num_words, size=own.shape)
    return list(np.where(rng.random(own.shape) < random_share, other, own))


def inputs_of(
    store, *, vocab_size, width, total=4, num_threads=1, seed=0, tokens_per_step=512, learning_rate=0.05, specials=0
):
    """Inputs with zero vectors whose last ids are special tokens."""
    return TrainingInputs(
        vectors=np.zeros((vocab_size, width), np.float32),
        is_word=np.arange(vocab_size) < vocab_size - specials,
        source=TokenSource(store, tokens_per_step, 1),
        schedule=StepSchedule(steps=total),
        learning_rate=learning_rate,
        seed=seed,
        num_threads=num_threads,
    )


def cosines(vectors):
    """The cosine similarity of every two words."""
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
    return unit @ unit.T


def topic_separation(vectors, num_topics=4, num_words=8):
    """The mean cosine within topics minus that across topics."""
    numbers = np.arange(num_topics * num_words) // num_words
    similarities = cosines(vectors[: len(numbers)])
    same = (numbers[:, None] == numbers) & ~np.eye(len(numbers), dtype=bool)
    return similarities[same].mean() - similarities[numbers[:, None] != numbers].mean()
