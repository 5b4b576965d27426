"""Principal component analysis in two dimensions."""

import numpy as np

from polyseme.arrays import AnyFloats, Doubles

_MIN_VARIANCE = 1e-10  # below it, unit vectors are equal up to rounding


def pca_2d(vectors: AnyFloats, *, align_to: Doubles | None = None) -> tuple[Doubles, tuple[float, float]]:
    """Project vectors (N, D) to their first two principal components, (N, 2); also return the explained variances.

    The sign of an axis makes its largest loading positive; or, with the points `align_to` of the same items, it makes
    the two projections agree, so that a map does not flip from one layer to the next.
    """
    points = np.zeros((len(vectors), 2))
    centred = vectors.astype(np.float64) - vectors.mean(0, dtype=np.float64)
    total = float(np.square(centred).sum())
    if total <= _MIN_VARIANCE * len(vectors):
        return points, (0.0, 0.0)
    left, values, axes = np.linalg.svd(centred, full_matrices=False)
    num_axes = min(2, len(values))
    points[:, :num_axes] = left[:, :num_axes] * values[:num_axes]
    for axis in range(num_axes):
        agreement = 0.0 if align_to is None else float(points[:, axis] @ align_to[:, axis])
        largest = axes[axis, np.abs(axes[axis]).argmax()]
        points[:, axis] *= -1 if (agreement or largest) < 0 else 1
    explained = [float(value**2) / total for value in values[:num_axes]]
    return points, (explained[0], explained[1] if num_axes > 1 else 0.0)
