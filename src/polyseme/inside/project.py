"""Vectors as points on a plane."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating]

_NOTHING = 1e-10  # variance of vectors of length 1 that are all the same, but for rounding


def project(
    vectors: Floats, *, like: NDArray[np.float64] | None = None
) -> tuple[NDArray[np.float64], tuple[float, float]]:
    """The two principal components of vectors (N, D) as points (N, 2), and the share of variance that each explains.

    An axis points to where its largest weight is positive; or, with points of the same things to be `like`, to where
    it agrees with theirs, so that a picture does not turn over from one layer to the next.
    """
    points = np.zeros((len(vectors), 2))
    centred = vectors.astype(np.float64) - vectors.mean(0, dtype=np.float64)
    total = float(np.square(centred).sum())
    if total <= _NOTHING * len(vectors):
        return points, (0.0, 0.0)
    left, lengths, axes = np.linalg.svd(centred, full_matrices=False)
    num = min(2, len(lengths))
    points[:, :num] = left[:, :num] * lengths[:num]
    for axis in range(num):
        agreement = 0.0 if like is None else float(points[:, axis] @ like[:, axis])
        largest = axes[axis, np.abs(axes[axis]).argmax()]
        points[:, axis] *= -1 if (agreement or largest) < 0 else 1
    shares = [float(length**2) / total for length in lengths[:num]]
    return points, (shares[0], shares[1] if num > 1 else 0.0)
