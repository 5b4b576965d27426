"""Figures about vectors that are few enough to work out by hand."""

import math

import numpy as np
import pytest

from polyseme.inside import nearness
from polyseme.inside.nearness import (
    balanced_accuracy,
    find_nearest,
    self_similarity,
    silhouette,
    spread,
    tell_senses,
    unit,
)


def circle(*degrees):
    """Directions on a plane, not all of length 1."""
    angles = np.radians(degrees)
    return np.stack([np.cos(angles), np.sin(angles)], axis=1) * np.arange(1, len(degrees) + 1)[:, None]


def cosine(degrees):
    return math.cos(math.radians(degrees))


def senses(letters):
    return np.array(list(letters))


def test_lengths():
    vectors = unit(np.array([[3.0, 4.0], [0.0, 0.0]]))
    np.testing.assert_allclose(vectors, [[0.6, 0.8], [0, 0]], rtol=1e-6)
    assert vectors.dtype == np.float32


def test_nearest(monkeypatch):
    vectors = unit(circle(0, 10, 30, 90))
    places, cosines = find_nearest(vectors, vectors, 2, own=4)
    assert places.tolist() == [[1, 2], [0, 2], [1, 0], [2, 1]]
    np.testing.assert_allclose(cosines[0], [cosine(10), cosine(30)], rtol=1e-6)
    assert find_nearest(vectors, vectors[:2], 9)[0].tolist() == [[0, 1], [1, 0], [1, 0], [1, 0]]
    assert find_nearest(vectors, vectors[:2], 9, own=2)[0].tolist() == [[1], [0], [1], [1]]
    assert find_nearest(vectors[:1], vectors[:1], 5, own=1)[0].shape == (1, 0)
    monkeypatch.setattr(nearness, "_CHUNK", 5)
    assert find_nearest(vectors, vectors, 2, own=4)[0].tolist() == places.tolist()


def test_balanced_accuracy():
    found = balanced_accuracy(np.array([1, 1, 1, 0, 1.0, 0]), senses("aaaabb"))
    assert found.value == (0.75 + 0.5) / 2 and (found.num_senses, found.num_items) == (2, 6)
    # Variances of the recalls: 0.25 of four, 0.5 of two.
    assert found.error == pytest.approx(math.sqrt(0.25 / 4 + 0.5 / 2) / 2)
    assert balanced_accuracy(np.array([1.0, 0, 1]), senses("aab")).error is None


def test_senses_are_told_by_the_nearest(monkeypatch):
    vectors, given = unit(circle(0, 10, 12, 80, 90, 92)), senses("aababb")
    # By all others: 0→10 a, 10→12 b, 12→10 a, 80→90 b, 90→92 b, 92→90 b.
    expected = (1 / 3 + 2 / 3) / 2
    assert tell_senses(vectors, given).value == pytest.approx(expected)
    asked = unit(circle(5, 85))
    assert tell_senses(asked, senses("aa"), vectors, given) is None  # one sense is nothing to tell apart
    # 5→0 and 10, which are as near and both a; 85→80 and 90, of which one is b.
    assert tell_senses(asked, senses("ab"), vectors, given).value == 0.75
    assert tell_senses(vectors[[0, 3]], senses("ab"), vectors, given).value == 0.5
    monkeypatch.setattr(nearness, "_CHUNK", 7)
    assert tell_senses(vectors, given).value == pytest.approx(expected)


def test_equally_near_ones_count_by_their_share():
    same = np.ones((10, 3), np.float32)
    known = senses("aaaaaaabbb")
    found = tell_senses(same[:4], senses("aabb"), same, known)
    assert found.value == pytest.approx(0.5) and found.error == pytest.approx(0)  # 0.7 of a and 0.3 of b
    alone = tell_senses(same, known)
    assert alone.value == pytest.approx((6 / 9 + 2 / 9) / 2)  # of nine others


def test_what_cannot_be_told_is_left_out():
    vectors = unit(circle(0, 1, 90, 91, 45, 46))
    without = tell_senses(vectors, np.array(["a", "a", "b", "b", "c", ""]))
    assert (without.value, without.num_senses, without.num_items) == (1.0, 2, 4)
    there = tell_senses(vectors, np.array(["a", "a", "b", "b", "c", ""]), vectors[:4], senses("aabb"))
    assert (there.value, there.num_items) == (1.0, 4)
    assert tell_senses(vectors, np.array([""] * 6)) is None
    assert tell_senses(vectors, senses("aaaaaa")) is None
    assert tell_senses(vectors, senses("aaaaab")) is None


def test_silhouette_by_hand():
    vectors, given = unit(circle(0, 60, 90)), senses("aab")
    distance = {degrees: 1 - cosine(degrees) for degrees in (30, 60, 90)}
    first = (distance[90] - distance[60]) / distance[90]
    second = (distance[30] - distance[60]) / distance[60]
    assert silhouette(vectors, given) == pytest.approx((first + second + 0) / 3, abs=1e-6)  # alone in its sense: 0
    assert silhouette(vectors, senses("aaa")) is None
    assert silhouette(np.ones((4, 3)) / math.sqrt(3), senses("aabb")) == 0
    assert silhouette(np.zeros((4, 3)), senses("aabb")) == 0


def test_silhouette_as_scikit_learn_has_it():
    metrics = pytest.importorskip("sklearn.metrics")
    chance = np.random.default_rng(0)
    for num_senses in (2, 5):
        given = np.array(list("abcde"))[chance.integers(num_senses, size=60)]
        vectors = unit(chance.normal(size=(60, 8)) + 2 * (given == "a")[:, None])
        assert silhouette(vectors, given) == pytest.approx(
            metrics.silhouette_score(vectors, given, metric="cosine"), abs=1e-6
        )


def test_self_similarity_and_spread():
    vectors = unit(circle(0, 60, 90))
    assert self_similarity(vectors) == pytest.approx((cosine(60) + cosine(90) + cosine(30)) / 3, abs=1e-6)
    assert self_similarity(vectors[:1]) is None
    # The mean of 0 and 60 degrees is at 30.
    assert spread(vectors[:2]) == pytest.approx(1 - cosine(30), abs=1e-6)
    assert spread(np.tile(vectors[1], (100, 1))) == pytest.approx(0, abs=1e-7)
    assert self_similarity(np.tile(vectors[1], (100, 1))) == pytest.approx(1, abs=1e-6)
