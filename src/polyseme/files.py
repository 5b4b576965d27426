"""Files that are either whole or not there: written beside, flushed, renamed."""

import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from polyseme.errors import PolysemeError

_CHUNK = 1 << 20


def write_file(path: Path, content: bytes | str) -> None:
    """Replace `path` by `content`; a crash leaves the old file or the new one."""
    with whole_file(path) as beside:
        beside.write_bytes(content.encode() if isinstance(content, str) else content)


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yield a temporary sibling to write; it replaces `path` when the block ends well, and vanishes otherwise."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield beside
        sync_file(beside)
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)
    sync_folder(path.parent)


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """Yield a temporary sibling to fill; it becomes `path` when the block ends well, and vanishes otherwise."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir(parents=True)
    try:
        yield beside
        for file in beside.rglob("*"):
            if file.is_file():
                sync_file(file)
        sync_folder(beside)
        os.rename(beside, path)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    sync_folder(path.parent)


def sync_file(path: Path) -> None:
    """Make the content of a file survive a power cut."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def sync_folder(path: Path) -> None:
    """Make the names inside a folder survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sha256(path: Path) -> str:
    """The checksum of a file's content."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def remove_leavings(folder: Path) -> None:
    """Delete what a crashed writer left in `folder`; call it only while nobody else writes there."""
    for path in [*folder.glob(".*.part"), *folder.glob(".tmp??????")]:  # ours, and those of the safetensors library
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


def require_space(folder: Path, num_bytes: int, refuse: Callable[[str], PolysemeError]) -> None:
    """Refuse before writing what the disk cannot hold; a tenth is kept in reserve."""
    free = shutil.disk_usage(folder).free
    if free < num_bytes * 1.1:
        raise refuse(
            f"{folder}: {size(num_bytes)} are needed and {size(free)} are free; make room or choose another disk"
        )


def cache_folder() -> Path:
    """Where prepared text and samples are kept between runs: $POLYSEME_CACHE, or the user's cache folder."""
    chosen = os.environ.get("POLYSEME_CACHE")
    if chosen:
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "polyseme"


def size(num_bytes: float) -> str:
    """A number of bytes as people say it: 41 MB."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if num_bytes < 1000:
            return f"{num_bytes:.0f} {unit}" if num_bytes >= 10 or unit == "bytes" else f"{num_bytes:.1f} {unit}"
        num_bytes /= 1000
    return f"{num_bytes:,.1f} TB"
