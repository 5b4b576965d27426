"""Parallel corpora: sentences and their translations, in two columns of a table or two aligned files.

A pair is read as a document of two lines, so that source and target share a vocabulary and a token store.
"""

import hashlib
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path

from polyseme.corpora.corpus import Corpus
from polyseme.corpora.file_readers import FileReader, detect_format
from polyseme.errors import ConfigError, DataError

COLUMNS = ("source", "target")


def split_pair(document: str) -> list[str]:
    """The source and target of a pair."""
    return document.split("\n")


class ParallelCorpus(Corpus):
    """Sentence pairs from tables with two columns, or from plain text whose translations are in `targets`."""

    split_document = staticmethod(split_pair)

    def __init__(self, *paths: str | Path, targets: Sequence[str | Path] = (), column: str = "text") -> None:
        super().__init__(*paths, column=column)
        names = tuple(name.strip() for name in column.split(",")) if column != "text" else COLUMNS
        if len(names) != 2:
            raise ConfigError(f"data.column: a parallel corpus has two columns; name both, as in en,de (not {column})")
        self.columns = names
        translations = Corpus(*targets).files if targets else self.files
        if len(translations) != len(self.files):
            raise DataError(
                f"there are {len(self.files)} source files and {len(translations)} target files; "
                "give one target file for each source file"
            )
        self.file_pairs = list(zip(self.files, translations, strict=True))
        if targets:
            self.files = [*self.files, *translations]
        for source, target in self.file_pairs:
            if source == target and detect_format(source) == "txt":
                raise DataError(
                    f"{source} is plain text without translations; pass an aligned file with --target, "
                    f"or a table with the columns {' and '.join(self.columns)}"
                )

    def fingerprint(self) -> str:
        key = f"parallel {len(self.file_pairs)} {' '.join(self.columns)} {super().fingerprint()}"
        return hashlib.sha256(key.encode()).hexdigest()

    def __iter__(self) -> Iterator[str]:
        return ("\n".join(pair) for pair in self.sentence_pairs())

    def sentence_pairs(self) -> Iterator[tuple[str, str]]:
        """Source and target, each on one line; pairs with an empty sentence are skipped."""
        before = self.bytes_read = self.num_documents = 0
        for files in self.file_pairs:
            readers = [FileReader(file, column) for file, column in zip(files, self.columns, strict=True)]
            for number, row in enumerate(zip_longest(*(reader.texts() for reader in readers))):
                if None in row:
                    longer, shorter = files if row[1] is None else files[::-1]
                    raise DataError(
                        f"{longer} has more lines than {shorter}, which has {number:,}; write one translation per line"
                    )
                self.bytes_read = before + sum({reader.file: reader.bytes_read for reader in readers}.values())
                source, target = (" ".join(text.split()) for text in row)
                if source and target:
                    self.num_documents += 1
                    yield source, target
            before += sum(file.stat().st_size for file in {*files})
            self.bytes_read = before
        if not self.num_documents:
            raise DataError(f"{self.files[0]} holds no pairs; give text in both columns")
