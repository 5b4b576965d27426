import math

import numpy as np
import pytest
from scipy.sparse import csr_array
from tests.static_embeddings.training_inputs import inputs_of, store_of, topic_separation, topics

from polyseme.errors import ConfigError, DataError
from polyseme.static_embeddings.config import SvdConfig
from polyseme.static_embeddings.cooccurrence import cooccurrence_counts
from polyseme.static_embeddings.svd import SvdTrainer, weight_counts

COUNTS = csr_array(np.array([[0, 2], [2, 4]], np.float32))


def test_raw_and_log_counts():
    assert weight_counts(COUNTS, "raw").toarray().tolist() == [[0, 2], [2, 4]]
    expected = [[0, math.log(3)], [math.log(3), math.log(5)]]
    np.testing.assert_allclose(weight_counts(COUNTS, "log").toarray(), expected, rtol=1e-6)


def test_ppmi_by_hand():
    # Words 0 and 1 co-occur twice in 8; the row sums are 2 and 6: log(2 · 8 / (2 · 6)), and log(4 · 8 / 36) < 0.
    expected = [[0, math.log(4 / 3)], [math.log(4 / 3), 0]]
    found = weight_counts(COUNTS, "ppmi")
    np.testing.assert_allclose(found.toarray(), expected, rtol=1e-6)
    assert found.nnz == 2, "zeros are not stored"


def test_context_smoothing_by_hand():
    # Smoothed context counts √2 and √6: probabilities 0.366025 and 0.633975.
    expected = [[0, -math.log(0.633975)], [0, math.log(0.5 / (0.75 * 0.633975))]]
    np.testing.assert_allclose(weight_counts(COUNTS, "ppmi", smoothing=0.5).toarray(), expected, rtol=1e-4)


def test_shift_is_subtracted_as_a_logarithm():
    expected = [[0, math.log(10 / 9)], [math.log(10 / 9), 0]]
    np.testing.assert_allclose(weight_counts(COUNTS, "ppmi", shift=1.2).toarray(), expected, rtol=1e-5)
    assert weight_counts(COUNTS, "ppmi", shift=1.34).nnz == 0


def test_words_without_cooccurrences_have_no_weight():
    counts = csr_array(np.array([[0, 0, 3], [0, 0, 0], [3, 0, 0]], np.float32))
    found = weight_counts(counts, "ppmi").toarray()
    assert np.isfinite(found).all()
    assert found[0, 2] == pytest.approx(math.log(2))


def test_weighting_does_not_change_the_counts():
    for weighting in ("raw", "log", "ppmi"):
        weight_counts(COUNTS, weighting, shift=1.34)
        assert COUNTS.toarray().tolist() == [[0, 2], [2, 4]]


def trainer(*, width=6, num_threads=1, seed=0, steps=5, **settings):
    store = store_of(topics(), fingerprint="topics")
    sizes = {"vocab_size": 34, "width": width, "specials": 2, "total": steps}
    return SvdTrainer(SvdConfig(**settings), inputs_of(store, num_threads=num_threads, seed=seed, **sizes))


def run(trainer):
    return list(trainer.steps())


@pytest.mark.parametrize("exponent", [0, 0.5, 1])
def test_vectors_match_an_exact_svd(exponent):
    svd = trainer(steps=30, exponent=exponent)
    steps = run(svd)
    exact = np.linalg.svd(svd.matrix.toarray().astype(np.float64))
    expected = exact.U[:, :6] * exact.S[:6] ** exponent
    assert exact.S[3] / exact.S[4] > 1.5, "there is a gap after as many singular values as topics"
    found, whole = svd.inputs.vectors[:, :4], expected[:, :4]  # before the gap: the same subspace, in another basis
    np.testing.assert_allclose(found @ found.T, whole @ whole.T, atol=1e-4 * np.abs(whole @ whole.T).max())
    remaining = 1 - np.square(exact.S[:6]).sum() / np.square(exact.S).sum()
    assert steps[-1].losses["svd"] == pytest.approx(remaining, abs=1e-5)


def test_vectors_separate_topics():
    svd = trainer(width=4)
    run(svd)
    assert topic_separation(svd.inputs.vectors) > 0.9
    assert not svd.inputs.vectors[32:].any(), "special tokens have no co-occurrences"


def test_loss_falls_with_every_step():
    losses = [step.losses["svd"] for step in run(trainer(steps=4, width=2))]
    assert len(losses) == 4
    assert losses == sorted(losses, reverse=True) or max(np.diff(losses)) < 1e-6


def test_resume_is_bit_exact():
    whole = trainer(steps=4)
    half, again = trainer(steps=4), trainer(steps=4, seed=1)
    run(whole)
    steps = half.steps()
    next(steps)
    next(steps)
    again.restore(half.state())
    assert [step.number for step in run(again)] == [3, 4]
    assert np.array_equal(again.inputs.vectors, whole.inputs.vectors)


def test_vectors_do_not_depend_on_the_number_of_threads():
    one, three = trainer(num_threads=1), trainer(num_threads=3)
    run(one)
    run(three)
    assert np.array_equal(one.inputs.vectors, three.inputs.vectors)


def test_vocabulary_smaller_than_the_width():
    svd = trainer(width=50)
    run(svd)
    assert np.isfinite(svd.inputs.vectors).all()
    assert not svd.inputs.vectors[:, 34:].any()


def test_corpus_without_cooccurrences_is_an_error():
    with pytest.raises(DataError, match="co-occur"):
        SvdTrainer(SvdConfig(), inputs_of(store_of([[0], [0]], fingerprint="one"), vocab_size=2, width=2))


def test_shift_without_positive_entries_is_an_error():
    with pytest.raises(ConfigError, match=r"objective\.shift"):
        trainer(shift=100)


def test_corpus_of_one_repeated_word():
    store = store_of([[0] * 9], fingerprint="over")
    svd = SvdTrainer(SvdConfig(weighting="log"), inputs_of(store, vocab_size=1, width=2))
    run(svd)
    assert cooccurrence_counts(store, svd.config, svd.inputs.is_word)[0, 0] > 0
    assert np.isfinite(svd.inputs.vectors).all()
