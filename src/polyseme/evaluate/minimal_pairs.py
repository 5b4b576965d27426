"""Whether a model finds likelier what people accept: pairs of sentences as BLiMP has them (Warstadt et al., 2020).

A row has a sentence that is good, one that is bad and differs from it by little, and names: of its set (`UID`, else the
name of the file), of the phenomenon and of the field. Sentences are scored whole; a tie counts half.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from polyseme.errors import DataError
from polyseme.evaluate.figures import Figure, mean_figure
from polyseme.scoring import Score
from polyseme.text.corpus import Corpus, Reader, place_of

# What stands where: in the files of the authors, and in others.
_COLUMNS = {
    "good": ("sentence_good", "good"),
    "bad": ("sentence_bad", "bad"),
    "set": ("UID",),
    "phenomenon": ("linguistics_term", "term", "phenomenon"),
    "field": ("field",),
}
_NEAR = 1e-4  # nats within which two sentences are as likely: what arithmetic may leave of no difference

Row = Mapping[str | None, Any]
Scorer = Callable[[Sequence[str]], list[Score]]


@dataclass(frozen=True, kw_only=True)
class PairSet:
    """Pairs that differ in the same way."""

    name: str
    phenomenon: str
    field: str
    pairs: list[tuple[str, str]]  # the good sentence, and the bad one


@dataclass(frozen=True, kw_only=True)
class _Found:
    """What a set has shown: whether each pair was told apart, and whether all its words are known."""

    of: PairSet
    right: list[float]
    known: list[bool]

    def figure(self) -> Figure:
        found = mean_figure(self.of.name, self.right, measure="accuracy", num_items=len(self.right))
        return replace(found, num_found=sum(self.known))

    def known_figure(self) -> Figure:
        right = [points for points, known in zip(self.right, self.known, strict=True) if known]
        return mean_figure(self.of.name, right, measure="accuracy, known words", num_items=len(self.right))


def read_pairs(path: Path) -> list[PairSet]:
    """The sets of a file, or of all tables of a folder, in order."""
    sets: dict[str, PairSet] = {}
    for file in Corpus(path).files:
        reader = Reader(file)
        for number, row in reader.records():
            good, bad = (_sentence(reader, number, row, what) for what in ("good", "bad"))
            name = _text(row, "set") or file.name.split(".")[0]
            field = _text(row, "field").replace("/", "_")  # its authors write syntax/semantics both ways
            new = PairSet(name=name, phenomenon=_text(row, "phenomenon"), field=field, pairs=[])
            sets.setdefault(name, new).pairs.append((good, bad))
    if not sets:
        raise DataError(f"{path} holds no pairs; give rows with sentence_good and sentence_bad")
    return list(sets.values())


def score_pairs(name: str, sets: Sequence[PairSet], score: Scorer, *, most: int = 0, seed: int = 0) -> list[Figure]:
    """The share of pairs told apart in each set; and the mean of sets by phenomenon, by field and over all."""
    found = [_judge(drawn(one, most, seed), score) for one in sets]
    figures = [one.figure() for one in found]
    if len(found) > 1:
        phenomena, fields = ([getattr(one.of, kind) for one in found] for kind in ("phenomenon", "field"))
        for kind, names in (("phenomenon", phenomena), ("field", fields)):
            for group in sorted({*names} - {""}):
                some = [figure for figure, other in zip(figures, names, strict=False) if other == group]
                figures.append(_mean(name, some, section=f"{kind}: {group}"))
        figures.append(_mean(name, figures[: len(found)]))
    if not all(known for one in found for known in one.known):
        figures.append(_mean(name, [one.known_figure() for one in found]))
    return figures


def drawn(of: PairSet, most: int, seed: int) -> PairSet:
    """So many pairs of a set, in order; the same for the same seed, whatever other sets there are."""
    if not 0 < most < len(of.pairs):
        return of
    chosen = random.Random(f"{of.name} {seed}").sample(range(len(of.pairs)), most)
    return replace(of, pairs=[of.pairs[number] for number in sorted(chosen)])


def _judge(of: PairSet, score: Scorer) -> _Found:
    scores = score([sentence for pair in of.pairs for sentence in pair])  # at once, so that few rows need padding
    pairs = list(zip(scores[::2], scores[1::2], strict=True))
    return _Found(
        of=of,
        right=[_points(bad.nats - good.nats) for good, bad in pairs],
        known=[good.num_unknown + bad.num_unknown == 0 for good, bad in pairs],
    )


def _points(margin: float) -> float:
    return 0.5 if abs(margin) < _NEAR else float(margin > 0)


def _mean(name: str, figures: Sequence[Figure], *, section: str = "") -> Figure:
    """The mean of sets, each of which is a sample of its own: their errors add up, their differences are none."""
    values = [figure.value for figure in figures if figure.value is not None]
    errors = [figure.error for figure in figures if figure.value is not None and figure.error is not None]
    whole = len(errors) == len(values) > 0
    return Figure(
        name=name,
        section=section,
        measure=figures[0].measure,
        value=statistics.fmean(values) if values else None,
        error=math.hypot(*errors) / len(values) if whole else None,
        num_found=sum(figure.num_found for figure in figures),
        num_items=sum(figure.num_items for figure in figures),
    )


def _sentence(reader: Reader, number: int, row: Row, what: str) -> str:
    sentence = _text(row, what)
    if not sentence and not any(name in row for name in _COLUMNS[what]):
        raise reader.no_column(_COLUMNS[what][0], filter(None, row))
    if not sentence:
        raise DataError(f"{place_of(reader.file, number)}: the {what} sentence is no text; write it or drop the row")
    return sentence


def _text(row: Row, what: str) -> str:
    found = next((row[name] for name in _COLUMNS[what] if name in row), None)
    return found.strip() if isinstance(found, str) else ""
