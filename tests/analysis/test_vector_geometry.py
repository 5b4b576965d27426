"""Cosine geometry of a few vectors, computed by hand."""

import math

import numpy as np
import pytest

from polyseme.analysis import vector_geometry
from polyseme.analysis.vector_geometry import (
    balanced_accuracy,
    centroid_distance,
    nearest_neighbours,
    nearest_sense_accuracy,
    normalize,
    self_similarity,
    silhouette,
)


def circle(*degrees):
    """Vectors in the plane with these directions and different lengths."""
    angles = np.radians(degrees)
    return np.stack([np.cos(angles), np.sin(angles)], axis=1) * np.arange(1, len(degrees) + 1)[:, None]


def cosine(degrees):
    return math.cos(math.radians(degrees))


def senses(names):
    return np.array(list(names))


def test_normalize():
    vectors = normalize(np.array([[3.0, 4.0], [0.0, 0.0]]))
    np.testing.assert_allclose(vectors, [[0.6, 0.8], [0, 0]], rtol=1e-6)
    assert vectors.dtype == np.float32


def test_nearest_neighbours(monkeypatch):
    vectors = normalize(circle(0, 10, 30, 90))
    indices, cosines = nearest_neighbours(vectors, vectors, 2, num_shared=4)
    assert indices.tolist() == [[1, 2], [0, 2], [1, 0], [2, 1]]
    np.testing.assert_allclose(cosines[0], [cosine(10), cosine(30)], rtol=1e-6)
    assert nearest_neighbours(vectors, vectors[:2], 9)[0].tolist() == [[0, 1], [1, 0], [1, 0], [1, 0]]
    assert nearest_neighbours(vectors, vectors[:2], 9, num_shared=2)[0].tolist() == [[1], [0], [1], [1]]
    assert nearest_neighbours(vectors[:1], vectors[:1], 5, num_shared=1)[0].shape == (1, 0)
    monkeypatch.setattr(vector_geometry, "_CHUNK", 5)
    assert nearest_neighbours(vectors, vectors, 2, num_shared=4)[0].tolist() == indices.tolist()


def test_balanced_accuracy():
    found = balanced_accuracy(np.array([1, 1, 1, 0, 1.0, 0]), senses("aaaabb"))
    assert found.value == (0.75 + 0.5) / 2 and found.num_items == 6
    # Variances of the recalls: 0.25 of four, 0.5 of two.
    assert found.error == pytest.approx(math.sqrt(0.25 / 4 + 0.5 / 2) / 2)
    assert balanced_accuracy(np.array([1.0, 0, 1]), senses("aab")).error is None


def test_nearest_sense_accuracy(monkeypatch):
    vectors, given = normalize(circle(0, 10, 12, 80, 90, 92)), senses("aababb")
    # Leave-one-out: 0→10 a, 10→12 b, 12→10 a, 80→90 b, 90→92 b, 92→90 b.
    expected = (1 / 3 + 2 / 3) / 2
    assert nearest_sense_accuracy(vectors, given).value == pytest.approx(expected)
    queries = normalize(circle(5, 85))
    assert nearest_sense_accuracy(queries, senses("aa"), vectors, given) is None  # a single sense
    # 5→0 and 10, a tie of two a; 85→80 and 90, a tie of which one is b.
    assert nearest_sense_accuracy(queries, senses("ab"), vectors, given).value == 0.75
    assert nearest_sense_accuracy(vectors[[0, 3]], senses("ab"), vectors, given).value == 0.5
    monkeypatch.setattr(vector_geometry, "_CHUNK", 7)
    assert nearest_sense_accuracy(vectors, given).value == pytest.approx(expected)


def test_ties_count_by_their_fraction():
    same = np.ones((10, 3), np.float32)
    known = senses("aaaaaaabbb")
    found = nearest_sense_accuracy(same[:4], senses("aabb"), same, known)
    assert found.value == pytest.approx(0.5) and found.error == pytest.approx(0)  # 0.7 of a and 0.3 of b
    alone = nearest_sense_accuracy(same, known)
    assert alone.value == pytest.approx((6 / 9 + 2 / 9) / 2)  # of nine others


def test_senses_without_a_neighbour_are_excluded():
    vectors = normalize(circle(0, 1, 90, 91, 45, 46))
    without = nearest_sense_accuracy(vectors, np.array(["a", "a", "b", "b", "c", ""]))
    assert (without.value, without.num_items) == (1.0, 4)
    there = nearest_sense_accuracy(vectors, np.array(["a", "a", "b", "b", "c", ""]), vectors[:4], senses("aabb"))
    assert (there.value, there.num_items) == (1.0, 4)
    assert nearest_sense_accuracy(vectors, np.array([""] * 6)) is None
    assert nearest_sense_accuracy(vectors, senses("aaaaaa")) is None
    assert nearest_sense_accuracy(vectors, senses("aaaaab")) is None


def test_silhouette_by_hand():
    vectors, given = normalize(circle(0, 60, 90)), senses("aab")
    distance = {degrees: 1 - cosine(degrees) for degrees in (30, 60, 90)}
    first = (distance[90] - distance[60]) / distance[90]
    second = (distance[30] - distance[60]) / distance[60]
    assert silhouette(vectors, given) == pytest.approx((first + second + 0) / 3, abs=1e-6)  # a single occurrence: 0
    assert silhouette(vectors, senses("aaa")) is None
    assert silhouette(np.ones((4, 3)) / math.sqrt(3), senses("aabb")) == 0
    assert silhouette(np.zeros((4, 3)), senses("aabb")) == 0


def test_silhouette_matches_scikit_learn():
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(0)
    for num_senses in (2, 5):
        given = np.array(list("abcde"))[rng.integers(num_senses, size=60)]
        vectors = normalize(rng.normal(size=(60, 8)) + 2 * (given == "a")[:, None])
        assert silhouette(vectors, given) == pytest.approx(
            metrics.silhouette_score(vectors, given, metric="cosine"), abs=1e-6
        )


def test_self_similarity_and_centroid_distance():
    vectors = normalize(circle(0, 60, 90))
    assert self_similarity(vectors) == pytest.approx((cosine(60) + cosine(90) + cosine(30)) / 3, abs=1e-6)
    assert self_similarity(vectors[:1]) is None
    # The centroid of 0 and 60 degrees is at 30.
    assert centroid_distance(vectors[:2]) == pytest.approx(1 - cosine(30), abs=1e-6)
    assert centroid_distance(np.tile(vectors[1], (100, 1))) == pytest.approx(0, abs=1e-7)
    assert self_similarity(np.tile(vectors[1], (100, 1))) == pytest.approx(1, abs=1e-6)
