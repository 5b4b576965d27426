"""Minimal pairs: whether a model prefers the acceptable sentence of each pair (BLiMP; Warstadt et al., 2020).

A row has an acceptable and an unacceptable sentence, and optionally the names of its set (`UID`; default: the file),
of the linguistic phenomenon and of the field. Sentences are compared by their total likelihood; a tie counts half.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from polyseme.corpora.corpus import Corpus
from polyseme.corpora.file_readers import FileReader, row_location
from polyseme.corpora.sampling import sample_in_order
from polyseme.errors import DataError
from polyseme.evaluation.results import MetricResult, macro_average, mean_result
from polyseme.inference.scores import Score

# Column names, those of BLiMP first.
_COLUMNS = {
    "good": ("sentence_good", "good"),
    "bad": ("sentence_bad", "bad"),
    "set": ("UID",),
    "phenomenon": ("linguistics_term", "term", "phenomenon"),
    "field": ("field",),
}
_TOLERANCE = 1e-4  # nats below which two likelihoods are a tie, because of rounding

Row = Mapping[str | None, Any]
Scorer = Callable[[Sequence[str]], list[Score]]


@dataclass(frozen=True, kw_only=True)
class PairSet:
    """Pairs with the same contrast."""

    name: str
    phenomenon: str
    field: str
    pairs: list[tuple[str, str]]  # the good sentence, and the bad one


def read_pairs(path: Path) -> list[PairSet]:
    """Read the sets of a file, or of all tables of a folder, in order."""
    sets: dict[str, PairSet] = {}
    for file in Corpus(path).files:
        reader = FileReader(file)
        for number, row in reader.records():
            good, bad = (_sentence(reader, number, row, column) for column in ("good", "bad"))
            name = _text(row, "set") or file.name.split(".")[0]
            field = _text(row, "field").replace("/", "_")  # BLiMP spells it both syntax/semantics and syntax_semantics
            new = PairSet(name=name, phenomenon=_text(row, "phenomenon"), field=field, pairs=[])
            sets.setdefault(name, new).pairs.append((good, bad))
    if not sets:
        raise DataError(f"{path} has no minimal pairs; give rows with sentence_good and sentence_bad")
    return list(sets.values())


def score_pairs(
    name: str, sets: Sequence[PairSet], score: Scorer, *, most: int = 0, seed: int = 0
) -> list[MetricResult]:
    """Accuracy on each set, and averaged over sets by phenomenon, by field and in total."""
    by_set, without_oov = [], []
    for pairs in sets:
        sampled = sample_pairs(pairs, most, seed).pairs
        scores = score([sentence for pair in sampled for sentence in pair])  # in one call, to batch by length
        points, known_points = [], []
        for good, bad in zip(scores[::2], scores[1::2], strict=True):
            margin = bad.nats - good.nats
            points.append(0.5 if abs(margin) < _TOLERANCE else float(margin > 0))
            if good.num_oov + bad.num_oov == 0:
                known_points.append(points[-1])
        result = mean_result(pairs.name, points, metric="accuracy")
        by_set.append(replace(result, num_scored=len(known_points)))
        without_oov.append(mean_result(pairs.name, known_points, metric="accuracy, known words", num_items=len(points)))
    results = by_set.copy()
    if len(sets) > 1:
        for kind in ("phenomenon", "field"):
            groups = [getattr(pairs, kind) for pairs in sets]
            for group in sorted({*groups} - {""}):
                members = [result for result, other in zip(by_set, groups, strict=True) if other == group]
                results.append(macro_average(name, members, section=f"{kind}: {group}"))
        results.append(macro_average(name, by_set))
    if any(result.num_scored < result.num_items for result in by_set):
        results.append(macro_average(name, without_oov))
    return results


def sample_pairs(pairs: PairSet, most: int, seed: int) -> PairSet:
    """Sample `most` pairs of a set (0: all), in order; the sample depends on the seed and the set only."""
    return replace(pairs, pairs=sample_in_order(pairs.pairs, most, f"{pairs.name} {seed}"))


def _sentence(reader: FileReader, number: int, row: Row, column: str) -> str:
    sentence = _text(row, column)
    if not sentence and not any(name in row for name in _COLUMNS[column]):
        raise reader.missing_column(_COLUMNS[column][0], filter(None, row))
    if not sentence:
        raise DataError(
            f"{row_location(reader.file, number)}: the {column} sentence is empty; fill it in or remove the row"
        )
    return sentence


def _text(row: Row, column: str) -> str:
    value = next((row[name] for name in _COLUMNS[column] if name in row), None)
    return value.strip() if isinstance(value, str) else ""
