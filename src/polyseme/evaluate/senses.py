"""How far the vectors of a word tell its senses, by layer.

A folder with `WORD.train.tsv` and `WORD.test.tsv`, or with `train.tsv` and `test.tsv` whose column `word` names the
word, holds occurrences with senses (as CoarseWSD-20; Loureiro et al., 2021): the sense of each is said to be that of
the nearest one to learn from. Where `train.tsv` has `text_a` and `text_b`, a word stands in both in the same sense or
not (as WiC; Pilehvar and Camacho-Collados, 2019): it does where the cosine is above a threshold, which is tuned on
`train.tsv`, on which the layer is chosen as well.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from polyseme.errors import DataError
from polyseme.evaluate.figures import Figure, mean_figure
from polyseme.inside.encoding import Model
from polyseme.inside.nearness import tell_senses, unit
from polyseme.inside.occurrences import Occurrence, draw, place_in
from polyseme.inside.senses import read_vectors
from polyseme.text.corpus import FORMATS, Reader
from polyseme.text.records import Record

_TABLES = tuple(ending for ending, format in FORMATS.items() if format != "txt")
_MEASURE = "balanced 1-NN accuracy"
_SAME = {"same": True, "true": True, "t": True, "1": True, "different": False, "false": False, "f": False, "0": False}
_PAIRS = 1000  # whose vectors are held together


@dataclass(frozen=True, kw_only=True)
class SenseSet:
    """Files of a folder that belong together."""

    name: str
    train: Path
    test: Path


@dataclass(frozen=True, kw_only=True)
class Pairs:
    """A word in two contexts each, and whether in the same sense."""

    sides: list[tuple[Occurrence, Occurrence]]
    same: NDArray[np.bool_]


def score_senses(model: Model, data: Path, *, most: int = 0, seed: int = 0) -> list[Figure]:
    """What the sets of a folder, or of the folders in it, say; `most` of the items of each, drawn by the seed."""
    if not data.is_dir():
        raise DataError(f"{data} is no folder; give one with WORD.train.tsv and WORD.test.tsv, or with pairs as in WiC")
    folders = [data, *sorted(path for path in data.iterdir() if path.is_dir())]
    found = [(folder, sets) for folder in folders if (sets := find_sets(folder))]
    if not found:
        raise DataError(
            f"{data} holds no senses; give a folder with WORD.train.tsv and WORD.test.tsv, or with both alone"
        )
    return [
        figure for folder, sets in found for figure in _score_folder(model, folder.resolve().name, sets, most, seed)
    ]


def find_sets(folder: Path) -> list[SenseSet]:
    """The tables to learn from that have one to measure on beside them."""
    sets = []
    for train in sorted(path for path in folder.iterdir() if path.suffix in _TABLES and path.is_file()):
        *name, split = train.stem.split(".")
        beside = [train.with_name(".".join([*name, kind]) + train.suffix) for kind in ("test", "dev")]
        test = next((path for path in beside if path.is_file()), None)
        if split == "train" and test is not None:
            sets.append(SenseSet(name=".".join(name), train=train, test=test))
    return sets


def score_words(model: Model, sets: Sequence[SenseSet], *, most: int = 0, seed: int = 0) -> dict[str, list[Figure]]:
    """The figures of each word of some sets: a vector that is the same everywhere, and every layer."""
    return {
        word: _score_word(model, word, train, test)
        for chosen in sets
        for word, train, test in words_of(chosen, most, seed)
    }


def _score_folder(model: Model, name: str, sets: Sequence[SenseSet], most: int, seed: int) -> Iterator[Figure]:
    if are_pairs(sets):
        yield from score_pairs(model, name, sets[0], most, seed)
        return
    words = score_words(model, sets, most=most, seed=seed)
    for figures in words.values():
        yield from figures
    if len(words) > 1:
        yield from (_mean(name, figures) for figures in zip(*words.values(), strict=True))


def are_pairs(sets: Sequence[SenseSet]) -> bool:
    """Whether a folder has words in two contexts each, as WiC."""
    return len(sets) == 1 and "text_a" in _columns(sets[0].train)


def _mean(name: str, figures: Sequence[Figure]) -> Figure:
    """That of all words, each counting alike."""
    values = [figure.value for figure in figures if figure.value is not None]
    errors = [figure.error for figure in figures if figure.error is not None]
    return replace(
        figures[0],
        name=name,
        value=sum(values) / len(values) if len(values) == len(figures) else None,
        error=math.hypot(*errors) / len(errors) if len(errors) == len(figures) else None,
        num_found=sum(figure.num_found for figure in figures),
        num_items=sum(figure.num_items for figure in figures),
    )


def words_of(chosen: SenseSet, most: int, seed: int) -> Iterator[tuple[str, list[Occurrence], list[Occurrence]]]:
    """The words of a set, each with its occurrences to learn from and to be told."""
    sides = [defaultdict[str, list[Occurrence]](list) for _ in range(2)]
    for side, file in zip(sides, (chosen.train, chosen.test), strict=True):
        for word, occurrence in _occurrences(file, chosen.name):
            side[word].append(occurrence)
    train, test = sides
    words = [word for word in train if word in test]
    if not words:
        raise DataError(f"{chosen.test} has no word of {chosen.train}; give files that belong together")
    for word in words:
        senses = {occurrence.sense for occurrence in train[word]} & {occurrence.sense for occurrence in test[word]}
        if len(senses) < 2:
            raise DataError(f"{chosen.train}: {word} has no two senses that stand in {chosen.test} too; leave it out")
        yield word, draw(train[word], most, seed)[0], draw(test[word], most, seed)[0]


def _occurrences(file: Path, name: str) -> Iterator[tuple[str, Occurrence]]:
    for record in _records(file, ("text",)):
        columns = {"label": "sense"} if "sense" in record.values else {}
        record = replace(record, columns=columns)
        text = record.text("text")
        place = place_in(record, text)
        if place is None:
            raise record.fault("it does not say where the word is", "give index, or start and end")
        sense = record.label("label")
        if not sense:
            raise record.fault("it has no sense", "write it in a column label or sense, or drop the row")
        word = name or record.label("word") or text[slice(*place)].lower()
        yield word, Occurrence.of(text, *place, sense)


def _score_word(model: Model, word: str, train: list[Occurrence], test: list[Occurrence]) -> list[Figure]:
    layers = read_vectors(model, [*train, *test]).layers
    known, asked = (np.array([occurrence.sense for occurrence in side]) for side in (train, test))
    figures = []
    for number, layer in enumerate([np.zeros((len(known) + len(asked), 1), np.float32), *layers]):
        vectors = unit(layer)
        told = tell_senses(vectors[len(known) :], asked, vectors[: len(known)], known)
        figures.append(
            Figure(
                name=word,
                section=f"layer {number - 1}" if number else "static",
                measure=_MEASURE,
                value=told.value if told else None,
                error=told.error if told and number else None,
                num_found=told.num_items if told else 0,
                num_items=len(asked),
            )
        )
    return figures


def score_pairs(model: Model, name: str, chosen: SenseSet, most: int, seed: int) -> Iterator[Figure]:
    """Whether a word has the same sense in two contexts: by layer, and last in that which is best to learn from."""
    train, test = (_read_pairs(file, most, seed) for file in (chosen.train, chosen.test))
    measure, num_items = "accuracy", len(test.same)
    usual = train.same.mean() >= 0.5
    yield mean_figure(
        name, (test.same == usual).astype(float).tolist(), measure=measure, section="majority", num_items=num_items
    )
    figures, trained = [], []
    for number, (known, asked) in enumerate(zip(_cosines(model, train), _cosines(model, test), strict=True)):
        threshold, accuracy = tune_threshold(known, train.same)
        trained.append(accuracy)
        right = ((asked >= threshold) == test.same).astype(float).tolist()
        figures.append(mean_figure(name, right, measure=measure, section=f"layer {number}", num_items=num_items))
    yield from figures
    best = max(range(len(trained)), key=trained.__getitem__)
    yield replace(figures[best], section=f"layer {best}, chosen on {chosen.train.name}")


def tune_threshold(cosines: NDArray[np.float64], same: NDArray[np.bool_]) -> tuple[float, float]:
    """The lowest threshold by which most pairs are right, those from it on being the same; and how many are."""
    order = np.argsort(cosines, kind="stable")
    values, truth = cosines[order], same[order]
    # How many are right if the first n are said to be different.
    right = np.concatenate([[0], np.cumsum(~truth)]) + np.concatenate([np.cumsum(truth[::-1])[::-1], [0]])
    ends = np.concatenate([[-math.inf], values, [math.inf]])
    apart = ends[:-1] < ends[1:]  # equal cosines cannot be divided
    best = int(np.argmax(np.where(apart, right, -1)))
    return float(ends[best] + ends[best + 1]) / 2, float(right[best]) / len(values)


def _cosines(model: Model, pairs: Pairs) -> list[NDArray[np.float64]]:
    """Those of all pairs, layer by layer."""
    parts = []
    for start in range(0, len(pairs.sides), _PAIRS):
        sides = zip(*pairs.sides[start : start + _PAIRS], strict=True)
        occurrences = [occurrence for side in sides for occurrence in side]
        num = len(occurrences) // 2
        units = (unit(layer).astype(np.float64) for layer in read_vectors(model, occurrences).layers)
        parts.append([np.round((layer[:num] * layer[num:]).sum(1), 6) for layer in units])
    return [np.concatenate(layer) for layer in zip(*parts, strict=True)]


def _read_pairs(file: Path, most: int, seed: int) -> Pairs:
    def read(record: Record) -> tuple[tuple[Occurrence, Occurrence], bool]:
        sides = []
        for side in ("_a", "_b"):
            text = record.text(f"text{side}")
            place = place_in(record, text, side)
            if place is None:
                raise record.fault(
                    "it does not say where the word is", f"give index{side}, or start{side} and end{side}"
                )
            sides.append(Occurrence.of(text, *place))
        label = record.label("label").lower()
        if label not in _SAME:
            raise record.fault("the label is neither same nor different", "write one of them", found=f"{label!r:.40}")
        return (sides[0], sides[1]), _SAME[label]

    rows, _ = draw(map(read, _records(file, ("text_a", "text_b", "label"))), most, seed)
    if not rows:
        raise DataError(f"{file} holds no pairs; give at least one")
    return Pairs(sides=[row[0] for row in rows], same=np.array([row[1] for row in rows]))


def _records(file: Path, needed: Iterable[str]) -> Iterator[Record]:
    reader = Reader(file)
    for number, (row, values) in enumerate(reader.records()):
        for column in () if number else needed:
            if column not in values:
                raise reader.no_column(column, filter(None, values))
        yield Record(file, row, values, {}, labelled=False)


def _columns(file: Path) -> set[str | None]:
    return set(next(Reader(file).records(), (0, {}))[1])
