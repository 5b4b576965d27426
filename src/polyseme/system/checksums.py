"""Checksums of files; those of large files are cached until the file changes."""

import hashlib
import json
import time
from contextlib import suppress
from pathlib import Path

from pydantic import ValidationError

from polyseme.config import Config
from polyseme.system.atomic_io import sha256, write_file
from polyseme.system.cache import configured_folder
from polyseme.system.regular_files import read_regular

_CACHED_BYTES = 1_000_000  # smaller files are read in a millisecond
_MAX_ENTRY = 10_000
_SETTLED_NS = 50_000_000  # a later change has another time: file systems count in steps of up to 10 ms


class CachedChecksum(Config):
    """The checksum of a file, and what changes when the file does."""

    path: str
    bytes: int
    mtime_ns: int
    inode: int
    sha256: str


def has_checksum(path: Path, expected: str) -> bool:
    """Whether a file has a checksum; a large file is read only if it may have changed since it was read last."""
    now, stat = time.time_ns(), path.stat()
    cache = configured_folder()
    if stat.st_size < _CACHED_BYTES or cache is None:
        return sha256(path) == expected
    known = CachedChecksum(
        path=str(path.absolute()), bytes=stat.st_size, mtime_ns=stat.st_mtime_ns, inode=stat.st_ino, sha256=expected
    )
    name = hashlib.sha256(known.path.encode("utf-8", "surrogateescape")).hexdigest()
    entry = cache / "checksums" / f"{name}.json"
    with suppress(OSError, ValidationError):
        if CachedChecksum.model_validate_json(read_regular(entry, limit=_MAX_ENTRY)) == known:
            return True
    if sha256(path) != expected:
        return False
    if now - stat.st_mtime_ns > _SETTLED_NS:
        with suppress(OSError):  # without a cache, the file is read every time
            entry.parent.mkdir(parents=True, exist_ok=True)
            write_file(entry, json.dumps(known.model_dump()))
    return True
