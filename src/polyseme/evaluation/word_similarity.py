"""Word similarity and analogy test sets.

A set is a file. A similarity set has two words and a score per line, separated by tabs; `: name` starts a section of
analogies, which have four words per line.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from polyseme.errors import DataError
from polyseme.evaluation.results import MetricResult, mean_result
from polyseme.inference.embedding_space import AnalogyMethod, EmbeddingSpace
from polyseme.system.io_errors import readable
from polyseme.tasks.metrics import jackknife_spearman, spearman

_SUFFIXES = (".tsv", ".txt")
_CHUNK = 10_000_000  # scores in memory at the same time


@dataclass(frozen=True, kw_only=True)
class WordSet:
    """Words of each line by section; similarity sets have one section, and scores."""

    name: str
    sections: dict[str, list[list[str]]]
    scores: list[float]


def read_sets(path: Path) -> list[WordSet]:
    """Read the set of a file, or the sets of all .tsv and .txt files of a folder."""
    with readable(path):
        if not path.is_dir():
            return [_read_set(path)]
        files = sorted(file for file in path.iterdir() if file.suffix in _SUFFIXES and file.is_file())
    if not files:
        raise DataError(f"{path} has no word sets; give a folder with .tsv or .txt files")
    return [_read_set(file) for file in files]


def _read_set(path: Path) -> WordSet:
    with readable(path):
        lines = path.read_bytes().decode("utf-8", "replace").removeprefix("\ufeff").split("\n")
    sections: dict[str, list[list[str]]] = {}
    scores: list[float] = []
    section: list[list[str]] | None = None
    for number, line in enumerate(lines, 1):
        fields = line.split()
        if not fields or fields[0].startswith("#"):
            continue
        if fields[0].startswith(":") and not scores:
            section = sections.setdefault(line.strip(": \t\r"), [])
        elif section is not None:
            if len(fields) != 4:
                raise DataError(f"{path}, line {number}: an analogy has four words; correct or remove the line")
            section.append(fields)
        else:
            fields = [field.strip() for field in line.split("\t")] if "\t" in line else fields
            try:
                score = float(fields[2])
                if not math.isfinite(score):
                    raise ValueError
            except (ValueError, IndexError):
                if number == 1 and len(fields) > 2:
                    continue  # a header
                raise DataError(f"{path}, line {number}: a pair has two words and a score, separated by tabs") from None
            sections.setdefault("", []).append(fields[:2])
            scores.append(score)
    if not any(sections.values()):
        raise DataError(f"{path} has no words; give scored word pairs, or analogies after a line ': name'")
    return WordSet(name=path.stem, sections=sections, scores=scores)


def score_words(
    space: EmbeddingSpace, sets: Sequence[WordSet], *, method: AnalogyMethod = "3cosadd"
) -> list[MetricResult]:
    """Spearman correlation on similarity sets; accuracy on each section of analogies and on all."""
    return [
        score
        for words in sets
        for score in ([_score_pairs(space, words)] if words.scores else _score_analogies(space, words, method))
    ]


def _score_pairs(space: EmbeddingSpace, words: WordSet) -> MetricResult:
    space = space.with_oov_words(word for pair in words.sections[""] for word in pair)
    ids, known = _known(space, words.sections[""])
    gold, similarities = np.array(words.scores)[known], space.similarities(ids).cpu()
    return MetricResult(
        name=words.name,
        metric="spearman",
        value=spearman(gold, similarities),
        num_scored=len(ids),
        num_items=len(words.scores),
        outcomes=_align(jackknife_spearman(gold, similarities), known, len(words.scores)),
    )


def _score_analogies(space: EmbeddingSpace, words: WordSet, method: AnalogyMethod) -> Iterator[MetricResult]:
    total: list[float] = []
    outcomes: list[float | None] = []
    for section, items in words.sections.items():
        ids, known = _known(space, items)
        chunk = max(1, _CHUNK // len(space.vectors))
        answers = [
            space.answers(part[:, :3], method=method).argmax(1).cpu() == part[:, 3] for part in torch.split(ids, chunk)
        ]
        correct = torch.cat(answers).double().tolist()
        total += correct
        outcomes += _align(correct, known, len(items))
        yield mean_result(words.name, correct, metric="accuracy", section=section, num_items=len(items))
    yield replace(mean_result(words.name, total, metric="accuracy", num_items=len(outcomes)), outcomes=outcomes)


def _align(outcomes: Sequence[float], known: Sequence[int], number: int) -> list[float | None]:
    """The outcomes of all items, with None for those with OOV words."""
    of_items = dict(zip(known, outcomes, strict=True)) if outcomes else {}
    return [of_items.get(item) for item in range(number)]


def _known(space: EmbeddingSpace, items: Sequence[Sequence[str]]) -> tuple[torch.Tensor, list[int]]:
    """Token ids of the items without OOV words, (N, words), and the indices of these items."""
    ids = {word: space.find(word) for word in {word for item in items for word in item}}
    known = [number for number, item in enumerate(items) if all(ids[word] is not None for word in item)]
    rows = [[ids[word] for word in items[number]] for number in known]
    return torch.tensor(rows, dtype=torch.long).view(len(rows), len(items[0]) if items else 4), known
