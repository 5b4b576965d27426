"""Opening of files in directories of unknown origin, where a name can stand for anything.

A link out of the directory would make a model, a server or an export disclose another file of this machine. In the
Hugging Face cache, the files of a snapshot are links to the blobs of its repository.
"""

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO


def check_not_a_device(path: Path) -> None:
    """Raise an OSError for a device, which may never end; pipes are allowed."""
    if path.is_char_device() or path.is_block_device():
        raise OSError(errno.EINVAL, "a device", str(path))


def check_regular(path: Path) -> Path:
    """Raise an OSError for a path that is not a regular file, or a link out of its directory; return the path."""
    open_regular(path).close()
    return path


def open_regular(path: Path, *, limit: int | None = None) -> BinaryIO:
    """Open a file for reading; links out of the directory, folders, pipes, devices and large files raise an OSError.

    Opening a pipe would wait for its other end, and some devices never end.
    """
    if path.is_symlink():
        folder = Path(os.path.realpath(path.parent))
        blobs = folder.parent.with_name("blobs") if folder.parent.name == "snapshots" else folder
        if not any(Path(os.path.realpath(path)).is_relative_to(home) for home in (folder, blobs)):
            raise OSError(errno.EPERM, "a link out of its directory; replace it with a copy of the file", str(path))
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    if limit is not None and found.st_size > limit:
        os.close(descriptor)
        raise OSError(errno.EFBIG, f"larger than {limit:,} bytes", str(path))
    return os.fdopen(descriptor, "rb")


def read_regular(path: Path, *, limit: int) -> bytes:
    """Read a file of limited size."""
    with open_regular(path, limit=limit) as file:
        return file.read(limit)
