"""The results of a comparison: an append-only JSON-lines file, so that an interrupted comparison can resume."""

import json
import math
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from polyseme.errors import CheckpointError
from polyseme.system.atomic_io import write_file
from polyseme.system.io_errors import readable, writable

RESULTS = "results.jsonl"
Row = dict[str, Any]

KEYS: dict[str, tuple[str, ...]] = {
    "comparison": (),
    "family": ("family",),
    "learning_curve": ("family",),
    "metric": ("family", "suite", "name", "scale"),
    "task": ("family", "task", "method", "num_labels"),
    "neighbours": ("family", "word"),
    "ambiguous_words": (),
    "sense_map": ("family", "word"),
    "example": ("family", "kind", "prompt"),
    "failure": ("family", "stage"),
    "done": ("family", "stage"),
}
"""The kinds of rows, and the fields that identify a row of each kind: a later row replaces an earlier one."""


class ResultsLog:
    """The results file of a comparison. The rows of a stage are followed by a row that marks the stage as done."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / RESULTS
        rows = read_lines(self.path)
        last = max((number for number, row in enumerate(rows, start=1) if row["row"] == "done"), default=0)
        # Rows behind the last completed stage are written again; failed stages are retried.
        self.rows = [row for row in rows[:last] if row["row"] != "failure" and not row.get("failed")]
        if self.rows or self.path.exists():
            write_file(self.path, "".join(map(_to_line, self.rows)))
        self.done = {(row.get("family", ""), row["stage"]) for row in self.rows if row["row"] == "done"}

    def add(self, stage: str, rows: Iterable[Row], *, family: str = "", failed: bool = False) -> None:
        """Append the rows of a completed or failed stage, and flush them to disk."""
        end: Row = {"row": "done"} | ({"family": family} if family else {}) | {"stage": stage}
        new = [*rows, end | ({"failed": True} if failed else {})]
        remedy = "free some space and run the same command again"
        with writable(self.path, remedy, CheckpointError), self.path.open("a", encoding="utf-8") as file:
            file.write("".join(map(_to_line, new)))
            file.flush()
            os.fsync(file.fileno())
        self.rows += new
        if not failed:
            self.done.add((family, stage))

    def find(self, kind: str, **fields: Any) -> Row | None:
        """The last row of a kind with these field values."""
        wanted = {"row": kind, **fields}
        return next((row for row in reversed(self.rows) if wanted.items() <= row.items()), None)


def read_rows(folder: Path) -> list[Row]:
    """The rows of a comparison without duplicates."""
    return merge_rows(read_lines(folder / RESULTS))


def merge_rows(rows: Iterable[Row]) -> list[Row]:
    """Rows of known kinds in the order of their first occurrence, each replaced by its last version."""
    merged: dict[tuple[str, ...], Row] = {}
    for row in rows:
        kind = row.get("row")
        if isinstance(kind, str) and kind in KEYS:
            merged[kind, *(repr(row.get(key)) for key in KEYS[kind])] = row
    return list(merged.values())


def read_lines(path: Path) -> list[Row]:
    """The complete rows of a file; a truncated last line is skipped."""
    if not path.exists():
        return []
    with readable(path, "choose another --out", CheckpointError):
        text = path.read_text(encoding="utf-8", errors="replace")
    rows = []
    for line in text.split("\n"):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(row, dict) and isinstance(row.get("row"), str):
            rows.append(row)
    return rows


def _to_line(row: Mapping[str, Any]) -> str:
    return json.dumps(_to_json(row), ensure_ascii=False) + "\n"


def _to_json(value: Any) -> Any:
    """Drop missing and non-finite values, and round numbers to eight significant digits."""
    if isinstance(value, Mapping):
        return {name: _to_json(part) for name, part in value.items() if not _is_missing(part)}
    if isinstance(value, list | tuple):
        return [_to_json(part) for part in value]
    return float(f"{value:.8g}") if isinstance(value, float) else value


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and not math.isfinite(value))
