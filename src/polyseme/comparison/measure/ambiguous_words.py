"""Detection of ambiguous words in a text by a contextual model.

The contexts of an ambiguous word differ widely, as measured by the spread of the contextual vectors at its position
when the word itself is hidden. Three corrections exclude other words with diverse contexts. Names and dates occur
anywhere, and no context predicts them: the model gives them a low probability. A word with one use in each of two
fixed phrases has two tight clusters of contexts, while the contexts of a sense also differ from each other. And the
spread of contexts grows with the frequency of a word, about with the square root of its count.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from polyseme.analysis.occurrences import Occurrence
from polyseme.analysis.senses import occurrence_vectors
from polyseme.analysis.vector_geometry import centroid_distance, normalize, pca_2d, silhouette
from polyseme.arrays import Doubles, Floats, Ids
from polyseme.comparison.measure.corpus_items import WordIndex
from polyseme.inference.batching import pack, packed_batch
from polyseme.layers.linear_cross_entropy import token_nll
from polyseme.objectives.masked_lm import MaskedLm
from polyseme.pretrained import Pretrained

METHOD = (
    "frequent words that are predictable from their contexts, while these contexts differ widely; words annotated in a "
    "given sense dataset come first"
)

_NUM_CANDIDATES = 200  # frequent words
_MIN_COUNT, _MAX_OCCURRENCES = 20, 40
_MAX_ITERATIONS = 20  # of k-means


@dataclass(frozen=True, kw_only=True)
class AmbiguousWord:
    """A word that may have several senses."""

    word: str
    score: float
    context_spread: float  # mean cosine distance of its contexts from their centroid
    probability: float  # of the word given its context
    count: int
    annotated: bool  # whether a sense dataset lists several senses
    occurrences: list[Occurrence]
    clusters: list[int]  # of the occurrences

    def describe(self) -> dict[str, Any]:
        """The description in the results."""
        metrics = {"spread": self.context_spread, "probability": self.probability, "score": self.score}
        return {
            "word": self.word,
            "count": self.count,
            **({"annotated": True} if self.annotated else {}),
            **{name: round(value, 5) for name, value in metrics.items()},
        }


def find_ambiguous_words(
    model: Pretrained, index: WordIndex, layer: int, *, seed: int, most: int, annotated: Collection[str] = ()
) -> list[AmbiguousWord]:
    """The most ambiguous words of a text, with two clusters of the vectors of a layer; annotated words come first."""
    frequent = index.content_words(min_count=_MIN_COUNT, most=2 * _NUM_CANDIDATES)
    candidates = [word for word in frequent if not index.is_name(word)][:_NUM_CANDIDATES]
    known = [word for word in sorted(annotated) if index.count(word) >= _MIN_COUNT]
    words = list(dict.fromkeys([*known, *candidates]))
    by_word = [index.occurrences(word, most=_MAX_OCCURRENCES, seed=seed) for word in words]
    encoded = encode_contexts(model, [one for some in by_word for one in some]) if len(words) > 2 else None
    if encoded is None:
        return []
    contexts, probabilities = normalize(encoded[0] - encoded[0].mean(0)), encoded[1]
    scored, end = [], 0
    for word, occurrences in zip(words, by_word, strict=True):
        rows = slice(end, end := end + len(occurrences))
        context_spread, probability = centroid_distance(contexts[rows]), float(probabilities[rows].mean())
        tightness = silhouette(contexts[rows], two_means(contexts[rows]).astype(np.str_)) or 0.0
        score = context_spread * probability * (1 - tightness) / math.sqrt(index.count(word))
        scored.append((word not in annotated, -score, word, context_spread, probability, occurrences))
    return [
        AmbiguousWord(
            word=word,
            score=-score,
            context_spread=context_spread,
            probability=probability,
            count=index.count(word),
            annotated=word in annotated,
            occurrences=occurrences,
            clusters=two_means(normalize(occurrence_vectors(model, occurrences).layers[layer])).tolist(),
        )
        for _, score, word, context_spread, probability, occurrences in sorted(scored, key=lambda one: one[:3])[:most]
    ]


def encode_contexts(model: Pretrained, occurrences: Sequence[Occurrence]) -> tuple[Floats, Doubles] | None:
    """The vector of each word's position without the word itself, (N, D), and the probability of the word there.

    A masked language model sees both sides, with all pieces of the word masked; a causal one sees the left context.
    The probability of a word with several pieces is their geometric mean. None if the model cannot predict tokens.
    """
    for part in model.objective.parts:
        if isinstance(part, MaskedLm):
            return _encode_masked(model, part, occurrences)
    return _encode_left_contexts(model, occurrences) if "generate" in model.capabilities else None


def _encode_masked(model: Pretrained, head: MaskedLm, occurrences: Sequence[Occurrence]) -> tuple[Floats, Doubles]:
    assert model.tokenizer is not None
    before, after = model.tokenizer.special_template
    room = model.encoder.config.max_length - len(before) - len(after)
    rows, masked, targets = [], [], []
    for one, tokens in zip(
        occurrences, model.tokenizer.encode_batch([one.text for one in occurrences], specials=False), strict=True
    ):
        starts, ends = np.array(tokens.offsets or [(0, 0)]).T
        inside = np.flatnonzero((starts < one.end) & (ends > one.start))
        begin = int(max(0, min(inside[0] - room // 2, len(tokens.ids) - room))) if len(inside) else 0
        ids = np.array(tokens.ids[begin : begin + room], np.int64)
        positions = inside[(inside >= begin) & (inside < begin + room)] - begin
        targets.append(ids[positions])
        ids[positions] = head.mask
        rows.append(np.concatenate([before, ids, after]).astype(np.int64))
        masked.append(positions + len(before))
    vectors = np.zeros((len(rows), model.encoder.widths[-1]), np.float32)
    probabilities = np.zeros(len(rows))
    with torch.inference_mode():
        for group in pack([len(row) for row in rows]):
            encoded = model.encoder(packed_batch([rows[number] for number in group], model.encoder.device))
            starts = np.cumsum([0, *(len(rows[number]) for number in group)])
            for start, number in zip(starts, group, strict=False):
                if not len(masked[number]):
                    continue
                hidden = encoded.layers[-1][0, (masked[number] + start).tolist()]
                vectors[number] = hidden.mean(0).cpu().numpy()
                target = torch.from_numpy(targets[number]).to(hidden.device)
                nll = token_nll(head.transform(hidden), model.encoder.tokens.weight, head.bias, target)[0]
                probabilities[number] = float(torch.exp(-nll.mean()))
    return vectors, probabilities


def _encode_left_contexts(model: Pretrained, occurrences: Sequence[Occurrence]) -> tuple[Floats, Doubles]:
    """Encode left contexts; the space before a word belongs to the word."""
    lefts = [one.text[: one.start].rstrip() or one.text[:1] for one in occurrences]
    words = [one.text[len(left) : one.end] for one, left in zip(occurrences, lefts, strict=True)]
    vectors = np.stack([encoding.layers[-1][-1] for encoding in model.encode(lefts)])
    scores = model.score(words, after=lefts)
    return vectors, np.array([np.exp(-score.nats / max(1, score.num_tokens)) for score in scores])


def two_means(vectors: Floats) -> Ids:
    """Two clusters of unit vectors by spherical k-means, initialised along the first principal component."""
    points, _ = pca_2d(vectors)
    clusters = (points[:, 0] > np.median(points[:, 0])).astype(np.int64)
    for _ in range(_MAX_ITERATIONS):
        if clusters.min() == clusters.max():
            break
        centroids = normalize(np.stack([vectors[clusters == cluster].mean(0) for cluster in (0, 1)]))
        updated = (vectors @ centroids.T).argmax(1)
        if (updated == clusters).all():
            break
        clusters = updated
    return clusters
