"""Train, dev and test split of a corpus by the hash of each document, so that all its copies fall into one split."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from polyseme.corpora.corpus import Corpus, group_by_language
from polyseme.corpora.utf16_text import Utf16Text
from polyseme.datasets.builtin import is_sample, sample_text
from polyseme.errors import CheckpointError, DataError
from polyseme.system.atomic_io import atomic_file, sha256, write_file
from polyseme.system.io_errors import writable
from polyseme.tokenization.document_batches import count_whitespace_words

SPLITS = ("train", "dev", "test")
TEXT_FOLDER = "text"  # in the folder of a comparison
CHECKSUMS = "checksums.json"

_FRACTION = 0.05  # of dev and of test; larger for the test split of a small corpus
_MAX_FRACTION = 0.1
_MIN_TEST, _MAX_TEST = 200_000, 2_000_000  # characters
_MIN_DOCUMENTS = 20
_MIN_CHARACTERS = 10_000


@dataclass(frozen=True, kw_only=True)
class SplitSize:
    """The size of one split."""

    documents: int
    characters: int
    words: int


@dataclass(frozen=True, kw_only=True)
class SplitCorpus:
    """The files of a split corpus, one for each split and language."""

    folder: Path
    languages: tuple[str, ...]  # ("",) for a corpus in one language

    def path(self, split: str, language: str = "") -> Path:
        """The file of a split."""
        return self.folder / (f"{language}.{split}.jsonl" if language else f"{split}.jsonl")

    def as_options(self, split: str) -> list[str]:
        """The files of a split as values of command-line options: FILE or LANGUAGE=FILE."""
        return [f"{name}={self.path(split, name)}" if name else str(self.path(split)) for name in self.languages]

    def is_intact(self) -> bool:
        """Whether all files are complete and unchanged, by their checksums."""
        try:
            checksums = json.loads((self.folder / CHECKSUMS).read_text(encoding="utf-8"))
            return bool(checksums == self._checksums())
        except (OSError, ValueError, RecursionError):
            return False

    def write_checksums(self) -> None:
        """Mark the files as complete."""
        write_file(self.folder / CHECKSUMS, json.dumps(self._checksums(), indent=2) + "\n")

    def _checksums(self) -> dict[str, str]:
        paths = [self.path(split, language) for language in self.languages for split in SPLITS]
        return {path.name: sha256(path) for path in paths}

    def documents(self, split: str) -> Iterator[tuple[str, str]]:
        """The language and text of each document of a split."""
        for language in self.languages:
            for document in Corpus(self.path(split, language)):
                yield language, document


def open_by_language(corpus: tuple[str, ...], column: str) -> dict[str, Corpus]:
    """Open the corpora of a comparison by language; a built-in sample contributes its train and dev text."""
    corpora = {}
    for language, paths in group_by_language(corpus).items():
        files: list[str | Path] = []
        for path in paths:
            files += chain(*sample_text(path)) if is_sample(path) else [path]
        corpora[language] = Corpus(*files, column=column)
    return corpora


def hash_fraction(document: str) -> float:
    """The hash of a text as a number in [0, 1)."""
    digest = hashlib.blake2b(document.strip().encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64


def split_fractions(num_characters: int, *, dev_characters: int) -> tuple[float, float]:
    """The fractions of dev and test for a corpus of this size."""
    test = min(_MAX_FRACTION, max(_FRACTION, _MIN_TEST / num_characters), _MAX_TEST / num_characters)
    return min(_FRACTION, dev_characters / num_characters), test


def split_text(texts: dict[str, Corpus], folder: Path, *, dev_characters: int) -> SplitCorpus:
    """Write the splits of each language to `folder`, unless they are there and unchanged."""
    files = SplitCorpus(folder=folder, languages=tuple(texts))
    if files.is_intact():
        return files
    with writable(folder, "free some space, or choose another folder", CheckpointError):
        folder.mkdir(parents=True, exist_ok=True)
        for language, corpus in texts.items():
            _split_corpus(corpus, language, files, dev_characters=max(1, dev_characters // len(texts)))
        files.write_checksums()
    return files


def _split_corpus(corpus: Corpus, language: str, files: SplitCorpus, *, dev_characters: int) -> None:
    num_characters = require_enough_text(language, corpus)
    dev, test = split_fractions(num_characters, dev_characters=dev_characters)
    held_out: dict[str, list[str]] = {"dev": [], "test": []}
    with atomic_file(files.path("train", language)) as beside, beside.open("w", encoding="utf-8") as file:
        num_train = 0
        for document in corpus:
            fraction = hash_fraction(document)
            if fraction < test + dev:
                held_out["test" if fraction < test else "dev"].append(document)
            else:
                num_train += 1
                file.write(_json_line(document))
        sizes = {"train": num_train, **{split: len(documents) for split, documents in held_out.items()}}
        for split, number in sizes.items():
            if number < (1 if split == "dev" else 2):
                raise DataError(
                    f"{_prefix(language)}only {number} of {corpus.num_documents:,} documents fell into "
                    f"{split}; give more text, or put blank lines between its documents"
                )
    for split, documents in held_out.items():
        write_file(files.path(split, language), "".join(map(_json_line, documents)))


def require_enough_text(language: str, corpus: Corpus) -> int:
    """The number of characters of a corpus, if there are enough to split it."""
    num_documents = num_characters = 0
    for document in corpus:
        num_documents += 1
        num_characters += len(document)
    if num_documents < _MIN_DOCUMENTS:
        raise DataError(
            f"{_prefix(language)}the corpus has {num_documents} documents, too few for train, dev and test; give at "
            f"least {_MIN_DOCUMENTS}, separated by blank lines or one per row"
        )
    if num_characters < _MIN_CHARACTERS:
        raise DataError(
            f"{_prefix(language)}the corpus has {num_characters:,} characters, too few for train, dev and test; give "
            f"at least {_MIN_CHARACTERS:,}"
        )
    return num_characters


def count_splits(files: SplitCorpus) -> dict[str, SplitSize]:
    """The size of each split."""
    sizes = {}
    for split in SPLITS:
        documents = characters = words = 0
        for _, document in files.documents(split):
            documents += 1
            characters += len(document)
            words += count_whitespace_words(Utf16Text.of([document]))
        sizes[split] = SplitSize(documents=documents, characters=characters, words=words)
    return sizes


def _prefix(language: str) -> str:
    return f"{language}: " if language else ""


def _json_line(document: str) -> str:
    return json.dumps({"text": document}, ensure_ascii=False) + "\n"
