"""Parallel text: sentences beside their translations, in two columns of a table or in two files line by line.

A pair is read as a document of two lines, so that both sides share one vocabulary and one store.
"""

import hashlib
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path

import numpy as np

from polyseme.errors import ConfigError, DataError
from polyseme.text.corpus import Corpus, Reader, Tally, format_of
from polyseme.text.store import Store
from polyseme.text.utf16 import Numbers

COLUMNS = ("source", "target")


def split_pair(document: str) -> list[str]:
    """The two sides of a pair."""
    return document.split("\n")


class Parallel(Corpus):
    """Pairs from tables with a column for each side, or from plain text whose translations are in `targets`."""

    split = staticmethod(split_pair)

    def __init__(self, *paths: str | Path, targets: Sequence[str | Path] = (), column: str = "text") -> None:
        super().__init__(*paths, column=column)
        names = tuple(name.strip() for name in column.split(",")) if column != "text" else COLUMNS
        if len(names) != 2:
            raise ConfigError(
                f"data.column: pairs have two columns; say one for each side, such as en,de (not {column})"
            )
        self.columns = names
        self.pairs = [(file, file) for file in self.files]
        if targets:
            translations = Corpus(*targets).files
            if len(translations) != len(self.files):
                raise DataError(
                    f"there are {len(self.files)} files of text and {len(translations)} of translations; "
                    "give one translation for each"
                )
            self.pairs = list(zip(self.files, translations, strict=True))
            self.files = [*self.files, *translations]
        for source, target in self.pairs:
            if source == target and format_of(source) == "txt":
                raise DataError(
                    f"{source} is plain text without translations; give these by --target, line by line, "
                    f"or a table with the columns {' and '.join(self.columns)}"
                )

    def fingerprint(self) -> str:
        key = f"parallel {len(self.pairs)} {' '.join(self.columns)} {super().fingerprint()}"
        return hashlib.sha256(key.encode()).hexdigest()

    def __iter__(self) -> Iterator[str]:
        return ("\n".join(pair) for pair in self.rows())

    def rows(self) -> Iterator[tuple[str, str]]:
        """The pairs of which neither side is empty, each side on a line."""
        tally = self.tally = Tally()
        before = self.bytes_read = 0
        for files in self.pairs:
            readers = [Reader(file, column, tally) for file, column in zip(files, self.columns, strict=True)]
            for number, row in enumerate(zip_longest(*(reader.rows() for reader in readers))):
                if None in row:
                    longer, shorter = files if row[1] is None else files[::-1]
                    raise DataError(
                        f"{longer} has more lines than {shorter}, which has {number:,}; give one translation a line"
                    )
                self.bytes_read = before + sum({reader.file: reader.position for reader in readers}.values())
                source, target = (" ".join(side.split()) for side in row)
                if source and target:
                    tally.documents += 1
                    tally.characters += len(source) + len(target)
                    yield source, target
                else:
                    tally.empty += 1
            before += sum(file.stat().st_size for file in {*files})
            self.bytes_read = before
        if tally.documents == 0:
            raise DataError(f"{self.files[0]} holds no pairs; give text on both sides")


def find_pairs(store: Store) -> Numbers:
    """The first sentence of each pair of a store, which its translation follows; the rest gave no tokens."""
    first, end = store.documents[:-1], store.documents[1:]
    return np.asarray(first[end - first == 2])
