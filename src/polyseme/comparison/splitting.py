"""A corpus is divided once, document by document, into text to learn from, to look at on the way and to measure on.

The hash of its text says where a document belongs, so that copies of it never stand on two sides.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from polyseme.errors import DataError
from polyseme.files import whole_file
from polyseme.text.corpus import Corpus
from polyseme.text.languages import by_language
from polyseme.text.passages import count_words
from polyseme.text.samples import SAMPLES, sample_text
from polyseme.text.utf16 import Text

SIDES = ("train", "dev", "test")

_SHARE = 0.05  # of dev and of test, which a small corpus raises for test
_MOST_SHARE = 0.1
_ENOUGH_TEST, _MOST_TEST = 200_000, 2_000_000  # characters
_FEWEST = 20  # documents of a corpus
_FEWEST_CHARACTERS = 10_000


TEXT = "text"
"""The folder of the sides, in that of a comparison."""


@dataclass(frozen=True, kw_only=True)
class Side:
    """What a part of the corpus has."""

    documents: int
    characters: int
    words: int


@dataclass(frozen=True, kw_only=True)
class Split:
    """The files of a comparison's text, by language where it has several."""

    folder: Path
    languages: tuple[str, ...]  # one that has no name where there is just one

    def path(self, side: str, language: str = "") -> Path:
        """The file of a side."""
        return self.folder / (f"{language}.{side}.jsonl" if language else f"{side}.jsonl")

    def named(self, side: str) -> list[str]:
        """The files of a side as options name them."""
        return [f"{name}={self.path(side, name)}" if name else str(self.path(side)) for name in self.languages]

    def documents(self, side: str) -> Iterator[tuple[str, str]]:
        """The language and text of each document of a side."""
        for language in self.languages:
            for document in Corpus(self.path(side, language)):
                yield language, document


def open_text(corpus: tuple[str, ...], column: str) -> dict[str, Corpus]:
    """The text that is compared on, by language; a sample brings all of its text."""
    found = {}
    for language, paths in by_language(corpus).items():
        files: list[str | Path] = []
        for path in paths:
            if path in SAMPLES and not Path(path).exists():
                text = sample_text(path)
                files += [*text.train, *text.dev]
            else:
                files.append(path)
        found[language] = Corpus(*files, column=column)
    return found


def side_of(document: str, *, dev: float, test: float) -> str:
    """Where a document belongs, given the shares of what is not learnt from."""
    place = position(document)
    return "test" if place < test else "dev" if place < test + dev else "train"


def position(document: str) -> float:
    """A number from 0 to 1 that the text alone decides."""
    digest = hashlib.blake2b(document.strip().encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64


def shares(num_characters: int, *, dev_characters: int) -> tuple[float, float]:
    """The shares of dev and test of so much text."""
    test = min(_MOST_SHARE, max(_SHARE, _ENOUGH_TEST / num_characters), _MOST_TEST / num_characters)
    return min(_SHARE, dev_characters / num_characters), test


def split_text(texts: dict[str, Corpus], folder: Path, *, dev_characters: int) -> Split:
    """Write the sides of each language; what is there already stays."""
    split = Split(folder=folder, languages=tuple(texts))
    folder.mkdir(parents=True, exist_ok=True)
    for language, corpus in texts.items():
        if split.path("train", language).exists():  # it is written last
            continue
        num_characters = check_size(language, corpus)
        dev, test = shares(num_characters, dev_characters=max(1, dev_characters // len(texts)))
        sides: dict[str, list[str]] = {"dev": [], "test": []}
        with whole_file(split.path("train", language)) as beside, beside.open("w", encoding="utf-8") as file:
            num_train = 0
            for document in corpus:
                side = side_of(document, dev=dev, test=test)
                if side == "train":
                    num_train += 1
                    file.write(_line(document))
                else:
                    sides[side].append(document)
            name = f"{language}: " if language else ""
            for side, number in [("train", num_train), *((side, len(found)) for side, found in sides.items())]:
                if number < (1 if side == "dev" else 2):
                    raise DataError(
                        f"{name}of {corpus.tally.documents:,} documents {number} fell to {side}, too few to measure "
                        "on; give more text, or put blank lines between its documents"
                    )
            for side, documents in sides.items():
                with whole_file(split.path(side, language)) as part:
                    part.write_text("".join(map(_line, documents)), encoding="utf-8")
    return split


def check_size(language: str, corpus: Corpus) -> int:
    """The characters of a corpus, which have to be enough to divide."""
    num_documents = num_characters = 0
    for document in corpus:
        num_documents += 1
        num_characters += len(document)
    name = f"{language}: " if language else ""
    if num_documents < _FEWEST:
        raise DataError(
            f"{name}the corpus has {num_documents} documents, too few to divide into train, dev and test; give at "
            f"least {_FEWEST}, with blank lines between them, or one a row"
        )
    if num_characters < _FEWEST_CHARACTERS:
        raise DataError(
            f"{name}the corpus has {num_characters:,} characters, too few to learn from and to measure on; give at "
            f"least {_FEWEST_CHARACTERS:,}"
        )
    return num_characters


def count_sides(split: Split) -> dict[str, Side]:
    """What the sides have."""
    found = {}
    for side in SIDES:
        documents = characters = words = 0
        for _, document in split.documents(side):
            documents += 1
            characters += len(document)
            words += count_words(Text.of([document]))
        found[side] = Side(documents=documents, characters=characters, words=words)
    return found


def _line(document: str) -> str:
    return json.dumps({"text": document}, ensure_ascii=False) + "\n"
