"""Atomic files and folders: written under a temporary name, flushed to disk and renamed."""

import hashlib
import os
import shutil
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from polyseme.errors import CheckpointError, PolysemeError
from polyseme.system.formatting import format_bytes


def write_file(path: Path, content: bytes | str) -> None:
    """Replace the content of a file; a crash leaves the old file or the new one."""
    with atomic_file(path) as partial:
        partial.write_bytes(content.encode() if isinstance(content, str) else content)


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path in the same folder; it replaces `path` if the block succeeds and is deleted if not."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield partial
        sync_file(partial)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
    sync_folder(path.parent)


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """Yield a temporary folder beside `path`; it becomes `path` if the block succeeds and is deleted if not."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        yield partial
        for file in partial.rglob("*"):
            if file.is_file():
                sync_file(file)
        sync_folder(partial)
        os.rename(partial, path)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    sync_folder(path.parent)


def sync_file(path: Path) -> None:
    """Flush the content of a file to disk."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def sync_folder(path: Path) -> None:
    """Flush the names in a folder to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sha256(path: Path) -> str:
    """The checksum of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_new_folder(folder: Path, *, ignored: Collection[str] = ()) -> Path:
    """Raise an error unless a folder is new or empty, and writable; return it or the parent that exists."""
    if folder.exists() and not folder.is_dir():
        raise CheckpointError(f"{folder} is a file; choose another --out")
    existing = next(path for path in [folder, *folder.absolute().parents] if path.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        raise CheckpointError(f"{folder} cannot be created: {existing} is not writable; choose another --out")
    if folder.is_dir() and any(path.name not in ignored and path.suffix != ".part" for path in folder.iterdir()):
        raise CheckpointError(f"{folder} is not empty; choose another --out")
    return existing


def remove_partial_files(folder: Path) -> None:
    """Delete what a crashed process left in a folder; call this only while no other process writes there."""
    for path in [*folder.glob(".*.part"), *folder.glob(".tmp??????")]:  # ours, and those of the safetensors library
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


def require_space(folder: Path, num_bytes: int, kind: Callable[[str], PolysemeError]) -> None:
    """Raise an error of a kind if the disk has too little free space; a tenth is kept in reserve."""
    free = shutil.disk_usage(folder).free
    if free < num_bytes * 1.1:
        needed = f"{format_bytes(num_bytes)} and {format_bytes(free)} are free"
        raise kind(f"{folder} needs {needed}; make room or choose another disk")
