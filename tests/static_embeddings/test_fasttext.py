"""fastText: n-grams, composed vectors, one update by hand, and whole runs."""

import dataclasses

import numpy as np
import pytest
import torch
from tests.static_embeddings.training_inputs import cosines, inputs_of, store_of, topic_separation

from polyseme.batch import Batch
from polyseme.errors import ConfigError
from polyseme.static_embeddings.base import Subwords
from polyseme.static_embeddings.config import FastTextObjectiveConfig
from polyseme.static_embeddings.fasttext.encoder import FastText, FastTextConfig, compose, decompose
from polyseme.static_embeddings.fasttext.ngrams import hash_ngrams
from polyseme.static_embeddings.fasttext.trainer import FastTextTrainer

WORDS = ["a", "bank", "caf\u00e9", "na\u00efvet\u00e9", "苹果", "的", "\U0001f600x", "<", "don't"]
VARIANTS = [("skipgram", "negative"), ("cbow", "negative"), ("skipgram", "hierarchical"), ("cbow", "hierarchical")]


def fnv1a(ngram):
    """The hash of the fastText program, with its sign extension of bytes."""
    value = 2166136261
    for byte in ngram.encode():
        value = (value ^ (byte - 256 if byte > 127 else byte) & 0xFFFFFFFF) * 16777619 & 0xFFFFFFFF
    return value


def ngrams_of(word, min_n, max_n):
    """The n-grams by first character, then by length; < and > alone are none."""
    whole = f"<{word}>"
    spans = [(first, first + n) for first in range(len(whole)) for n in range(max(1, min_n), max_n + 1)]
    alone = {(0, 1), (len(whole) - 1, len(whole))}
    return [whole[first:end] for first, end in spans if end <= len(whole) and (first, end) not in alone]


@pytest.mark.parametrize(("min_n", "max_n", "num_buckets"), [(3, 6, 2_000_000), (1, 2, 1000), (0, 3, 7), (5, 5, 100)])
def test_ngrams(min_n, max_n, num_buckets):
    buckets, starts = hash_ngrams(WORDS, min_n=min_n, max_n=max_n, num_buckets=num_buckets)
    assert len(starts) == len(WORDS) + 1
    for word, start, end in zip(WORDS, starts, starts[1:], strict=False):
        expected = [fnv1a(ngram) % num_buckets for ngram in ngrams_of(word, min_n, max_n)]
        assert buckets[start:end].tolist() == expected, word


def test_known_ngrams():
    assert ngrams_of("as", 3, 6) == ["<as", "<as>", "as>"]
    assert ngrams_of("的", 1, 2) == ["<的", "的", "的>"]
    assert fnv1a("a") == 0xE40C292C, "FNV-1a of ASCII characters"


def test_words_without_ngrams():
    words = ["", "</s>", "ab"]
    assert hash_ngrams(words, min_n=5, max_n=6, num_buckets=9)[1].tolist() == [0, 0, 0, 0]
    assert hash_ngrams(words, min_n=0, max_n=0, num_buckets=0)[1].tolist() == [0, 0, 0, 0]
    assert hash_ngrams([], min_n=3, max_n=6, num_buckets=9)[1].tolist() == [0]
    assert len(hash_ngrams(["\ud800"], min_n=3, max_n=6, num_buckets=9)[0]) == 1  # a lone surrogate


def test_ngrams_match_gensim():
    inner = pytest.importorskip("gensim.models.fasttext_inner")
    for word in WORDS:
        buckets, _ = hash_ngrams([word], min_n=2, max_n=4, num_buckets=10_000)
        expected = [inner.ft_hash_bytes(ngram) % 10_000 for ngram in inner.compute_ngrams_bytes(word, 2, 4)]
        assert buckets.tolist() == expected, word


def subwords_of(words, *, width, num_buckets=50, min_n=2, max_n=3, seed=0):
    vectors = np.random.default_rng(seed).normal(size=(num_buckets, width)).astype(np.float32)
    return Subwords(vectors, *hash_ngrams(words, min_n=min_n, max_n=max_n, num_buckets=num_buckets))


