"""Principal components match numpy's SVD, with deterministic signs."""

import numpy as np
import pytest

from polyseme.analysis.vector_geometry import pca_2d


def test_principal_components():
    rng = np.random.default_rng(0)
    vectors = (rng.normal(size=(50, 6)) * [5, 3, 1, 1, 1, 1] + 7).astype(np.float32)
    points, explained = pca_2d(vectors)
    centred = vectors - vectors.mean(0, dtype=np.float64)
    _, lengths, axes = np.linalg.svd(centred)
    np.testing.assert_allclose(np.abs(points), np.abs(centred @ axes[:2].T), atol=1e-5)
    np.testing.assert_allclose(explained, lengths[:2] ** 2 / (lengths**2).sum(), rtol=1e-6)
    for axis in range(2):
        weights = np.linalg.lstsq(centred, points[:, axis], rcond=None)[0]
        assert weights[np.abs(weights).argmax()] > 0
    assert np.array_equal(pca_2d(vectors)[0], points)
    flipped = points * [-1, 1]
    np.testing.assert_array_equal(pca_2d(vectors, align_to=flipped)[0], flipped)


@pytest.mark.parametrize("vectors", [np.full((5, 3), 1 / 3), np.zeros((4, 2)), np.ones((1, 7)), np.zeros((3, 0))])
def test_equal_vectors(vectors):
    points, explained = pca_2d(vectors.astype(np.float32))
    assert not points.any() and points.shape == (len(vectors), 2) and explained == (0, 0)


def test_one_dimension():
    points, explained = pca_2d(np.array([[1.0], [2.0], [4.0]]))
    np.testing.assert_allclose(points, [[-4 / 3, 0], [-1 / 3, 0], [5 / 3, 0]])
    assert explained == pytest.approx((1, 0))
