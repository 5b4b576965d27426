import math

import numpy as np
import pytest
from scipy.sparse import csr_array
from word_tasks import apart, store_of, task_of, topics

from polyseme.errors import DataError
from polyseme.objectives.vectors import GloveConfig
from polyseme.static.glove import Deck, Glove, _learn

F = np.float32


def learner(*, seed=0, total=40, threads=1, step_tokens=700, rate=0.05, width=6, **settings):
    store = store_of(topics(noise=0.3), fingerprint="noisy topics")
    task = task_of(
        store, vocab_size=34, width=width, threads=threads, seed=seed, total=total, step_tokens=step_tokens, rate=rate
    )
    return Glove(GloveConfig(window=4, **settings), task)


def reference(records, words, others, rate, most, power):
    """The same in plain loops of double precision."""
    cost = 0.0
    for i, j, count in records.tolist():
        (w, ws), (o, os) = words[i], others[j]
        error = w[:-1] @ o[:-1] + w[-1] + o[-1] - math.log(count)
        push = error * min(1, (count / most) ** power)
        cost += push * error
        moves = np.append(rate * np.clip(push * o[:-1], -100, 100), push)
        other_moves = np.append(rate * np.clip(push * w[:-1], -100, 100), push)
        w -= moves / np.sqrt(ws)
        o -= other_moves / np.sqrt(os)
        ws += moves**2
        os += other_moves**2
    return cost


def test_one_move_by_hand():
    # w·w̃ = 1·2, b + b̃ = 0.5; x = 16 of at most 256: f = (1/16)^¾ = 1/8; error = 2.5 - log 16 = -0.2725887.
    records = np.array([(0, 0, 16)], [("word", "i4"), ("other", "i4"), ("count", "f4")])
    words, others = np.ones((1, 2, 2), F), np.ones((1, 2, 2), F)
    words[0, 0], others[0, 0] = (1, 0.2), (2, 0.3)
    cost = _learn(records, words, others, F(0.1), F(256), F(0.75))
    push = (2.5 - math.log(16)) / 8
    assert cost == pytest.approx((2.5 - math.log(16)) ** 2 / 8, rel=1e-5)
    np.testing.assert_allclose(words[0, 0], [1 - 0.1 * push * 2, 0.2 - push], rtol=1e-5)
    np.testing.assert_allclose(others[0, 0], [2 - 0.1 * push * 1, 0.3 - push], rtol=1e-5)
    np.testing.assert_allclose(words[0, 1], [1 + (0.1 * push * 2) ** 2, 1 + push**2], rtol=1e-6)


@pytest.mark.parametrize(("count", "share"), [(100, 1), (1000, 1), (6.25, 0.125), (1, 0.0316228)])
def test_the_weight_of_a_pair(count, share):
    records = np.array([(0, 0, count)], [("word", "i4"), ("other", "i4"), ("count", "f4")])
    words, others = np.ones((1, 2, 2), F), np.ones((1, 2, 2), F)
    cost = _learn(records, words, others, F(0.05), F(100), F(0.75))
    assert cost == pytest.approx(share * (3 - math.log(count)) ** 2, rel=1e-4)


def test_the_cost_is_that_of_a_plain_loop_in_double_precision():
    glove = learner(total=20)
    words, others = (glove.arrays[name].astype(np.float64) for name in ("words", "others"))
    for step, record in enumerate(glove.steps()):
        begin, end = glove._begin(step), glove._begin(step + 1)
        costs = []
        place = begin
        while place < end:
            records = glove._from(place)[: end - place]
            costs.append(reference(records, words, others, 0.05, 100, 0.75))
            place += len(records)
        assert record.losses["glove"] == pytest.approx(sum(costs) / (end - begin), rel=1e-4)
    np.testing.assert_allclose(glove.task.vectors, (words + others)[:, 0, :-1], atol=1e-4)


def test_vectors_are_learnt():
    glove = learner(total=200, most=20)
    losses = [step.losses["glove"] for step in glove.steps()]
    assert np.mean(losses[-10:]) < 0.7 * np.mean(losses[:10])
    assert apart(glove.task.vectors) > 0.5


def test_a_pass_visits_each_pair_once_and_the_next_in_another_order():
    counts = csr_array(np.arange(1.0, 101).reshape(10, 10).astype(F))
    deck = Deck(counts, 0, part=7)
    turns = []
    for turn in range(2):
        records = np.concatenate([deck.read(turn, part) for part in deck.order(turn)])
        assert sorted(records.tolist()) == [(i, j, 10 * i + j + 1) for i in range(10) for j in range(10)]
        turns.append(records.tolist())
    assert turns[0] != turns[1]
    assert len(deck) == 100
    assert np.abs(np.diff(np.diff(deck.starts))).max() <= deck.num_parts, "the parts are about equal"
    assert np.mean(np.abs(np.diff([record[0] for record in turns[0]]))) > 2, "rows are far from each other"


def test_a_resumed_run_is_the_same():
    whole, half, again = learner(total=9), learner(total=9), learner(total=9)
    list(whole.steps())
    steps = half.steps()
    for _ in range(4):
        next(steps)
    state = half.state()
    kept = {name: tensor.clone() for name, tensor in state.tensors["weights"].items()}
    assert apart(state.tensors["weights"]["vectors"].numpy()) != 0, "a checkpoint has the vectors so far"
    again.restore(state)
    assert [step.number for step in again.steps()] == [5, 6, 7, 8, 9]
    assert kept.keys() == {"vectors", "words", "others"}
    assert np.array_equal(again.task.vectors, whole.task.vectors)


def test_the_seed_decides_all():
    vectors = []
    for seed in (0, 0, 1):
        glove = learner(seed=seed, total=2)
        list(glove.steps())
        vectors.append(glove.task.vectors)
    assert np.array_equal(vectors[0], vectors[1])
    assert not np.array_equal(vectors[0], vectors[2])


def test_threads_learn_as_well():
    glove = learner(total=120, threads=3)
    losses = [step.losses["glove"] for step in glove.steps()]
    assert np.mean(losses[-10:]) < 0.7 * np.mean(losses[:10])


@pytest.mark.parametrize("rate", [10.0, 1000.0])
def test_a_rate_far_too_high_gives_no_vectors_that_are_not_numbers(rate):
    glove = learner(rate=rate)
    list(glove.steps())
    assert np.isfinite(glove.task.vectors).all()


def test_steps_that_read_more_than_the_text():
    glove = learner(step_tokens=10_000, total=2)
    list(glove.steps())
    assert glove._begin(2) == 20_000 * len(glove.deck) // 3200


def test_one_word_is_too_few():
    with pytest.raises(DataError, match="near each other"):
        Glove(GloveConfig(), task_of(store_of([[0], [0]], fingerprint="one"), vocab_size=2, width=2))
