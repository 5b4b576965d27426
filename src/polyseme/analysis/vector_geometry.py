"""Geometry of unit vectors: nearest neighbours, sense accuracy, silhouette, self-similarity, principal components."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from polyseme.arrays import AnyFloats, Doubles, Floats, Ids, Strings

_CHUNK = 10_000_000  # cosines computed at once
_TOLERANCE = 1e-6  # differences of cosines below it are rounding errors
_MIN_NORM = 1e-12
_MIN_VARIANCE = 1e-10  # below it, unit vectors are equal up to rounding


@dataclass(frozen=True, kw_only=True)
class BalancedAccuracy:
    """The mean recall over senses; the majority baseline is one over their number."""

    value: float
    error: float | None  # standard error; None if a sense has a single occurrence
    num_items: int


def normalize(vectors: AnyFloats) -> Floats:
    """Vectors of length 1; zero vectors stay zero, with cosine 0 to all others."""
    norms = np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
    units: Floats = (vectors / np.maximum(norms, _MIN_NORM)).astype(np.float32)
    return units


def nearest_neighbours(vectors: AnyFloats, known: AnyFloats, top: int, *, num_shared: int = 0) -> tuple[Ids, Doubles]:
    """The nearest of `known` to each vector, (N, top), and their cosines.

    The first `num_shared` of `vectors` and `known` are the same, and none is its own neighbour.
    """
    top = min(top, len(known) - bool(num_shared))
    indices, cosines = np.zeros((len(vectors), top), np.int64), np.zeros((len(vectors), top))
    for rows, scores in _cosines(vectors, known, num_shared):
        rounded = np.round(scores, 6)  # so that ties keep their order
        indices[rows] = np.argsort(-rounded, axis=1, kind="stable")[:, :top]
        cosines[rows] = np.take_along_axis(scores, indices[rows], axis=1)
    return indices, cosines


def balanced_accuracy(correct: Doubles, senses: Strings) -> BalancedAccuracy:
    """The mean recall over senses, given whether each occurrence was classified correctly."""
    groups = [correct[senses == sense] for sense in np.unique(senses)]
    error = None
    if all(len(group) > 1 for group in groups):
        error = math.sqrt(sum(group.var(ddof=1) / len(group) for group in groups)) / len(groups)
    value = float(np.mean([group.mean() for group in groups]))
    return BalancedAccuracy(value=value, error=error, num_items=len(correct))


def nearest_sense_accuracy(
    vectors: AnyFloats, senses: Strings, known: AnyFloats | None = None, known_senses: Strings | None = None
) -> BalancedAccuracy | None:
    """Balanced accuracy of 1-NN sense classification; see `nearest_sense_outcomes`."""
    found = nearest_sense_outcomes(vectors, senses, known, known_senses)
    return balanced_accuracy(*found) if found else None


def nearest_sense_outcomes(
    vectors: AnyFloats, senses: Strings, known: AnyFloats | None = None, known_senses: Strings | None = None
) -> tuple[Doubles, Strings] | None:
    """Whether 1-NN finds the sense of each occurrence, leave-one-out or among `known` ones, and these senses.

    With ties, an occurrence counts by the fraction of its nearest neighbours that have its sense. Occurrences without
    a sense are excluded, and so are senses without another occurrence to find; None if fewer than two senses remain.
    """
    leave_one_out = known is None
    if known is None or known_senses is None:
        known, known_senses = vectors, senses
    names, counts = np.unique(known_senses[known_senses != ""], return_counts=True)
    findable = names[counts > leave_one_out]
    evaluated = np.isin(senses, findable)
    candidates = evaluated if leave_one_out else known_senses != ""
    if len(np.unique(senses[evaluated])) < 2:
        return None
    vectors, senses = vectors[evaluated], senses[evaluated]
    known, known_senses = known[candidates], known_senses[candidates]
    correct = np.zeros(len(vectors))
    for rows, cosines in _cosines(vectors, known, len(vectors) if leave_one_out else 0):
        nearest = cosines >= cosines.max(1, keepdims=True) - _TOLERANCE
        same_sense = senses[rows][:, None] == known_senses
        correct[rows] = (nearest & same_sense).sum(1) / nearest.sum(1)
    return correct, senses


def silhouette(vectors: AnyFloats, senses: Strings) -> float | None:
    """The mean silhouette coefficient of the senses by cosine distance, -1 to 1 (Rousseeuw, 1987).

    The summed distance to a sense is one product with the sum of its vectors, so no matrix of pairs is needed, as
    scikit-learn's silhouette_score would. Zero vectors are allowed, and have distance 0 to themselves.
    """
    names, sense_ids = np.unique(senses, return_inverse=True)
    if len(names) < 2:
        return None
    vectors = vectors.astype(np.float64)
    counts = np.bincount(sense_ids)
    sums = np.stack([vectors[sense_ids == sense].sum(0) for sense in range(len(names))])
    distances = counts - vectors @ sums.T  # (N, senses), summed over each sense
    rows = np.arange(len(vectors))
    distances[rows, sense_ids] -= 1 - np.square(vectors).sum(1)  # the distance to itself is 0, also of a zero vector
    within = distances[rows, sense_ids] / np.maximum(counts[sense_ids] - 1, 1)
    distances /= counts
    distances[rows, sense_ids] = np.inf
    between = distances.min(1)
    larger = np.maximum(within, between)
    defined = (counts[sense_ids] > 1) & (larger > _TOLERANCE)
    return float(np.where(defined, (between - within) / np.maximum(larger, _TOLERANCE), 0.0).mean())


def self_similarity(vectors: AnyFloats) -> float | None:
    """The mean cosine of two different vectors (Ethayarajh, 2019, definition 1)."""
    num = len(vectors)
    if num < 2:
        return None
    vectors = vectors.astype(np.float64)
    return float((np.square(vectors.sum(0)).sum() - np.square(vectors).sum()) / (num * (num - 1)))


def centroid_distance(vectors: AnyFloats) -> float:
    """The mean cosine distance from the centroid."""
    vectors = vectors.astype(np.float64)
    centroid = vectors.mean(0)
    return max(0.0, float(1 - (vectors @ centroid).mean() / max(float(np.linalg.norm(centroid)), _MIN_NORM)))


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


def _cosines(vectors: AnyFloats, known: AnyFloats, num_shared: int) -> Iterator[tuple[slice, AnyFloats]]:
    """Cosines of all vectors with all known ones, in blocks of rows; -inf between a shared vector and itself."""
    size = max(1, _CHUNK // max(1, len(known)))
    for start in range(0, len(vectors), size):
        rows = slice(start, start + size)
        scores = vectors[rows] @ known.T
        shared = np.arange(start, min(start + size, num_shared))
        scores[shared - start, shared] = -np.inf
        yield rows, scores
