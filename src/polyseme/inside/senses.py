"""How the senses of a word separate: the vector of each of its occurrences in every layer.

A static model gives the word one vector for all of its senses. Layer 0 of the others knows no other word either, though
it may know the position; what the layers above make of the word can be told apart by where it stands.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from polyseme.config import Config
from polyseme.inside.encoding import Model
from polyseme.inside.nearness import (
    Balanced,
    find_nearest,
    self_similarity,
    silhouette,
    spread,
    tell_senses,
    unit,
)
from polyseme.inside.occurrences import Case, Forms, Occurrence, draw, given_occurrences, read_occurrences
from polyseme.inside.project import project

Vectors = NDArray[np.float32]

_HELD = 1 << 26  # numbers of all layers that are held at once, a token taken for each character


class SensesConfig(Config):
    """What is looked at."""

    case: Case = "any"  # any: capitals make no difference; exact
    most: int = Field(500, ge=0)  # occurrences, drawn by the seed; 0: all
    near: int = Field(5, ge=1)  # nearest occurrences of each
    seed: int = Field(0, ge=0)


@dataclass(frozen=True, kw_only=True)
class WordVectors:
    """Occurrences as a model sees them."""

    layers: list[Vectors]  # each (N, D), the mean of the pieces of the word
    others: list[Vectors]  # each (texts, D), of a piece of another word in each text
    pieces: list[tuple[str, ...]]  # of each occurrence


@dataclass(frozen=True, kw_only=True)
class Layer:
    """The occurrences in one layer; figures about senses are there where two senses or more are given."""

    vectors: Vectors  # (N, D), of length 1
    points: NDArray[np.float64]  # (N, 2), principal components
    explained: tuple[float, float]  # share of the variance that each of the two has
    nearest: NDArray[np.int64]  # (N, near), other occurrences, the nearest first
    cosines: NDArray[np.float64]  # (N, near)
    self_similarity: float | None  # mean cosine of two occurrences
    other_words: float | None  # the same of other words in the same texts, which says how much that is worth
    spread: float  # mean cosine distance from the mean
    silhouette: float | None
    told: Balanced | None  # how far the nearest occurrence has the same sense

    @property
    def figures(self) -> dict[str, float | None]:
        """What there is to say in numbers."""
        return {
            "accuracy": self.told.value if self.told else None,
            "error": self.told.error if self.told else None,
            "silhouette": self.silhouette,
            "self_similarity": self.self_similarity,
            "other_words": self.other_words,
            "spread": self.spread,
        }


@dataclass(frozen=True, kw_only=True)
class Senses:
    """The occurrences of a word in every layer of a model."""

    name: str  # of the model
    family: str
    static: bool  # one vector for a word, whatever stands around it
    word: str
    spelling: tuple[str, ...]  # the pieces that it most often is
    occurrences: list[Occurrence]
    num_known: int  # of these the first; the others are told by them
    layers: list[Layer]

    @property
    def senses(self) -> dict[str, int]:
        """The senses and how often they are given, the most frequent first."""
        return dict(Counter(occurrence.sense for occurrence in self.occurrences if occurrence.sense).most_common())


@dataclass(frozen=True, kw_only=True)
class Found:
    """What is looked at: the occurrences of a word, drawn from all that there are."""

    word: str
    known: list[Occurrence]
    asked: list[Occurrence]  # empty where each is told by all others
    total: int


def find_occurrences(
    word: str,
    texts: str | Path | Iterable[Any],
    told: SensesConfig,
    *,
    against: str | Path | Iterable[Any] | None = None,
    columns: dict[str, str] | None = None,
) -> Found:
    """The occurrences in a file or in texts, and those in others that are to be told by them."""
    forms = Forms(word, case=told.case)

    def drawn(source: str | Path | Iterable[Any]) -> tuple[list[Occurrence], int]:
        if isinstance(source, str | Path):
            return draw(read_occurrences(source, forms, columns=columns), told.most, told.seed)
        return draw(given_occurrences(source, forms), told.most, told.seed)

    known, total = drawn(texts)
    asked, more = ([], 0) if against is None else drawn(against)
    return Found(word=str(forms), known=known, asked=asked, total=total + more)


def look_at(model: Model, found: Found, told: SensesConfig, *, name: str = "") -> Senses:
    """The occurrences as a model sees them, layer by layer."""
    occurrences, num_known = [*found.known, *found.asked], len(found.known)
    read = read_vectors(model, occurrences, seed=told.seed)
    senses = np.array([occurrence.sense for occurrence in occurrences], dtype=np.str_)
    given = senses != ""
    layers: list[Layer] = []
    for of_word, of_others in zip(read.layers, read.others, strict=True):
        vectors = unit(of_word)
        points, explained = project(vectors, like=layers[-1].points if layers else None)
        nearest, cosines = find_nearest(vectors, vectors[:num_known], told.near, own=num_known)
        known = (vectors[:num_known], senses[:num_known]) if found.asked else ()
        asked = slice(num_known if found.asked else 0, None)
        layers.append(
            Layer(
                vectors=vectors,
                points=points,
                explained=explained,
                nearest=nearest,
                cosines=cosines,
                self_similarity=self_similarity(vectors),
                other_words=self_similarity(unit(of_others)),
                spread=spread(vectors),
                silhouette=silhouette(vectors[given], senses[given]),
                told=tell_senses(vectors[asked], senses[asked], *known),
            )
        )
    return Senses(
        name=name or model.family,
        family=model.family,
        static=model.encoder.context == "none",
        word=found.word,
        spelling=Counter(read.pieces).most_common(1)[0][0],
        occurrences=occurrences,
        num_known=num_known,
        layers=layers,
    )


def read_vectors(model: Model, occurrences: Sequence[Occurrence], *, seed: int = 0) -> WordVectors:
    """The vectors of occurrences in every layer; each text is read once, and only the word's vectors are kept."""
    numbers: dict[str, list[int]] = {}
    for number, occurrence in enumerate(occurrences):
        numbers.setdefault(occurrence.text, []).append(number)
    widths, chance = model.encoder.widths, np.random.default_rng(seed)
    layers = [np.zeros((len(occurrences), width), np.float32) for width in widths]
    others = [np.zeros((len(numbers), width), np.float32) for width in widths]
    pieces: list[tuple[str, ...]] = [()] * len(occurrences)
    texts = sorted(numbers, key=len)  # so that texts that are read together are about as long
    encodings = chain.from_iterable(map(model.encode, _batches(texts, _HELD // sum(widths))))
    for row, (text, encoding) in enumerate(zip(texts, encodings, strict=True)):
        start, end = np.array(encoding.offsets).T
        free = end > start
        for number in numbers[text]:
            inside = (start < occurrences[number].end) & (end > occurrences[number].start)
            free &= ~inside
            pieces[number] = tuple(encoding.tokens[place] for place in np.flatnonzero(inside))
            if inside.any():
                for layer, read in zip(layers, encoding.layers, strict=True):
                    layer[number] = read[inside].mean(0)
        if free.any():
            place = chance.choice(np.flatnonzero(free))
            for layer, read in zip(others, encoding.layers, strict=True):
                layer[row] = read[place]
    return WordVectors(layers=layers, others=others, pieces=pieces)


def _batches(texts: Sequence[str], room: int) -> Iterator[list[str]]:
    """Texts in groups that have so many characters together, or one alone."""
    batch: list[str] = []
    left = room
    for text in texts:
        if batch and len(text) > left:
            yield batch
            batch, left = [], room
        batch.append(text)
        left -= len(text)
    if batch:
        yield batch
