"""Word sense disambiguation with the vectors of each layer.

A folder with `WORD.train.tsv` and `WORD.test.tsv`, or with `train.tsv` and `test.tsv` that have a column `word`,
contains occurrences with sense labels (as CoarseWSD-20; Loureiro et al., 2021): the predicted sense is that of the
nearest training occurrence. If `train.tsv` has `text_a` and `text_b`, each row asks whether a word has the same sense
in both texts (as WiC; Pilehvar and Camacho-Collados, 2019): the prediction is a threshold on the cosine, tuned on
`train.tsv`, on which the layer is chosen as well.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from polyseme.analysis.occurrences import Occurrence, read_position, reservoir_sample
from polyseme.analysis.senses import occurrence_vectors
from polyseme.analysis.vector_geometry import nearest_sense_accuracy, normalize
from polyseme.corpora.file_readers import FORMATS, FileReader
from polyseme.datasets.labelled_files import column_names
from polyseme.datasets.records import Record
from polyseme.errors import DataError
from polyseme.evaluation.results import MetricResult, macro_average, mean_result
from polyseme.inference.model import LoadedModel

_TABLES = tuple(ending for ending, format in FORMATS.items() if format != "txt")
_METRIC = "balanced 1-NN accuracy"
_SAME = {"same": True, "true": True, "t": True, "1": True, "different": False, "false": False, "f": False, "0": False}
_PAIR_BATCH = 1000  # pairs whose vectors are in memory at the same time


@dataclass(frozen=True, kw_only=True)
class SenseSet:
    """A training and a test file."""

    name: str
    train: Path
    test: Path


def score_senses(model: LoadedModel, data: Path, *, most: int = 0, seed: int = 0) -> list[MetricResult]:
    """Evaluate the sets of a folder and its subfolders on `most` sampled items each (0: all)."""
    if not data.is_dir():
        raise DataError(f"{data} is not a folder; give one with WORD.train.tsv and WORD.test.tsv, or with WiC pairs")
    folders = [data, *sorted(path for path in data.iterdir() if path.is_dir())]
    found = [(folder, sets) for folder in folders if (sets := find_sets(folder))]
    if not found:
        raise DataError(
            f"{data} has no sense files; give a folder with WORD.train.tsv and WORD.test.tsv, or train.tsv and test.tsv"
        )
    return [one for folder, sets in found for one in _score_folder(model, folder.resolve().name, sets, most, seed)]


def find_sets(folder: Path) -> list[SenseSet]:
    """Find the training tables that have a test or dev table."""
    sets = []
    for train in sorted(path for path in folder.iterdir() if path.suffix in _TABLES and path.is_file()):
        *name, split = train.stem.split(".")
        candidates = [train.with_name(".".join([*name, kind]) + train.suffix) for kind in ("test", "dev")]
        test = next((path for path in candidates if path.is_file()), None)
        if split == "train" and test is not None:
            sets.append(SenseSet(name=".".join(name), train=train, test=test))
    return sets


def _score_folder(model: LoadedModel, name: str, sets: list[SenseSet], most: int, seed: int) -> Iterator[MetricResult]:
    if is_word_in_context(sets):
        yield from score_pairs(model, name, sets[0], most, seed)
        return
    words = (word for chosen in sets for word in read_words(chosen, most, seed))
    results = [score_word(model, *word) for word in words]
    yield from chain.from_iterable(results)
    if len(results) > 1:
        for by_word in zip(*results, strict=True):
            average = macro_average(name, by_word, section=by_word[0].section)
            complete = all(result.value is not None for result in by_word)
            yield average if complete else replace(average, value=None, standard_error=None)


def is_word_in_context(sets: Sequence[SenseSet]) -> bool:
    """Whether a folder has pairs of contexts, as WiC."""
    return len(sets) == 1 and "text_a" in column_names(sets[0].train)


def read_words(chosen: SenseSet, most: int, seed: int) -> Iterator[tuple[str, list[Occurrence], list[Occurrence]]]:
    """Yield the words of a set, each with its training and test occurrences."""
    train, test = (defaultdict[str, list[Occurrence]](list) for _ in range(2))
    for split, file in ((train, chosen.train), (test, chosen.test)):
        for record in _records(file, ("text",)):
            if "sense" in record.values:
                record = replace(record, columns={"label": "sense"})
            sense = record.label("label")
            if not sense:
                raise record.error("the sense is missing", "write it in a column label or sense, or remove the row")
            occurrence = replace(_occurrence(record), sense=sense)
            split[chosen.name or record.label("word") or occurrence.word.lower()].append(occurrence)
    words = [word for word in train if word in test]
    if not words:
        raise DataError(f"{chosen.test} shares no word with {chosen.train}; give matching files")
    for word in words:
        senses = {occurrence.sense for occurrence in train[word]} & {occurrence.sense for occurrence in test[word]}
        if len(senses) < 2:
            raise DataError(f"{chosen.train}: {word} has fewer than two senses that occur in {chosen.test}; remove it")
        yield word, reservoir_sample(train[word], most, seed)[0], reservoir_sample(test[word], most, seed)[0]


def _occurrence(record: Record, suffix: str = "") -> Occurrence:
    text = record.text(f"text{suffix}")
    place = read_position(record, text, suffix)
    if place is None:
        remedy = f"give index{suffix}, or start{suffix} and end{suffix}"
        raise record.error("the position of the word is missing", remedy)
    return Occurrence.of(text, *place)


def score_word(model: LoadedModel, word: str, train: list[Occurrence], test: list[Occurrence]) -> list[MetricResult]:
    """Results for a static vector, and for every layer."""
    layers = occurrence_vectors(model, [*train, *test]).layers
    train_senses, test_senses = (np.array([occurrence.sense for occurrence in split]) for split in (train, test))
    results = []
    for number, layer in enumerate([np.zeros((len(train) + len(test), 1), np.float32), *layers]):
        vectors = normalize(layer)
        scored = nearest_sense_accuracy(vectors[len(train) :], test_senses, vectors[: len(train)], train_senses)
        results.append(
            MetricResult(
                name=word,
                section=f"layer {number - 1}" if number else "static",
                metric=_METRIC,
                value=scored.value if scored else None,
                standard_error=scored.error if scored and number else None,
                num_scored=scored.num_items if scored else 0,
                num_items=len(test),
            )
        )
    return results


def score_pairs(model: LoadedModel, name: str, chosen: SenseSet, most: int, seed: int) -> Iterator[MetricResult]:
    """Same-sense accuracy for every layer, and for the layer that is best on the training pairs."""
    (train, train_same), (test, test_same) = (_read_pairs(file, most, seed) for file in (chosen.train, chosen.test))

    def accuracy(predicted: NDArray[np.bool_] | np.bool_, section: str) -> MetricResult:
        correct = (predicted == test_same).astype(float).tolist()
        return mean_result(name, correct, metric="accuracy", section=section)

    yield accuracy(train_same.mean() >= 0.5, "majority")
    results, trained = [], []
    for number, (tuning, cosines) in enumerate(zip(_cosines(model, train), _cosines(model, test), strict=True)):
        threshold, train_accuracy = tune_threshold(tuning, train_same)
        trained.append(train_accuracy)
        results.append(accuracy(cosines >= threshold, f"layer {number}"))
    yield from results
    best = max(range(len(trained)), key=trained.__getitem__)
    yield replace(results[best], section=f"layer {best}, chosen on {chosen.train.name}")


def tune_threshold(cosines: NDArray[np.float64], same: NDArray[np.bool_]) -> tuple[float, float]:
    """Find the lowest threshold with the best accuracy, and that accuracy."""
    order = np.argsort(cosines, kind="stable")
    values, truth = cosines[order], same[order]
    # Correct predictions if the first n pairs are predicted to be different.
    correct = np.concatenate([[0], np.cumsum(~truth)]) + np.concatenate([np.cumsum(truth[::-1])[::-1], [0]])
    ends = np.concatenate([[-math.inf], values, [math.inf]])
    separable = ends[:-1] < ends[1:]  # equal cosines cannot be separated
    best = int(np.argmax(np.where(separable, correct, -1)))
    return float(ends[best] + ends[best + 1]) / 2, float(correct[best]) / len(values)


def _cosines(model: LoadedModel, pairs: Sequence[tuple[Occurrence, Occurrence]]) -> list[NDArray[np.float64]]:
    """Cosines of all pairs, by layer."""
    parts = []
    for start in range(0, len(pairs), _PAIR_BATCH):
        columns = zip(*pairs[start : start + _PAIR_BATCH], strict=True)
        occurrences = [occurrence for column in columns for occurrence in column]
        num = len(occurrences) // 2
        units = (normalize(layer).astype(np.float64) for layer in occurrence_vectors(model, occurrences).layers)
        parts.append([np.round((layer[:num] * layer[num:]).sum(1), 6) for layer in units])
    return [np.concatenate(layer) for layer in zip(*parts, strict=True)]


def _read_pairs(file: Path, most: int, seed: int) -> tuple[list[tuple[Occurrence, Occurrence]], NDArray[np.bool_]]:
    """Pairs of occurrences of a word, and whether they share the sense."""

    def read(record: Record) -> tuple[tuple[Occurrence, Occurrence], bool]:
        pair = _occurrence(record, "_a"), _occurrence(record, "_b")
        label = record.label("label").lower()
        if label not in _SAME:
            raise record.error("the label must be same or different", "correct it", found=f"{label!r:.40}")
        return pair, _SAME[label]

    rows, _ = reservoir_sample(map(read, _records(file, ("text_a", "text_b", "label"))), most, seed)
    if not rows:
        raise DataError(f"{file} has no pairs; give at least one")
    return [pair for pair, _ in rows], np.array([same for _, same in rows])


def _records(file: Path, needed: Iterable[str]) -> Iterator[Record]:
    for row, values in FileReader(file).records(needed):
        yield Record(file, row, values, {}, labelled=False)
