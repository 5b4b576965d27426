"""Corpora: restartable streams of documents, or of dialogues, from files, folders and glob patterns."""

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from polyseme.config import did_you_mean
from polyseme.corpora.file_readers import FORMATS, FileReader, detect_compression, detect_format, uncompressed_name
from polyseme.corpora.sentence_splitting import split_sentences
from polyseme.errors import DataError
from polyseme.system.io_errors import readable
from polyseme.system.regular_files import check_not_a_device


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


def split_turns(document: str) -> list[str]:
    """The non-empty lines of a dialogue."""
    return [line for line in document.splitlines() if line.strip()]


class DialogueCorpus(Corpus):
    """Dialogues: each line of a document is a turn; in JSON, a document is a list of strings."""

    split_document = staticmethod(split_turns)

    def fingerprint(self) -> str:
        return hashlib.sha256(f"dialogues {super().fingerprint()}".encode()).hexdigest()


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
    def hidden(entry: Path) -> bool:
        parts = entry.relative_to(place).parts if kind == "folder" else (entry.name,)
        return any(part.startswith(".") for part in parts)

    files = sorted(entry for entry in entries if not hidden(entry) and entry.is_file())
    if kind == "folder":  # the files of a pattern were chosen by the user
        files = [file for file in files if uncompressed_name(file).suffix.lower() in FORMATS]
    if not files:
        suffixes = ", ".join(FORMATS)
        raise DataError(f"{place}: no readable files in this {kind}; give {suffixes} (or .txt.gz, .txt.zst …)")
    return files
