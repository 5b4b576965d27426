"""Reading of tokenizer files of unknown origin: text and JSON of limited size."""

from pathlib import Path
from typing import Any

from pydantic_core import from_json

from polyseme.errors import CheckpointError
from polyseme.system.io_errors import readable
from polyseme.system.regular_files import read_regular

_MAX_BYTES = 40_000_000  # the tokenizer.json of Gemma has 33 MB, that of XLM-R 17 MB
_MAX_LINES = 1_000_000
_MAX_VALUES = 2_500_000  # Gemma has 2.1 million; an empty object takes 64 bytes, a short string 50


def read_lines(path: Path) -> list[str]:
    """Read the lines of a UTF-8 file of limited size."""
    content = _read(path, b"\n", _MAX_LINES)
    try:
        return content.decode().split("\n")
    except UnicodeDecodeError:
        raise CheckpointError(f"{path}: not readable as UTF-8; copy it again") from None


def read_json_object(path: Path) -> dict[str, Any]:
    """Read a JSON object with a limited number of values, which are counted by the characters that separate them.

    A missing file is an empty object.
    """
    if not path.exists():
        return {}
    try:
        values = from_json(_read(path, b",:[{", _MAX_VALUES), allow_inf_nan=False)
    except ValueError:
        values = None
    if not isinstance(values, dict):
        raise CheckpointError(f"{path}: not readable as JSON; copy it again")
    return values


def _read(path: Path, separators: bytes, max_parts: int) -> bytes:
    with readable(path, kind=CheckpointError):
        content = read_regular(path, limit=_MAX_BYTES)
    if sum(map(content.count, separators)) > max_parts:
        raise CheckpointError(f"{path}: it has more than {max_parts:,} parts; copy it again")
    return content
