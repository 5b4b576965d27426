"""The cache: tokenizers, token stores, samples and measurements that can be computed again at any time."""

import atexit
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from polyseme.errors import CheckpointError, ConfigError, DataError
from polyseme.system.atomic_io import atomic_folder
from polyseme.system.io_errors import writable

logger = logging.getLogger(__name__)

VARIABLE = "POLYSEME_CACHE"
REMEDY = f"free some space, or set {VARIABLE} to another folder"

Loaded = TypeVar("Loaded")


def cache_folder() -> Path:
    """A folder that can be written: $POLYSEME_CACHE, or polyseme in the user's cache.

    If the user's cache cannot be written, a temporary folder takes its place until this process ends, and is passed on
    to child processes by the environment. A folder that the user has chosen is not replaced.
    """
    folder = configured_folder()
    try:
        if folder is None:
            raise FileNotFoundError(0, "the home folder does not exist")
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):  # permissions alone do not show it (read-only disks, quotas)
            return folder
    except OSError as error:
        if os.environ.get(VARIABLE):
            raise ConfigError(
                f"{VARIABLE}={folder} cannot be written ({error.strerror}); set it to a folder that you can write"
            ) from None
        return _replace(folder, error.strerror)


def load_or_build(kind: str, name: str, *, load: Callable[[Path], Loaded], build: Callable[[Path], None]) -> Loaded:
    """Load a folder of the cache; if there is none, or a damaged one, build it first.

    Several processes may build it at the same time; the first one wins. The cache may be read-only if all is there.
    """
    configured = configured_folder()
    if configured is not None and (configured / kind / name).is_dir():
        try:
            return load(configured / kind / name)
        except (OSError, ValueError, CheckpointError):
            shutil.rmtree(configured / kind / name, ignore_errors=True)
    folder = cache_folder() / kind / name
    try:
        with atomic_folder(folder) as partial:
            build(partial)
    except OSError as error:
        if not folder.is_dir():  # otherwise another process was first
            raise DataError(f"{folder} cannot be written ({error.strerror}); {REMEDY}") from None
    try:
        return load(folder)
    except (OSError, ValueError, CheckpointError) as error:
        reason = getattr(error, "strerror", None) or error
        raise DataError(f"{folder} was deleted or changed by another program ({reason}); {REMEDY}") from None


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """A folder on disk for arrays that may not fit in memory; deleted at the end of the block."""
    cache = cache_folder()
    with writable(cache, REMEDY), tempfile.TemporaryDirectory(dir=cache) as folder:
        yield Path(folder)


def configured_folder() -> Path | None:
    """The folder that the environment names, which may not exist or be writable; None without a home folder."""
    if chosen := os.environ.get(VARIABLE):
        return Path(chosen)
    if os.environ.get("XDG_CACHE_HOME"):
        return Path(os.environ["XDG_CACHE_HOME"]) / "polyseme"
    try:
        return Path.home() / ".cache" / "polyseme"
    except RuntimeError:  # HOME is unset, and the user is not in the password database
        return None


def _replace(folder: Path | None, reason: str | None) -> Path:
    """Create a temporary cache for this process and its children."""
    name = f"the cache {folder}" if folder else "the cache"
    try:
        temporary = tempfile.mkdtemp(prefix="polyseme-")
    except OSError:
        raise ConfigError(
            f"{name} cannot be written ({reason}); set {VARIABLE} to a folder that you can write"
        ) from None
    atexit.register(shutil.rmtree, temporary, ignore_errors=True)
    os.environ[VARIABLE] = temporary
    logger.warning(
        "%s cannot be written (%s), so a temporary one is used; set %s to a folder that you can write to keep it",
        name, reason, VARIABLE,
    )  # fmt: skip
    return Path(temporary)