def test_composed_vectors_are_means():
    subwords = subwords_of([*WORDS, ""], width=4)
    own = np.random.default_rng(1).normal(size=(len(WORDS) + 1, 4)).astype(np.float32)
    means = compose(own, subwords)
    for number, mean in enumerate(means):
        rows = subwords.vectors[subwords.buckets[slice(*subwords.starts[number : number + 2])]]
        np.testing.assert_allclose(mean, np.mean([own[number], *rows], axis=0), atol=1e-6)
    np.testing.assert_array_equal(means[-1], own[-1])
    np.testing.assert_allclose(decompose(means, subwords), own, atol=1e-5)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


@pytest.mark.parametrize("architecture", ["skipgram", "cbow"])
def test_one_sentence_by_hand(architecture):
    """Two words, each predicted from the other, in the branches of the Huffman tree."""
    words = ["bank", "banker", "river"]
    subwords = subwords_of(words, width=5)
    inputs = inputs_of(store_of([[0, 1]], fingerprint=""), vocab_size=3, width=5, total=1, tokens_per_step=2)
    inputs = dataclasses.replace(inputs, subwords=subwords)
    inputs.vectors[...] = np.random.default_rng(2).normal(size=(3, 5))
    config = FastTextObjectiveConfig(architecture=architecture, softmax="hierarchical", window=1, subsample=0)
    model = FastTextTrainer(config, inputs)
    model.outputs[...] = np.random.default_rng(3).normal(size=model.outputs.shape)

    own, ngrams, outputs = (array.astype(float) for array in (model.words, subwords.vectors, model.outputs))
    rows = [subwords.buckets[slice(*subwords.starts[word : word + 2])] for word in range(3)]
    for source, target in ((1, 0), (0, 1)):
        vector = np.mean([model.words[source], *subwords.vectors[rows[source]]], axis=0)  # before both updates
        change = np.zeros(5)
        for branch in range(model.tree.starts[target], model.tree.starts[target + 1]):
            node, label = model.tree.nodes[branch], model.tree.labels[branch]
            error = 0.05 * (label - sigmoid(vector @ outputs[node]))
            change += error * outputs[node]
            outputs[node] += error * vector
        own[source] += change
        np.add.at(ngrams, rows[source], change)
    model.train_step()
    model.finalize()
    np.testing.assert_allclose(model.words, own, atol=1e-4)
    np.testing.assert_allclose(subwords.vectors, ngrams, atol=1e-4)
    np.testing.assert_allclose(model.outputs, outputs, atol=1e-4)
    np.testing.assert_allclose(inputs.vectors, compose(model.words, subwords), atol=1e-6)


STEMS = ["orchard", "violin", "glacier", "harbour"]
ENDINGS = ["ed", "er", "ing", "s", "ly", "ish", "est", ""]


def trained(architecture="skipgram", softmax="negative", *, num_threads=1, seed=0, total=30, steps=None):
    """A trainer, and an encoder with its vectors: the words of a topic share a stem, and the last four are special."""
    words = [stem + ending for stem in STEMS for ending in ENDINGS]
    rng = np.random.default_rng(0)
    topics = rng.integers(4, size=(600, 1)) * 8 + rng.integers(7, size=(600, 8))  # the bare stem never occurs
    config = FastTextConfig(vocab_size=36, width=12, num_buckets=500)
    torch.manual_seed(seed)
    encoder = FastText(config)
    vectors = encoder.tokens.weight.detach().numpy()
    store = store_of(list(topics), fingerprint="")
    sizes = {"vocab_size": 36, "width": 12, "specials": 4, "tokens_per_step": 4800}
    inputs = inputs_of(store, total=total, num_threads=num_threads, seed=seed, **sizes)
    ngrams = Subwords(encoder.tokens.ngrams.weight.numpy(), *config.hash_ngrams([*words, *[""] * 4]))
    inputs = dataclasses.replace(inputs, vectors=vectors, subwords=ngrams)
    objective = FastTextObjectiveConfig(architecture=architecture, softmax=softmax, subsample=0)
    model = FastTextTrainer(objective, inputs)
    for _, _ in zip(range(steps or 0), model.steps(), strict=False):
        pass
    return model, encoder


