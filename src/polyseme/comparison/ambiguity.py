"""Which words of a text are ambiguous, as far as a model that reads contexts can tell.

A word that has several senses stands in contexts that are far apart, by the vectors that the model has in its place
without having seen it. So do many others, for other reasons, and three things set these apart. Names and days may stand
anywhere, and no context calls for one of them: the model gives them little probability. What has one use in two fixed
phrases falls into two tight groups of contexts, while the contexts of a sense differ from each other too. And the more
frequent a word is, the more different contexts it meets; about as the square root of its count.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from polyseme.comparison.derived import Lexicon
from polyseme.inside.nearness import silhouette, spread, unit
from polyseme.inside.occurrences import Occurrence
from polyseme.inside.project import project
from polyseme.inside.senses import read_vectors
from polyseme.layers.softmax import token_nats
from polyseme.objectives.masked import MaskedTokens
from polyseme.objectives.next_token import NextToken
from polyseme.pretrained import Pretrained
from polyseme.reading import packed, packs

HOW = (
    "frequent words whose contexts are spread wide and differ in many ways, though each calls for this very word; for "
    "how frequent they are, the most ambiguous first; before them those that a given set of senses names"
)

_CANDIDATES = 200  # frequent words that are looked at
_PLACES = 40  # occurrences of each
_LEAST = 20
_ROUNDS = 20

Floats = NDArray[np.float32]


@dataclass(frozen=True, kw_only=True)
class Ambiguous:
    """A word that may have several senses."""

    word: str
    score: float
    spread: float  # of its contexts
    probability: float  # of the word where it is not seen
    count: int
    known: bool  # that it has several senses, because a set says so
    occurrences: list[Occurrence]
    groups: list[int]  # into which these fall

    def describe(self) -> dict[str, Any]:
        """What a row says of it."""
        facts = {"spread": self.spread, "probability": self.probability, "score": self.score}
        known = {"known": True} if self.known else {}
        return {
            "word": self.word,
            "count": self.count,
            **known,
            **{name: round(value, 5) for name, value in facts.items()},
        }


def find_ambiguous(
    model: Pretrained, lexicon: Lexicon, layer: int, *, seed: int, most: int, known: Collection[str] = ()
) -> list[Ambiguous]:
    """The words of a text that are ambiguous, the likeliest first, with the groups of their vectors in a layer.

    Words that are known to be ambiguous come before those that seem so.
    """
    words = [word for word in lexicon.content_words(least=_LEAST, most=2 * _CANDIDATES) if not lexicon.is_name(word)]
    given = [word for word in sorted(known) if lexicon.count(word) >= _LEAST]
    words = list(dict.fromkeys([*given, *words[:_CANDIDATES]]))
    places = [lexicon.occurrences(word, most=_PLACES, seed=seed) for word in words]
    every = [one for found in places for one in found]
    seen = look_at_places(model, every) if len(words) > 2 else None
    if seen is None:
        return []
    contexts, probabilities = unit(seen[0] - seen[0].mean(0)), seen[1]
    found, end = [], 0
    for word, mine in zip(words, places, strict=True):
        rows = slice(end, end := end + len(mine))
        apart, called_for = spread(contexts[rows]), float(probabilities[rows].mean())
        tight = silhouette(contexts[rows], divide(contexts[rows]).astype(np.str_)) or 0.0
        score = apart * called_for * (1 - tight) / math.sqrt(lexicon.count(word))
        found.append((word not in known, -score, word, apart, called_for, mine))
    return [
        Ambiguous(
            word=word,
            score=-score,
            spread=apart,
            probability=called_for,
            count=lexicon.count(word),
            occurrences=mine,
            known=word in known,
            groups=divide(unit(read_vectors(model, mine).layers[layer])).tolist(),
        )
        for _, score, word, apart, called_for, mine in sorted(found, key=lambda one: one[:3])[:most]
    ]


def look_at_places(model: Pretrained, occurrences: Sequence[Occurrence]) -> tuple[Floats, NDArray[np.float64]] | None:
    """What a model has in the place of each word without having seen it, (N, D), and how likely the word is there.

    A masked model sees what stands on both sides, with the pieces of the word hidden; others what stands before it. Of
    a word of several pieces it is the probability of a piece. None where a model cannot tell.
    """
    for part in model.objective.parts:
        if isinstance(part, MaskedTokens):
            return _masked(model, part, occurrences)
        if isinstance(part, NextToken) and model.encoder.context != "right":
            return _before(model, occurrences)
    return None


def _masked(
    model: Pretrained, head: MaskedTokens, occurrences: Sequence[Occurrence]
) -> tuple[Floats, NDArray[np.float64]]:
    assert model.tokenizer is not None
    before, after = model.tokenizer.frame
    room = model.encoder.config.max_length - len(before) - len(after)
    rows, hidden, targets = [], [], []
    for one, tokens in zip(
        occurrences, model.tokenizer.encode_batch([one.text for one in occurrences], specials=False), strict=True
    ):
        starts, ends = np.array(tokens.offsets or [(0, 0)]).T
        inside = np.flatnonzero((starts < one.end) & (ends > one.start))
        begin = int(max(0, min(inside[0] - room // 2, len(tokens.ids) - room))) if len(inside) else 0
        ids = np.array(tokens.ids[begin : begin + room], np.int64)
        mine = inside[(inside >= begin) & (inside < begin + room)] - begin
        targets.append(ids[mine])
        ids[mine] = head.mask
        rows.append(np.concatenate([before, ids, after]).astype(np.int64))
        hidden.append(mine + len(before))
    vectors = np.zeros((len(rows), model.encoder.widths[-1]), np.float32)
    probabilities = np.zeros(len(rows))
    with torch.inference_mode():
        for group in packs([len(row) for row in rows]):
            encoded = model.encoder(packed([rows[number] for number in group], model.encoder.device))
            starts = np.cumsum([0, *(len(rows[number]) for number in group)])
            for start, number in zip(starts, group, strict=False):
                if not len(hidden[number]):
                    continue
                found = encoded.layers[-1][0, (hidden[number] + start).tolist()]
                vectors[number] = found.mean(0).cpu().numpy()
                asked = torch.from_numpy(targets[number]).to(found.device)
                nats = token_nats(head.transform(found), model.encoder.tokens.weight, head.bias, asked)[0]
                probabilities[number] = float(torch.exp(-nats.mean()))
    return vectors, probabilities


def _before(model: Pretrained, occurrences: Sequence[Occurrence]) -> tuple[Floats, NDArray[np.float64]]:
    """By what stands before; the space before a word belongs to the word."""
    lefts = [one.text[: one.start].rstrip() or one.text[:1] for one in occurrences]
    words = [one.text[len(left) : one.end] for one, left in zip(occurrences, lefts, strict=True)]
    vectors = np.stack([encoding.layers[-1][-1] for encoding in model.encode(lefts)])
    scores = model.score(words, after=lefts)
    return vectors, np.array([np.exp(-score.nats / max(1, score.num_tokens)) for score in scores])


def divide(vectors: Floats) -> NDArray[np.int64]:
    """Two groups of vectors of length 1 by spherical k-means, begun along their first principal component."""
    points, _ = project(vectors)
    groups = (points[:, 0] > np.median(points[:, 0])).astype(np.int64)
    for _ in range(_ROUNDS):
        if groups.min() == groups.max():
            break
        centres = unit(np.stack([vectors[groups == group].mean(0) for group in (0, 1)]))
        moved = (vectors @ centres.T).argmax(1)
        if (moved == groups).all():
            break
        groups = moved
    return groups
