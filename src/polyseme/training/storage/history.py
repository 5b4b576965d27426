"""The history of a run: one JSON object per line, with losses, learning rate, timing and validation metrics."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

HISTORY = "history.jsonl"
COLUMNS = ("step", "tokens", "seconds", "processor_seconds", "tokens_per_second", "learning_rate")
"""Keys of a row beside its losses and `dev`."""


def read_history(folder: Path) -> list[dict[str, Any]]:
    """Read the history of a run; a row that a crash or a full disk truncated is skipped."""
    rows = []
    try:
        lines = (folder / HISTORY).read_text(encoding="utf-8", errors="replace").split("\n")
    except FileNotFoundError:
        return []
    for line in lines:
        with suppress(ValueError, RecursionError):
            row = json.loads(line)
            if isinstance(row, dict) and {"step", "tokens", "seconds"} <= row.keys():
                rows.append(row)
    return rows
