"""The history of a run: one JSON object per line, with losses, learning rate, timing and validation metrics."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, Field

from polyseme.config import Config
from polyseme.system.regular_files import read_regular

HISTORY = "history.jsonl"
COLUMNS = ("step", "tokens", "seconds", "processor_seconds", "tokens_per_second", "learning_rate")
"""Keys of a row beside its losses and `dev`."""

_MIN_SECONDS = 1e-3
_MAX_COUNT = 2**63
_MAX_BYTES = 100_000_000


class HistoryRow(Config):
    """One row: the mean of each loss since the row before, by name, beside the named columns."""

    model_config = ConfigDict(strict=True, extra="allow", allow_inf_nan=True)
    __pydantic_extra__: dict[str, float] = Field(init=False)

    step: int = Field(ge=0, lt=_MAX_COUNT)
    tokens: int = Field(ge=0, lt=_MAX_COUNT)
    seconds: float = Field(ge=0)
    processor_seconds: float = Field(0.0, ge=0)
    tokens_per_second: float = Field(0.0, ge=0)
    learning_rate: float = 0.0
    dev: dict[str, float] = Field(default_factory=dict)  # validation metrics


def tokens_per_second(tokens: int, seconds: float) -> int:
    """The throughput, or 0 where the time is too short to be measured, as for one-hot vectors."""
    return round(tokens / seconds) if seconds > _MIN_SECONDS else 0


def read_history(folder: Path) -> list[dict[str, Any]]:
    """Read the history of a run; rows that are truncated or damaged are skipped, and so is a file of another kind."""
    rows = []
    try:
        content = read_regular(folder / HISTORY, limit=_MAX_BYTES).decode("utf-8", errors="replace")
    except OSError:
        return []
    for line in content.split("\n"):
        with suppress(ValueError, RecursionError):
            row = json.loads(line)
            HistoryRow.model_validate(row)
            rows.append(row)
    return rows