@pytest.mark.parametrize("num_threads", [1, 2])
@pytest.mark.parametrize(("architecture", "softmax"), VARIANTS)
def test_vectors_separate_topics(architecture, softmax, num_threads):
    model, encoder = trained(architecture, softmax, num_threads=num_threads)
    before = {name: array.copy() for name, array in model.arrays.items()}
    first = model.evaluate(model.inputs.source, num_batches=4)["fasttext"]
    for name, array in model.arrays.items():
        assert np.array_equal(array, before[name]), "evaluation changes no vectors"
    steps = list(model.steps())
    model.finalize()
    model.finalize()  # changes nothing more
    assert steps[-1].losses["fasttext"] < steps[0].losses["fasttext"]
    assert model.evaluate(model.inputs.source, num_batches=4)["fasttext"] < first - 0.2
    assert topic_separation(model.inputs.vectors) > 0.5
    assert np.array_equal(model.inputs.vectors[32:], before["words"][32:]), "special tokens are unchanged"
    # OOV words are close to the words with the same stem, which they share n-grams with.
    oov = encoder.oov_characters([f"un{stem}able" for stem in STEMS]).numpy()
    similar = cosines(np.concatenate([oov, model.inputs.vectors[:32]]))[:4, 4:].reshape(4, 4, 8).mean(2)
    assert (similar.argmax(1) == range(4)).all()


@pytest.mark.parametrize(("architecture", "softmax"), VARIANTS[:2])
def test_one_thread_is_deterministic_and_resumes_bit_exactly(architecture, softmax):
    whole, _ = trained(architecture, softmax, total=6, steps=6)
    half, _ = trained(architecture, softmax, total=6, steps=3)
    resumed, _ = trained(architecture, softmax, total=6)
    half.finalize()  # a checkpoint does not depend on it
    resumed.restore(half.state())
    list(resumed.steps())
    for name, array in resumed.arrays.items():
        assert np.array_equal(array, whole.arrays[name])
    other, _ = trained(architecture, softmax, total=6, steps=6, seed=1)
    assert not np.array_equal(other.words, whole.words)


def test_ngrams_of_no_word_are_zero():
    model, encoder = trained(steps=2)
    unused = np.setdiff1d(np.arange(500), model.subwords.buckets)
    assert len(unused) and not encoder.tokens.ngrams.weight[unused].any()
    assert encoder.tokens.ngrams.weight[model.subwords.buckets].any(1).all()


def test_forward_of_oov_words():
    encoder = FastText(FastTextConfig(vocab_size=9, width=4, num_buckets=20, min_n=2, max_n=3))
    vectors = encoder.oov_characters(["zebra", "", "x"])
    assert vectors[0].any() and not vectors[1].any() and vectors[2].any()
    ids = torch.tensor([[3, 9, 8], [11, 0, 10]])
    layer = encoder(Batch.of(ids, oov_characters=vectors)).layers[0]
    table = torch.cat([encoder.tokens.weight, vectors])
    assert torch.equal(layer, table[ids])
    layer.sum().backward()
    assert encoder.tokens.weight.grad.any(1).tolist() == [id in (0, 3, 8) for id in range(9)]


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"min_n": 4, "max_n": 3}, "max_n"), ({"max_n": 21}, "max_n"), ({"num_buckets": 0}, "num_buckets")],
)
def test_invalid_settings(settings, message):
    with pytest.raises(ConfigError, match=message):
        FastTextConfig.parse(settings, group="model")


def test_other_families_have_no_ngrams():
    inputs = inputs_of(store_of([[0, 1]], fingerprint=""), vocab_size=3, width=5)
    with pytest.raises(ConfigError, match="use the family fasttext"):
        FastTextObjectiveConfig().build_trainer(inputs)
