"""Corpora: restartable streams of documents, dialogues or translations, from files, folders and glob patterns."""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path

import numpy as np

from polyseme.arrays import Doubles
from polyseme.config import did_you_mean
from polyseme.corpora.file_readers import FORMATS, FileReader, detect_compression, detect_format, uncompressed_name
from polyseme.corpora.sampling import draw_sample
from polyseme.corpora.sentence_splitting import split_sentences
from polyseme.errors import ConfigError, DataError
from polyseme.system.io_errors import readable
from polyseme.system.regular_files import check_not_a_device

_PREFIXED = re.compile(r"([a-z]{2,3}(?:-[A-Za-z0-9]{1,8})*)=(.+)", re.DOTALL)


class Corpus:
    """Documents of some files, read from the start at every iteration."""

    split_document = staticmethod(split_sentences)  # into the units that a training sequence may begin with

    def __init__(self, *paths: str | Path, column: str = "text") -> None:
        self.column = column
        self.files = [file for path in paths for file in _find_files(str(path))]
        if not self.files:
            raise DataError("no corpus was named; give a file, a folder or a pattern such as 'text/*.txt'")
        self.languages: list[Corpus] = [self]  # one corpus for each
        self.num_documents = 0  # of the last pass, without empty ones
        self.bytes_read = 0
        self._fingerprint = ""

    @property
    def num_bytes(self) -> int:
        """The size of all files on disk."""
        return sum(file.stat().st_size for file in self.files)

    def fingerprint(self) -> str:
        """A checksum of the contents and of how they are read, independent of file names."""
        if not self._fingerprint:
            digest = hashlib.sha256()
            for file in self.files:
                reading = f"{detect_format(file)} {detect_compression(file)} {self.column}"
                digest.update(f"{reading} {file.stat().st_size}\n".encode())
                with readable(file), file.open("rb") as stream:
                    hashlib.file_digest(stream, lambda: digest)
            self._fingerprint = digest.hexdigest()
        return self._fingerprint

    def __iter__(self) -> Iterator[str]:
        before = self.bytes_read = self.num_documents = 0
        for file in self.files:
            reader = FileReader(file, self.column)
            with readable(file):
                for document in reader.documents():
                    self.bytes_read = before + reader.bytes_read
                    if document and not document.isspace():
                        self.num_documents += 1
                        yield document
            before += file.stat().st_size
            self.bytes_read = before
        if not self.num_documents:
            names = ", ".join(map(str, self.files[:3])) + (", …" if len(self.files) > 3 else "")
            raise DataError(f"{names} holds no text; give files with at least one document")


class DialogueCorpus(Corpus):
    """Dialogues: each line of a document is a turn; in JSON, a document is a list of strings."""

    @staticmethod
    def split_document(document: str) -> list[str]:
        """The non-empty lines of a dialogue."""
        return [line for line in document.splitlines() if line.strip()]

    def fingerprint(self) -> str:
        return hashlib.sha256(f"dialogues {super().fingerprint()}".encode()).hexdigest()


class ParallelCorpus(Corpus):
    """Sentence pairs from tables with two columns, or from plain text whose translations are in `targets`.

    A pair is read as a document of two lines, so that source and target share a vocabulary and a token store.
    """

    def __init__(self, *paths: str | Path, targets: Sequence[str | Path] = (), column: str = "text") -> None:
        super().__init__(*paths, column=column)
        names = tuple(name.strip() for name in column.split(",")) if column != "text" else ("source", "target")
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

    @staticmethod
    def split_document(document: str) -> list[str]:
        """The source and target of a pair."""
        return document.split("\n")

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


class MultilingualCorpus(Corpus):
    """One corpus per language, read one after the other."""

    def __init__(self, corpora: Mapping[str, Corpus]) -> None:
        self.language_names = list(corpora)
        self.files = [file for corpus in corpora.values() for file in corpus.files]
        self.languages = list(corpora.values())

    @property
    def bytes_read(self) -> int:  # type: ignore[override]
        """Bytes read so far, on disk."""
        return sum(corpus.bytes_read for corpus in self.languages)

    def fingerprint(self) -> str:
        return hashlib.sha256(" ".join(corpus.fingerprint() for corpus in self.languages).encode()).hexdigest()

    def __iter__(self) -> Iterator[str]:
        for corpus in self.languages:
            yield from corpus

    def resampled(self, exponent: float, num_bytes: int) -> Iterator[str]:
        """Documents and parts of them, about `num_bytes` at most; documents of small languages are repeated."""
        sizes = [sum(len(document.encode()) for document in corpus) for corpus in self.languages]
        probabilities = sampling_probabilities(sizes, exponent)
        # Enough to use all text, if that fits.
        total = min(num_bytes, max(size / share for size, share in zip(sizes, probabilities, strict=True)))
        for corpus, size, share in zip(self.languages, sizes, probabilities, strict=True):
            copies, rest = divmod(round(total * share), size)
            for _ in range(copies):
                yield from corpus
            if rest:
                yield from draw_sample(corpus, rest)


def split_language_prefix(path: str) -> tuple[str, str]:
    """The language of a path such as `en=PATH` and the path itself; the language is empty without a prefix."""
    match = _PREFIXED.fullmatch(path)
    return (match[1], match[2]) if match and not Path(path).exists() else ("", path)


def group_by_language(paths: Iterable[str]) -> dict[str, list[str]]:
    """The paths of each language."""
    languages: dict[str, list[str]] = {}
    for language, path in map(split_language_prefix, paths):
        languages.setdefault(language, []).append(path)
    if "" in languages and len(languages) > 1:
        path = languages[""][0]
        raise ConfigError(f"{path} has no language; write it as en={path}, or name no language at all")
    return languages


def sampling_probabilities(sizes: Sequence[int], exponent: float) -> Doubles:
    """The probability of each language, proportional to the size of its text raised to an exponent.

    Low-resource languages are upsampled, both for the vocabulary and for training sequences, as in multilingual BERT
    (Devlin et al., 2018, the released models).
    """
    weights = np.power(np.array(sizes, np.float64), exponent)
    return np.asarray(weights / weights.sum())


def _find_files(path: str) -> list[Path]:
    """The files of a path or pattern, in order."""
    place = Path(path).expanduser()
    try:
        with readable(place):
            check_not_a_device(place)
            if place.is_file():
                return [place]
            if place.is_dir():
                return _filter_files(place, place.rglob("*"), "folder")
            if any(mark in path for mark in "*?["):
                root = Path(place.anchor)
                return _filter_files(place, root.glob(str(place.relative_to(root))), "pattern")
            if place.exists():
                return [place]
            names = [entry.name for entry in place.parent.iterdir()] if place.parent.is_dir() else []
    except ValueError as error:
        raise DataError(f"{path!r}: not a path ({error}); give a file, a folder or a pattern") from None
    raise DataError(f"{path}: no such file{did_you_mean(place.name, names) or '; check the path'}")


def _filter_files(place: Path, entries: Iterable[Path], kind: str) -> list[Path]:
    first = len(place.parts) if kind == "folder" else -1  # of the parts of a path that may be hidden
    visible = (entry for entry in entries if not any(part.startswith(".") for part in entry.parts[first:]))
    files = sorted(entry for entry in visible if entry.is_file())
    if kind == "folder":  # the files of a pattern were chosen by the user
        files = [file for file in files if uncompressed_name(file).suffix.lower() in FORMATS]
    if not files:
        suffixes = ", ".join(FORMATS)
        raise DataError(f"{place}: no readable files in this {kind}; give {suffixes} (or .txt.gz, .txt.zst …)")
    return files
