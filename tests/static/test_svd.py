import math

import numpy as np
import pytest
from scipy.sparse import csr_array
from word_tasks import apart, store_of, task_of, topics

from polyseme.errors import ConfigError, DataError
from polyseme.static.counts import near_pairs
from polyseme.static.svd import Svd, SvdConfig, weigh

COUNTS = csr_array(np.array([[0, 2], [2, 4]], np.float32))


def test_raw_and_log_counts():
    assert weigh(COUNTS, "raw").toarray().tolist() == [[0, 2], [2, 4]]
    expected = [[0, math.log(3)], [math.log(3), math.log(5)]]
    np.testing.assert_allclose(weigh(COUNTS, "log").toarray(), expected, rtol=1e-6)


def test_positive_pointwise_mutual_information_by_hand():
    # Word 0 meets 1 twice in 8; the rows add up to 2 and 6: log(2 · 8 / (2 · 6)), and log(4 · 8 / 36) < 0.
    expected = [[0, math.log(4 / 3)], [math.log(4 / 3), 0]]
    found = weigh(COUNTS, "ppmi")
    np.testing.assert_allclose(found.toarray(), expected, rtol=1e-6)
    assert found.nnz == 2, "what is not positive is not kept"


def test_smoothing_by_hand():
    # Contexts count √2 and √6: shares 0.366025 and 0.633975.
    expected = [[0, -math.log(0.633975)], [0, math.log(0.5 / (0.75 * 0.633975))]]
    np.testing.assert_allclose(weigh(COUNTS, "ppmi", smoothing=0.5).toarray(), expected, rtol=1e-4)


def test_a_shift_takes_its_logarithm_from_what_is_positive():
    expected = [[0, math.log(10 / 9)], [math.log(10 / 9), 0]]
    np.testing.assert_allclose(weigh(COUNTS, "ppmi", shift=1.2).toarray(), expected, rtol=1e-5)
    assert weigh(COUNTS, "ppmi", shift=1.34).nnz == 0


def test_words_that_stand_near_nothing_have_no_weight():
    counts = csr_array(np.array([[0, 0, 3], [0, 0, 0], [3, 0, 0]], np.float32))
    found = weigh(counts, "ppmi").toarray()
    assert np.isfinite(found).all()
    assert found[0, 2] == pytest.approx(math.log(2))


def test_the_counts_stay_as_they_were():
    for weighting in ("raw", "log", "ppmi"):
        weigh(COUNTS, weighting, shift=1.34)
        assert COUNTS.toarray().tolist() == [[0, 2], [2, 4]]


def learner(*, width=6, threads=1, seed=0, rounds=5, **settings):
    store = store_of(topics(), fingerprint="topics")
    sizes = {"vocab_size": 34, "width": width, "specials": 2, "total": rounds}
    return Svd(SvdConfig(**settings), task_of(store, threads=threads, seed=seed, **sizes))


def run(learner):
    return list(learner.steps())


@pytest.mark.parametrize("exponent", [0, 0.5, 1])
def test_the_singular_vectors_are_those_of_an_exact_decomposition(exponent):
    svd = learner(rounds=30, exponent=exponent)
    steps = run(svd)
    exact = np.linalg.svd(svd.matrix.toarray().astype(np.float64))
    expected = exact.U[:, :6] * exact.S[:6] ** exponent
    assert exact.S[3] / exact.S[4] > 1.5, "four directions tell four topics apart"
    found, whole = svd.task.vectors[:, :4], expected[:, :4]  # before a gap: the space is the same, if not its axes
    np.testing.assert_allclose(found @ found.T, whole @ whole.T, atol=1e-4 * np.abs(whole @ whole.T).max())
    left = 1 - np.square(exact.S[:6]).sum() / np.square(exact.S).sum()
    assert steps[-1].losses["svd"] == pytest.approx(left, abs=1e-5)


def test_words_of_a_topic_are_close():
    svd = learner(width=4)
    run(svd)
    assert apart(svd.task.vectors) > 0.9
    assert not svd.task.vectors[32:].any(), "special tokens have no company"


def test_each_round_leaves_less():
    losses = [step.losses["svd"] for step in run(learner(rounds=4, width=2))]
    assert len(losses) == 4
    assert losses == sorted(losses, reverse=True) or max(np.diff(losses)) < 1e-6


def test_a_resumed_run_is_the_same():
    whole = learner(rounds=4)
    half, again = learner(rounds=4), learner(rounds=4, seed=1)
    run(whole)
    steps = half.steps()
    next(steps)
    next(steps)
    again.restore(half.state())
    assert [step.number for step in run(again)] == [3, 4]
    assert np.array_equal(again.task.vectors, whole.task.vectors)


def test_threads_change_nothing():
    one, three = learner(threads=1), learner(threads=3)
    run(one)
    run(three)
    assert np.array_equal(one.task.vectors, three.task.vectors)


def test_fewer_words_than_numbers_in_a_vector():
    svd = learner(width=50)
    run(svd)
    assert np.isfinite(svd.task.vectors).all()
    assert not svd.task.vectors[:, 34:].any()


def test_one_word_is_too_few():
    with pytest.raises(DataError, match="near each other"):
        Svd(SvdConfig(), task_of(store_of([[0], [0]], fingerprint="one"), vocab_size=2, width=2))


def test_a_shift_that_leaves_nothing():
    with pytest.raises(ConfigError, match=r"objective\.shift"):
        learner(shift=100)


def test_one_word_over_and_over_is_no_surprise():
    store = store_of([[0] * 9], fingerprint="over")
    svd = Svd(SvdConfig(weighting="log"), task_of(store, vocab_size=1, width=2))
    run(svd)
    assert near_pairs(store, svd.config, svd.task.words)[0, 0] > 0
    assert np.isfinite(svd.task.vectors).all()
