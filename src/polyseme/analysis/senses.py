"""Separation of word senses in the vectors of a word's occurrences, layer by layer.

A static model gives a word one vector for all senses. Layer 0 of a contextual model also depends on the word only, up
to its position; differences in higher layers come from the context.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field

from polyseme.analysis.occurrences import (
    CaseMatching,
    Occurrence,
    WordForms,
    parse_occurrences,
    read_occurrences,
    reservoir_sample,
)
from polyseme.analysis.vector_geometry import (
    centroid_distance,
    nearest_neighbours,
    nearest_sense_accuracy,
    normalize,
    pca_2d,
    self_similarity,
    silhouette,
)
from polyseme.arrays import Doubles, Floats, Ids
from polyseme.config import Config
from polyseme.inference.model import LoadedModel
from polyseme.tokenization.document_batches import group_documents

_BATCH_VALUES = 1 << 26  # values of all layers in memory at once, with one token per character


class SensesConfig(Config):
    """The occurrences to analyse."""

    case: CaseMatching = "any"  # any: ignore case; exact
    max_occurrences: int = Field(500, ge=0)  # sampled by the seed; 0: all
    num_neighbours: int = Field(5, ge=1)  # nearest occurrences listed for each
    seed: int = Field(0, ge=0)


@dataclass(frozen=True, kw_only=True)
class OccurrenceVectors:
    """The vectors of occurrences in every layer."""

    layers: list[Floats]  # each (N, D), the mean over the tokens of the word
    random_words: list[Floats]  # each (texts, D), of a random token of another word per text
    tokens: list[tuple[str, ...]]  # of each occurrence


@dataclass(frozen=True, kw_only=True)
class LayerSenses:
    """The occurrences in one layer; sense metrics are None without annotations of at least two senses."""

    vectors: Floats  # (N, D), of length 1
    points: Doubles  # (N, 2), principal components
    explained: tuple[float, float]  # variance of each component
    nearest: Ids  # (N, neighbours), other occurrences, nearest first
    cosines: Doubles  # (N, neighbours)
    metrics: dict[str, float | None]
    """accuracy (balanced, of the sense of the nearest occurrence) and its standard error, error; silhouette;
    self_similarity (mean cosine of two occurrences); random_similarity (of random words of the same texts, the
    baseline of self-similarity); centroid_distance (mean cosine distance from the centroid)."""


@dataclass(frozen=True, kw_only=True)
class Senses:
    """The occurrences of a word in every layer of a model."""

    name: str  # of the model
    family: str
    static: bool  # one vector per word, whatever its context
    word: str
    tokens: tuple[str, ...]  # the most frequent tokenization of the word
    occurrences: list[Occurrence]
    num_known: int  # the first occurrences, which predict the senses of the others
    layers: list[LayerSenses]

    @property
    def senses(self) -> dict[str, int]:
        """The annotated senses with their counts, most frequent first."""
        return dict(Counter(occurrence.sense for occurrence in self.occurrences if occurrence.sense).most_common())


@dataclass(frozen=True, kw_only=True)
class OccurrenceSample:
    """A sample of the occurrences of a word."""

    word: str
    known: list[Occurrence]
    queries: list[Occurrence]  # if empty, the sense of each is predicted from all others
    total: int


def find_occurrences(
    word: str,
    texts: str | Path | Iterable[Any],
    config: SensesConfig,
    *,
    against: str | Path | Iterable[Any] | None = None,
    columns: dict[str, str] | None = None,
) -> OccurrenceSample:
    """Sample occurrences from a file or texts, and from others whose senses are to be predicted from them."""
    forms = WordForms(word, case=config.case)

    def sample(source: str | Path | Iterable[Any]) -> tuple[list[Occurrence], int]:
        if isinstance(source, str | Path):
            found = read_occurrences(source, forms, columns=columns)
        else:
            found = parse_occurrences(source, forms)
        return reservoir_sample(found, config.max_occurrences, config.seed)

    known, total = sample(texts)
    queries, more = ([], 0) if against is None else sample(against)
    return OccurrenceSample(word=str(forms), known=known, queries=queries, total=total + more)


def analyse_senses(model: LoadedModel, sample: OccurrenceSample, config: SensesConfig, *, name: str = "") -> Senses:
    """Encode occurrences and compute the metrics of every layer."""
    occurrences, num_known = [*sample.known, *sample.queries], len(sample.known)
    encoded = occurrence_vectors(model, occurrences, seed=config.seed)
    senses = np.array([occurrence.sense for occurrence in occurrences], dtype=np.str_)
    annotated = senses != ""
    layers: list[LayerSenses] = []
    for of_word, of_random_words in zip(encoded.layers, encoded.random_words, strict=True):
        vectors = normalize(of_word)
        points, explained = pca_2d(vectors, align_to=layers[-1].points if layers else None)
        nearest, cosines = nearest_neighbours(vectors, vectors[:num_known], config.num_neighbours, num_shared=num_known)
        known = (vectors[:num_known], senses[:num_known]) if sample.queries else ()
        evaluated = slice(num_known if sample.queries else 0, None)
        accuracy = nearest_sense_accuracy(vectors[evaluated], senses[evaluated], *known)
        layers.append(
            LayerSenses(
                vectors=vectors,
                points=points,
                explained=explained,
                nearest=nearest,
                cosines=cosines,
                metrics={
                    "accuracy": accuracy.value if accuracy else None,
                    "error": accuracy.error if accuracy else None,
                    "silhouette": silhouette(vectors[annotated], senses[annotated]),
                    "self_similarity": self_similarity(vectors),
                    "random_similarity": self_similarity(normalize(of_random_words)),
                    "centroid_distance": centroid_distance(vectors),
                },
            )
        )
    return Senses(
        name=name or model.family,
        family=model.family,
        static=model.encoder.context == "none",
        word=sample.word,
        tokens=Counter(encoded.tokens).most_common(1)[0][0],
        occurrences=occurrences,
        num_known=num_known,
        layers=layers,
    )


def occurrence_vectors(model: LoadedModel, occurrences: Sequence[Occurrence], *, seed: int = 0) -> OccurrenceVectors:
    """The vectors of occurrences in every layer; each text is encoded once, and only the word's vectors are stored."""
    by_text: dict[str, list[int]] = {}
    for index, occurrence in enumerate(occurrences):
        by_text.setdefault(occurrence.text, []).append(index)
    widths, rng = model.encoder.widths, np.random.default_rng(seed)
    layers = [np.zeros((len(occurrences), width), np.float32) for width in widths]
    random_words = [np.zeros((len(by_text), width), np.float32) for width in widths]
    tokens: list[tuple[str, ...]] = [()] * len(occurrences)
    texts = sorted(by_text, key=len)  # so that texts of similar length are encoded together
    encodings = chain.from_iterable(map(model.encode, group_documents(texts, _BATCH_VALUES // sum(widths))))
    for row, (text, encoding) in enumerate(zip(texts, encodings, strict=True)):
        starts, ends = np.array(encoding.offsets).T
        other_words = ends > starts
        for index in by_text[text]:
            in_word = (starts < occurrences[index].end) & (ends > occurrences[index].start)
            other_words &= ~in_word
            tokens[index] = tuple(encoding.tokens[position] for position in np.flatnonzero(in_word))
            if in_word.any():
                for layer, of_text in zip(layers, encoding.layers, strict=True):
                    layer[index] = of_text[in_word].mean(0)
        if other_words.any():
            position = rng.choice(np.flatnonzero(other_words))
            for layer, of_text in zip(random_words, encoding.layers, strict=True):
                layer[row] = of_text[position]
    return OccurrenceVectors(layers=layers, random_words=random_words, tokens=tokens)
