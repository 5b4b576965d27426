import math

import numpy as np
import pytest
from scipy.sparse import csr_array
from tests.static_embeddings.training_inputs import inputs_of, store_of, topic_separation, topics

from polyseme.errors import DataError
from polyseme.static_embeddings.config import GloveConfig
from polyseme.static_embeddings.glove import GloveTrainer, ShuffledPairs, update_pairs

F = np.float32


def trainer(*, seed=0, total=40, num_threads=1, tokens_per_step=700, learning_rate=0.05, width=6, **settings):
    store = store_of(topics(random_share=0.3), fingerprint="topics with random words")
    inputs = inputs_of(
        store,
        vocab_size=34,
        width=width,
        num_threads=num_threads,
        seed=seed,
        total=total,
        tokens_per_step=tokens_per_step,
        learning_rate=learning_rate,
    )
    return GloveTrainer(GloveConfig(window=4, **settings), inputs)


def reference(records, words, contexts, learning_rate, x_max, alpha):
    """GloVe's update in plain double-precision loops."""
    loss = 0.0
    for i, j, count in records.tolist():
        (w, w_squares), (c, c_squares) = words[i], contexts[j]
        error = w[:-1] @ c[:-1] + w[-1] + c[-1] - math.log(count)
        weighted = error * min(1, (count / x_max) ** alpha)
        loss += weighted * error
        w_update = np.append(learning_rate * np.clip(weighted * c[:-1], -100, 100), weighted)
        c_update = np.append(learning_rate * np.clip(weighted * w[:-1], -100, 100), weighted)
        w -= w_update / np.sqrt(w_squares)
        c -= c_update / np.sqrt(c_squares)
        w_squares += w_update**2
        c_squares += c_update**2
    return loss


def test_one_update_by_hand():
    # w·w̃ = 1·2, b + b̃ = 0.5; x = 16 of at most 256: f = (1/16)^¾ = 1/8; error = 2.5 - log 16 = -0.2725887.
    records = np.array([(0, 0, 16)], [("word", "i4"), ("context", "i4"), ("count", "f4")])
    words, contexts = np.ones((1, 2, 2), F), np.ones((1, 2, 2), F)
    words[0, 0], contexts[0, 0] = (1, 0.2), (2, 0.3)
    loss = update_pairs(records, words, contexts, F(0.1), F(256), F(0.75))
    weighted = (2.5 - math.log(16)) / 8
    assert loss == pytest.approx((2.5 - math.log(16)) ** 2 / 8, rel=1e-5)
    np.testing.assert_allclose(words[0, 0], [1 - 0.1 * weighted * 2, 0.2 - weighted], rtol=1e-5)
    np.testing.assert_allclose(contexts[0, 0], [2 - 0.1 * weighted * 1, 0.3 - weighted], rtol=1e-5)
    np.testing.assert_allclose(words[0, 1], [1 + (0.1 * weighted * 2) ** 2, 1 + weighted**2], rtol=1e-6)


@pytest.mark.parametrize(("count", "weight"), [(100, 1), (1000, 1), (6.25, 0.125), (1, 0.0316228)])
def test_weight_of_a_pair(count, weight):
    records = np.array([(0, 0, count)], [("word", "i4"), ("context", "i4"), ("count", "f4")])
    words, contexts = np.ones((1, 2, 2), F), np.ones((1, 2, 2), F)
    loss = update_pairs(records, words, contexts, F(0.05), F(100), F(0.75))
    assert loss == pytest.approx(weight * (3 - math.log(count)) ** 2, rel=1e-4)


def test_losses_match_a_double_precision_reference():
    glove = trainer(total=20)
    words, contexts = (glove.arrays[name].astype(np.float64) for name in ("words", "contexts"))
    for step, record in enumerate(glove.steps()):
        begin, end = glove._first_pair(step), glove._first_pair(step + 1)
        losses = []
        position = begin
        while position < end:
            records = glove._records_from(position)[: end - position]
            losses.append(reference(records, words, contexts, 0.05, 100, 0.75))
            position += len(records)
        assert record.losses["glove"] == pytest.approx(sum(losses) / (end - begin), rel=1e-4)
    np.testing.assert_allclose(glove.inputs.vectors, (words + contexts)[:, 0, :-1], atol=1e-4)


def test_vectors_separate_topics():
    glove = trainer(total=200, x_max=20)
    losses = [step.losses["glove"] for step in glove.steps()]
    assert np.mean(losses[-10:]) < 0.7 * np.mean(losses[:10])
    assert topic_separation(glove.inputs.vectors) > 0.5


def test_each_epoch_visits_every_pair_once_in_a_new_order():
    counts = csr_array(np.arange(1.0, 101).reshape(10, 10).astype(F))
    pairs = ShuffledPairs(counts, 0, part=7)
    epochs = []
    for epoch in range(2):
        records = np.concatenate([pairs.read(epoch, part) for part in pairs.part_order(epoch)])
        assert sorted(records.tolist()) == [(i, j, 10 * i + j + 1) for i in range(10) for j in range(10)]
        epochs.append(records.tolist())
    assert epochs[0] != epochs[1]
    assert len(pairs) == 100
    assert np.abs(np.diff(np.diff(pairs.starts))).max() <= pairs.num_parts, "parts have about equal sizes"
    assert np.mean(np.abs(np.diff([record[0] for record in epochs[0]]))) > 2, "rows of consecutive pairs are far apart"


def test_resume_is_bit_exact():
    whole, half, again = trainer(total=9), trainer(total=9), trainer(total=9)
    list(whole.steps())
    steps = half.steps()
    for _ in range(4):
        next(steps)
    state = half.state()
    saved = {name: tensor.clone() for name, tensor in state.tensors["weights"].items()}
    assert topic_separation(state.tensors["weights"]["vectors"].numpy()) != 0, "checkpoints contain the current vectors"
    again.restore(state)
    assert [step.number for step in again.steps()] == [5, 6, 7, 8, 9]
    assert saved.keys() == {"vectors", "words", "contexts"}
    assert np.array_equal(again.inputs.vectors, whole.inputs.vectors)


def test_vectors_depend_on_the_seed_only():
    vectors = []
    for seed in (0, 0, 1):
        glove = trainer(seed=seed, total=2)
        list(glove.steps())
        vectors.append(glove.inputs.vectors)
    assert np.array_equal(vectors[0], vectors[1])
    assert not np.array_equal(vectors[0], vectors[2])


def test_loss_falls_with_several_threads():
    glove = trainer(total=120, num_threads=3)
    losses = [step.losses["glove"] for step in glove.steps()]
    assert np.mean(losses[-10:]) < 0.7 * np.mean(losses[:10])


@pytest.mark.parametrize("learning_rate", [10.0, 1000.0])
def test_excessive_learning_rates_give_finite_vectors(learning_rate):
    glove = trainer(learning_rate=learning_rate)
    list(glove.steps())
    assert np.isfinite(glove.inputs.vectors).all()


def test_steps_larger_than_the_corpus():
    glove = trainer(tokens_per_step=10_000, total=2)
    list(glove.steps())
    assert glove._first_pair(2) == 20_000 * len(glove.pairs) // 3200


def test_corpus_without_cooccurrences_is_an_error():
    with pytest.raises(DataError, match="co-occur"):
        GloveTrainer(GloveConfig(), inputs_of(store_of([[0], [0]], fingerprint="one"), vocab_size=2, width=2))
