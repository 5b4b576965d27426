"""The manifest of a model or run directory: size and checksum of each file that its answers depend on.

Every command that opens a directory verifies it here. A directory without a manifest, such as a checkpoint of
transformers, is not verified.
"""

import hashlib
import json
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Annotated

from pydantic import ConfigDict, Field

from polyseme.config import Config
from polyseme.errors import CheckpointError
from polyseme.system.atomic_io import sha256, write_file
from polyseme.system.checksums import has_checksum
from polyseme.system.formatting import format_bytes
from polyseme.system.io_errors import readable
from polyseme.system.regular_files import open_regular
from polyseme.training.storage.history import HISTORY
from polyseme.training.storage.model_dir import read_record

MANIFEST = "manifest.json"

FileName = Annotated[str, Field(pattern=r"^[\w-][\w.-]*$", max_length=255)]  # of a file in the same directory
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class FileRecord(Config):
    """Size and checksum of a file."""

    model_config = ConfigDict(strict=True)

    bytes: int = Field(ge=0)
    sha256: Sha256

    @classmethod
    def of(cls, path: Path) -> "FileRecord":
        """Measure a file."""
        return cls(bytes=path.stat().st_size, sha256=sha256(path))

    def is_start_of(self, path: Path) -> bool:
        """Whether a file that has been appended to still begins as it did."""
        try:
            with open_regular(path) as file:
                content = file.read(self.bytes)
        except OSError:
            return False
        return hashlib.sha256(content).hexdigest() == self.sha256


class Manifest(Config):
    """The files of a directory by name."""

    model_config = ConfigDict(strict=True)

    files: dict[FileName, FileRecord]
    rewritten: dict[FileName, FileRecord] = Field(default_factory=dict)  # new versions, while they replace the old ones


def write_manifest(folder: Path, names: Iterable[str]) -> None:
    """Record those of some files that exist."""
    _write(folder, Manifest(files={name: FileRecord.of(folder / name) for name in names if (folder / name).exists()}))


def rewrite_file(folder: Path, name: str, content: str) -> None:
    """Replace a file and its record; the directory is valid wherever a crash interrupts this."""
    manifest, data = read_manifest(folder), content.encode()
    new = {name: FileRecord(bytes=len(data), sha256=hashlib.sha256(data).hexdigest())}
    if manifest:
        old = {name: FileRecord.of(folder / name)}  # which a crash may have left out of the manifest
        _write(folder, Manifest(files=manifest.files | old, rewritten=new))
    write_file(folder / name, data)
    if manifest:
        _write(folder, Manifest(files=manifest.files | new))


def remove_record(folder: Path, name: str) -> None:
    """Remove the record of a file that a run appends to."""
    manifest = read_manifest(folder)
    if manifest and name in manifest.files:
        files = {other: record for other, record in manifest.files.items() if other != name}
        _write(folder, Manifest(files=files, rewritten=manifest.rewritten))


def read_manifest(folder: Path) -> Manifest | None:
    """Read the manifest of a directory; None without one."""
    return read_record(Manifest, folder / MANIFEST) if (folder / MANIFEST).exists() else None


def is_finished(folder: Path) -> bool:
    """Whether the run in a directory has ended: while it continues, the manifest does not cover its history."""
    manifest = read_manifest(folder)
    return manifest is None or HISTORY in manifest.files


def find_changes(folder: Path, *, hashes: bool = True) -> dict[str, str]:
    """How files differ from the manifest, by name; without `hashes`, only their sizes are compared."""
    manifest = read_manifest(folder)
    if manifest is None:
        return {}
    found = {name: _difference(folder / name, record, hashes) for name, record in manifest.files.items()}
    for name, record in manifest.rewritten.items():
        if found.get(name) and not _difference(folder / name, record, hashes):
            del found[name]
    return {name: difference for name, difference in found.items() if difference}


def is_unchanged(folder: Path) -> bool:
    """Whether the files of a directory are as they were written; the history does not count."""
    return not find_changes(folder).keys() - {HISTORY}


def verify_directory(
    folder: Path,
    *,
    hashes: bool = True,
    names: Collection[str] | None = None,
    remedy: str = f"restore it, write it again with --resume, or delete {MANIFEST} to use the directory as it is",
) -> None:
    """Raise an error if a file differs from the manifest.

    Args:
        folder: The directory of a model or run.
        hashes: Whether to compare checksums, not only sizes.
        names: The files to compare; by default all but the history, which no answer depends on.
        remedy: What the error message advises.
    """
    for name, difference in find_changes(folder, hashes=hashes).items():
        if name in names if names is not None else name != HISTORY:
            raise CheckpointError(f"{folder / name} {difference}; {remedy}")


def _write(folder: Path, manifest: Manifest) -> None:
    write_file(folder / MANIFEST, json.dumps(manifest.model_dump(), indent=2) + "\n")


def _difference(path: Path, record: FileRecord, hashes: bool) -> str:
    if not path.is_file():
        return "has been deleted since it was written"
    with readable(path, kind=CheckpointError):
        size = path.stat().st_size
        if size < record.bytes:
            return f"is truncated ({format_bytes(size)} of {format_bytes(record.bytes)})"
        if size > record.bytes or (hashes and not has_checksum(path, record.sha256)):
            return "has changed since it was written"
    return ""
