"""Operating-system errors as one line for the user."""

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from polyseme.errors import DataError, PolysemeError

_BROKEN = (EOFError, zlib.error, gzip.BadGzipFile)


@contextmanager
def readable(
    path: Path | str, remedy: str = "check the path and its permissions", kind: type[PolysemeError] = DataError
) -> Iterator[None]:
    """Raise one line that ends with a remedy when the block cannot read or decompress `path`."""
    try:
        yield
    except Exception as error:
        if isinstance(error, _BROKEN) or type(error).__name__ == "ZstdError":  # zstandard may not be installed
            raise kind(f"{path} is damaged or truncated ({error}); download or compress it again") from None
        if isinstance(error, OSError):
            raise kind(f"{path} cannot be read ({error.strerror or error}); {remedy}") from None
        raise


@contextmanager
def writable(path: Path | str, remedy: str, kind: type[PolysemeError] = DataError) -> Iterator[None]:
    """Raise one line that ends with a remedy when the block cannot write `path`."""
    try:
        yield
    except OSError as error:
        raise kind(f"{path} cannot be written ({error.strerror or error}); {remedy}") from None
