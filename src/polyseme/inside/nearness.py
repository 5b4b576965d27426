"""How things that have vectors of length 1 and senses lie to each other, by their cosines."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating]
Doubles = NDArray[np.float64]
Labels = NDArray[np.str_]

_CHUNK = 10_000_000  # cosines that are held together
_SAME = 1e-6  # cosines that differ by less do so by rounding
_SHORTEST = 1e-12


@dataclass(frozen=True, kw_only=True)
class Balanced:
    """The mean of the recalls of all senses, by which always saying the most frequent one earns no more than chance."""

    value: float
    error: float | None  # standard error; none where a sense has a single occurrence
    num_senses: int
    num_items: int  # that it rests on


def unit(vectors: Floats) -> NDArray[np.float32]:
    """Vectors of length 1; one of zeros stays, and is like no other."""
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
    units: NDArray[np.float32] = (vectors / np.maximum(lengths, _SHORTEST)).astype(np.float32)
    return units


def find_nearest(vectors: Floats, known: Floats, top: int, *, own: int = 0) -> tuple[NDArray[np.int64], Doubles]:
    """The nearest of `known` to each of `vectors`, (N, top), and their cosines.

    The first `own` of `vectors` are those of `known` in the same order, and none is its own neighbour.
    """
    top = min(top, len(known) - bool(own))
    places, cosines = np.zeros((len(vectors), top), np.int64), np.zeros((len(vectors), top))
    for rows, scores in _cosines(vectors, known, own):
        order = np.argsort(-np.round(scores, 6), axis=1, kind="stable")[:, :top]  # rounded: equal ones keep their order
        places[rows], cosines[rows] = order, np.take_along_axis(scores, order, axis=1)
    return places, cosines


def nearest_right(vectors: Floats, senses: Labels, known: Floats, known_senses: Labels, *, own: int = 0) -> Doubles:
    """Whether the nearest of `known` has the sense of each vector, 0 or 1; where several are as near, their share."""
    right = np.zeros(len(vectors))
    for rows, scores in _cosines(vectors, known, own):
        nearest = scores >= scores.max(1, keepdims=True) - _SAME
        same = senses[rows][:, None] == known_senses
        right[rows] = (nearest & same).sum(1) / nearest.sum(1)
    return right


def balanced_accuracy(right: Doubles, senses: Labels) -> Balanced:
    """The mean of the recalls of all senses, given how far each occurrence was right."""
    groups = [right[senses == sense] for sense in np.unique(senses)]
    error = None
    if all(len(group) > 1 for group in groups):
        error = math.sqrt(sum(group.var(ddof=1) / len(group) for group in groups)) / len(groups)
    value = float(np.mean([group.mean() for group in groups]))
    return Balanced(value=value, error=error, num_senses=len(groups), num_items=len(right))


def tell_senses(
    vectors: Floats, senses: Labels, known: Floats | None = None, known_senses: Labels | None = None
) -> Balanced | None:
    """Balanced accuracy of the sense of the nearest occurrence: among all others, or among `known` ones.

    Occurrences without a sense are left out, and so are senses of which there is no other occurrence to find; nothing
    where fewer than two senses remain.
    """
    own = known is None
    if known is None or known_senses is None:
        known, known_senses = vectors, senses
    names, counts = np.unique(known_senses[known_senses != ""], return_counts=True)
    findable = names[counts > own]
    asked, there = np.isin(senses, findable), known_senses != ""
    if own:
        there = asked
    if len(np.unique(senses[asked])) < 2:
        return None
    own_count = int(asked.sum()) if own else 0
    right = nearest_right(vectors[asked], senses[asked], known[there], known_senses[there], own=own_count)
    return balanced_accuracy(right, senses[asked])


def silhouette(vectors: Floats, senses: Labels) -> float | None:
    """How much nearer vectors are to their own sense than to the next, -1 to 1 (Rousseeuw, 1987), by cosine distance.

    Distances to all of a sense sum up to one product with the sum of its vectors, so no table of pairs is needed.
    """
    names, own = np.unique(senses, return_inverse=True)
    if len(names) < 2:
        return None
    vectors = vectors.astype(np.float64)
    counts = np.bincount(own)
    sums = np.stack([vectors[own == sense].sum(0) for sense in range(len(names))])
    distances = counts - vectors @ sums.T  # (N, senses), summed over each
    rows = np.arange(len(vectors))
    distances[rows, own] -= 1 - np.square(vectors).sum(1)  # from itself it is no distance away, even without a vector
    within = distances[rows, own] / np.maximum(counts[own] - 1, 1)
    distances /= counts
    distances[rows, own] = np.inf
    between = distances.min(1)
    larger = np.maximum(within, between)
    scores = np.where((counts[own] > 1) & (larger > _SAME), (between - within) / np.maximum(larger, _SAME), 0.0)
    return float(scores.mean())


def self_similarity(vectors: Floats) -> float | None:
    """The mean cosine of two different ones (Ethayarajh, 2019, definition 1)."""
    num = len(vectors)
    if num < 2:
        return None
    vectors = vectors.astype(np.float64)
    return float((np.square(vectors.sum(0)).sum() - np.square(vectors).sum()) / (num * (num - 1)))


def spread(vectors: Floats) -> float:
    """The mean cosine distance from their mean."""
    vectors = vectors.astype(np.float64)
    mean = vectors.mean(0)
    return max(0.0, float(1 - (vectors @ mean).mean() / max(float(np.linalg.norm(mean)), _SHORTEST)))


def _cosines(vectors: Floats, known: Floats, own: int) -> Iterator[tuple[slice, Floats]]:
    """Cosines of all vectors with all known ones, some rows at a time; with itself, a vector has the least of all."""
    size = max(1, _CHUNK // max(1, len(known)))
    for start in range(0, len(vectors), size):
        rows = slice(start, start + size)
        scores = vectors[rows] @ known.T
        places = np.arange(start, min(start + size, own))
        scores[places - start, places] = -np.inf
        yield rows, scores
