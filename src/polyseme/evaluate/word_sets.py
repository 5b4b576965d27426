"""How far vectors agree with people about words: which pairs are alike, and how analogies go on.

A set is a file. Pairs stand one a line as two words and a score, between tabs; `: name` begins a section of analogies,
which stand one a line as four words.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from polyseme.errors import DataError
from polyseme.evaluate.figures import Figure, mean_figure
from polyseme.inside.neighbours import Method, Space
from polyseme.tasks.metrics import spearman

_SUFFIXES = (".tsv", ".txt")
_CHUNK = 10_000_000  # scores that are looked at together


@dataclass(frozen=True, kw_only=True)
class WordSet:
    """Lines of words by section; pairs have one section, and scores."""

    name: str
    sections: dict[str, list[list[str]]]
    scores: list[float]


def read_sets(path: Path) -> list[WordSet]:
    """The sets of a file, or of all .tsv and .txt files of a folder."""
    try:
        if not path.is_dir():
            return [_read_set(path)]
        files = sorted(file for file in path.iterdir() if file.suffix in _SUFFIXES and file.is_file())
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror}); check the path") from None
    if not files:
        raise DataError(f"{path} holds no sets of words; give a folder with .tsv or .txt files")
    return [_read_set(file) for file in files]


def _read_set(path: Path) -> WordSet:
    try:
        lines = path.read_bytes().decode("utf-8", "replace").removeprefix("\ufeff").split("\n")
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror}); check the path") from None
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
                raise DataError(f"{path}, line {number}: an analogy is four words; mend it or leave it out")
            section.append(fields)
        else:
            fields = [field.strip() for field in line.split("\t")] if "\t" in line else fields
            try:
                score = float(fields[2])
                if not math.isfinite(score):
                    raise ValueError
            except (ValueError, IndexError):
                if number == 1 and len(fields) > 2:
                    continue  # the names of the columns
                raise DataError(f"{path}, line {number}: a pair is two words and a score, between tabs") from None
            sections.setdefault("", []).append(fields[:2])
            scores.append(score)
    if not any(sections.values()):
        raise DataError(f"{path} holds no words; give pairs with a score, or analogies under ': name'")
    return WordSet(name=path.stem, sections=sections, scores=scores)


def score_words(space: Space, sets: Sequence[WordSet], *, method: Method = "3cosadd") -> list[Figure]:
    """Spearman's correlation of sets of pairs; the share of right answers of each section of analogies and of all."""
    return [
        score
        for words in sets
        for score in ([_score_pairs(space, words)] if words.scores else _score_analogies(space, words, method))
    ]


def _score_pairs(space: Space, words: WordSet) -> Figure:
    ids, known = _known(space, words.sections[""])
    value = spearman(np.array(words.scores)[known], space.similarities(ids).cpu())
    return Figure(name=words.name, measure="spearman", value=value, num_found=len(ids), num_items=len(words.scores))


def _score_analogies(space: Space, words: WordSet, method: Method) -> Iterator[Figure]:
    every: list[float] = []
    for section, items in words.sections.items():
        ids, _ = _known(space, items)
        chunk = max(1, _CHUNK // len(space.vectors))
        answers = [
            space.answers(part[:, :3], method=method).argmax(1).cpu() == part[:, 3] for part in torch.split(ids, chunk)
        ]
        right = torch.cat(answers).double().tolist()
        every += right
        yield mean_figure(words.name, right, measure="accuracy", section=section, num_items=len(items))
    yield mean_figure(words.name, every, measure="accuracy", num_items=sum(map(len, words.sections.values())))


def _known(space: Space, items: Sequence[Sequence[str]]) -> tuple[torch.Tensor, list[int]]:
    """The ids of the items all of whose words are known, (N, words), and which they are."""
    ids = {word: space.find(word) for word in {word for item in items for word in item}}
    known = [number for number, item in enumerate(items) if all(ids[word] is not None for word in item)]
    rows = [[ids[word] for word in items[number]] for number in known]
    return torch.tensor(rows, dtype=torch.long).view(len(rows), len(items[0]) if items else 4), known
