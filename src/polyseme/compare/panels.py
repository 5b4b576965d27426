"""What is shown rather than counted: neighbours, ambiguous words and their maps, examples of writing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

import numpy as np
from numpy.typing import NDArray

from polyseme.compare.derived import Lexicon
from polyseme.compare.measuring import Questions, scale_of
from polyseme.compare.results import Row
from polyseme.errors import DataError
from polyseme.inside.nearness import silhouette, spread, unit
from polyseme.inside.occurrences import Occurrence
from polyseme.inside.project import project
from polyseme.inside.senses import read_vectors
from polyseme.pretrained import Pretrained

_NEIGHBOURS = 8
_CANDIDATES = 150  # frequent words among which ambiguous ones are looked for
_PLACES = 60  # occurrences of each
_SHOWN_PLACES = 50
_LEAST = 20  # occurrences of a word that is looked at
_TOKENS = 24  # that a model writes
_ROUNDS = 20


def neighbour_rows(model: Pretrained, questions: Questions) -> Iterator[Row]:
    """The words nearest to a few frequent ones."""
    for word in questions.frequent:
        try:
            near = model.neighbours(word, top=_NEIGHBOURS)
        except DataError:
            continue  # of more than one token
        near = [neighbour for neighbour in near if neighbour.score]
        if near:
            yield {
                "row": "neighbours",
                "word": word,
                "neighbours": [[neighbour.word, round(neighbour.score, 4)] for neighbour in near],
            }


def example_rows(model: Pretrained, questions: Questions, *, seed: int) -> Iterator[Row]:
    """How a model goes on from a few words, or what it puts into blanks."""
    scale = scale_of(model)
    if scale == "masked":
        for blank in questions.blanks:
            (guesses,) = model.fill(blank, top=5)
            filled = [[guess.token, round(guess.probability, 4)] for guess in guesses]
            yield {"row": "example", "kind": "fill", "prompt": blank, "filled": filled}
    elif scale and model.encoder.context != "right":
        for prompt in questions.prompts:
            written = model.generate(prompt, max_tokens=_TOKENS, seed=seed, temperature=0.8, top_p=0.9)
            yield {"row": "example", "kind": "generate", "prompt": prompt, "texts": [written]}


def choose_prompts(lexicon: Lexicon, frequent: Sequence[str], *, number: int, seed: int) -> tuple[list[str], list[str]]:
    """Beginnings of sentences to go on from, and sentences of which a content word is hidden."""
    chance = Random(f"prompts {seed}")
    fitting = [sentence for sentence in lexicon.sentences if 8 <= len(sentence.spans) <= 20]
    chosen = chance.sample(fitting, min(number, len(fitting)))
    prompts = [sentence.text[: sentence.spans[3][1]] for sentence in chosen]
    blanks = []
    for word in frequent:
        places = [
            (one, place)
            for sentence, place in lexicon.places[word]
            if 6 <= len((one := lexicon.sentences[sentence]).spans) <= 20 and place
        ]
        if places:
            sentence, place = chance.choice(places)
            start, end = sentence.spans[place]
            blanks.append(f"{sentence.text[:start]}[MASK]{sentence.text[end:]}")
        if len(blanks) == number:
            break
    return prompts, blanks


@dataclass(frozen=True, kw_only=True)
class Ambiguous:
    """A word whose occurrences fall into two groups."""

    word: str
    score: float
    spread: float
    count: int
    occurrences: list[Occurrence]
    groups: list[int]


def find_ambiguous(model: Pretrained, lexicon: Lexicon, layer: int, *, seed: int) -> list[Ambiguous]:
    """Frequent words by how far their occurrences fall apart, the most ambiguous first.

    The occurrences of each word are divided in two. Of a word with one sense, both halves are about as near to each
    other as they are to themselves; of a word with two, they are nearer to other words than to each other.
    """
    words = lexicon.content_words(least=_LEAST, most=_CANDIDATES)
    places = {word: lexicon.occurrences(word, most=_PLACES, seed=seed) for word in words}
    read = read_vectors(model, [one for word in words for one in places[word]]).layers[layer]
    ends = np.cumsum([0, *(len(places[word]) for word in words)])
    centred = unit(read - read.mean(0))
    found = []
    for number, word in enumerate(words):
        vectors = centred[ends[number] : ends[number + 1]]
        groups = divide(vectors)
        found.append(
            Ambiguous(
                word=word,
                score=silhouette(vectors, groups.astype(np.str_)) or 0.0,
                spread=spread(vectors),
                count=lexicon.count(word),
                occurrences=places[word],
                groups=groups.tolist(),
            )
        )
    return sorted(found, key=lambda one: (-one.score, one.word))


def divide(vectors: NDArray[np.float32]) -> NDArray[np.int64]:
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


def map_row(model: Pretrained, one: Ambiguous, layer: int) -> Row:
    """The occurrences of a word on a plane, as a model sees them."""
    shown = slice(0, _SHOWN_PLACES)
    occurrences = one.occurrences[shown]
    points, _ = project(unit(read_vectors(model, occurrences).layers[layer]))
    return {
        "row": "senses",
        "word": one.word,
        "layer": layer,
        "points": [
            [round(float(x), 4), round(float(y), 4), place.text, place.start, place.end, group]
            for (x, y), place, group in zip(points, occurrences, one.groups[shown], strict=True)
        ],
    }
