"""Checksums of files; those of large files are cached until the file changes."""

import hashlib
import json
import time
from contextlib import suppress
from pathlib import Path

from polyseme.system.atomic_io import sha256, write_file
from polyseme.system.cache import configured_folder
from polyseme.system.regular_files import read_regular

_CACHED_BYTES = 1_000_000  # smaller files are read in a millisecond
_MAX_ENTRY = 10_000
_SETTLED_NS = 50_000_000  # a later change has another time: file systems count in steps of up to 10 ms


def has_checksum(path: Path, expected: str) -> bool:
    """Whether a file has a checksum; a large file is read only if it may have changed since it was read last."""
    now, stat = time.time_ns(), path.stat()
    cache = configured_folder()
    if stat.st_size < _CACHED_BYTES or cache is None:
        return sha256(path) == expected
    absolute = str(path.absolute())
    # What changes when the file does.
    known = {"path": absolute, "bytes": stat.st_size, "mtime_ns": stat.st_mtime_ns, "inode": stat.st_ino}
    known["sha256"] = expected
    name = hashlib.sha256(absolute.encode("utf-8", "surrogateescape")).hexdigest()
    entry = cache / "checksums" / f"{name}.json"
    with suppress(OSError, ValueError, RecursionError):
        if json.loads(read_regular(entry, limit=_MAX_ENTRY)) == known:
            return True
    if sha256(path) != expected:
        return False
    if now - stat.st_mtime_ns > _SETTLED_NS:
        with suppress(OSError):  # without a cache, the file is read every time
            entry.parent.mkdir(parents=True, exist_ok=True)
            write_file(entry, json.dumps(known))
    return True
