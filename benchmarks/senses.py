"""Whether the vector of a word tells its sense: that of the nearest labelled occurrence of the word, layer by layer.

Figures are balanced accuracies, the mean of the recalls of all senses, so that always saying the most frequent one
earns no more than chance. A vector that is the same in every context, as in layer 0 and in static vectors, earns that.

    python benchmarks/senses.py --data FOLDER --models RUN [RUN …] [--words bank apple] [--most 2000] [--json out.json]

The folder has WORD.train.tsv and WORD.test.tsv with the columns text, index (of the word, among those between spaces)
and sense.
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench import Row, arguments, report
from polyseme import Pretrained, load

Vectors = NDArray[np.float32]

_AT_ONCE = 200  # texts whose layers are held together


def read_occurrences(path: Path, most: int) -> tuple[list[str], list[tuple[int, int]], list[str]]:
    """Texts, where the word stands in each, and its sense."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))[:most]
    spans = []
    for row in rows:
        words = row["text"].split(" ")
        start = sum(len(word) + 1 for word in words[: int(row["index"])])
        spans.append((start, start + len(words[int(row["index"])])))
    return [row["text"] for row in rows], spans, [row["sense"] for row in rows]


def word_vectors(model: Pretrained, texts: list[str], spans: list[tuple[int, int]]) -> list[Vectors]:
    """The mean of the tokens of each word, by layer; unit length."""
    layers: list[list[Vectors]] = []
    for place in range(0, len(texts), _AT_ONCE):
        for encoding, (start, end) in zip(model.encode(texts[place : place + _AT_ONCE]), spans[place:], strict=False):
            inside = [number for number, (left, right) in enumerate(encoding.offsets) if left < end and right > start]
            layers.append([layer[inside].mean(0) for layer in encoding.layers])
    stacked = [np.stack(layer) for layer in zip(*layers, strict=True)]
    return [layer / np.maximum(np.linalg.norm(layer, axis=1, keepdims=True), 1e-12) for layer in stacked]


def balanced_accuracy(found: NDArray[np.str_], senses: NDArray[np.str_]) -> float:
    """The mean over senses of how many of its occurrences were found."""
    return float(np.mean([np.mean(found[senses == sense] == sense) for sense in np.unique(senses)]))


def main() -> None:
    parser, read = arguments(__doc__, rounds=1, long_rounds=1)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--models", nargs="+", required=True)
    parser.add_argument("--words", nargs="+", default=["bank", "apple", "spring", "java", "seal"])
    parser.add_argument("--most", type=int, default=2000, help="occurrences of a word on either side")
    given = read()
    rows: list[Row] = []
    for name in given.models:
        model = load(name)
        scores: dict[str, list[float]] = {}
        for word in given.words:
            sides = [read_occurrences(given.data / f"{word}.{side}.tsv", given.most) for side in ("train", "test")]
            known, asked = (word_vectors(model, texts, spans) for texts, spans, _ in sides)
            senses, expected = (np.array(side[2]) for side in sides)
            scores[word] = [
                balanced_accuracy(senses[(one @ other.T).argmax(1)], expected)
                for one, other in zip(asked, known, strict=True)
            ]
        rows += [
            {"model": Path(name).name, "layer": layer, **{word: scores[word][layer] for word in given.words}}
            for layer in range(len(model.encoder.widths))
        ]
    report(rows, given.json)


if __name__ == "__main__":
    main()
