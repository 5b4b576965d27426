"""The results of a comparison: an append-only JSON-lines file, so that an interrupted comparison can resume.

The rows of a stage are followed by a row that marks the stage as done and has their checksum. A stage whose rows were
changed or truncated is repeated.
"""

import hashlib
import json
import logging
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from polyseme.comparison.config import TrainingRun
from polyseme.comparison.rows import ROWS, Row, parse_row
from polyseme.errors import CheckpointError
from polyseme.system.atomic_io import write_file
from polyseme.system.io_errors import readable, writable

logger = logging.getLogger(__name__)

RESULTS = "results.jsonl"


class ResultsLog:
    """The results file of a comparison."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / RESULTS
        self.rows: list[Row] = []
        self.done: set[tuple[TrainingRun | None, str]] = set()  # (run, stage); no run: of the whole comparison
        damaged = False
        for rows, end in _read_stages(self.path):
            if not rows:
                damaged = True
            elif "failed" not in end:
                self.rows += rows
                family = end.get("family", "")
                self.done.add((TrainingRun(family, end.get("training", 0)) if family else None, end["stage"]))
        if damaged:
            logger.warning("%s was changed or damaged; the affected stages are repeated", self.path)
        if self.path.exists():
            with writable(self.path, "choose another --out", CheckpointError):
                write_file(self.path, "".join(map(_to_line, self.rows)))

    def add(self, stage: str, rows: Iterable[Row], *, run: TrainingRun | None = None, failed: bool = False) -> None:
        """Append the rows of a completed or failed stage of a run or of the comparison, and flush them to disk."""
        of_run = {"family": run.family, "training": run.training} if run else {}
        lines = [_to_line({"row": row["row"], **of_run, **row}) for row in rows]
        end: Row = {"row": "done", **of_run, "stage": stage, "failed": failed or None}
        lines.append(_to_line(end | {"sha256": _checksum(lines, end)}))
        remedy = "free some space and run the same command again"
        with writable(self.path, remedy, CheckpointError), self.path.open("a", encoding="utf-8") as file:
            file.write("".join(lines))
            file.flush()
            os.fsync(file.fileno())
        self.rows += map(json.loads, lines)
        if not failed:
            self.done.add((run, stage))

    def find(self, kind: str, **fields: Any) -> Row | None:
        """The last row of a kind with these field values."""
        wanted = {"row": kind, **fields}
        return next((row for row in reversed(self.rows) if wanted.items() <= row.items()), None)


def read_rows(folder: Path) -> list[Row]:
    """The valid rows of a comparison without duplicates."""
    return merge_rows(row for line in _read_lines(folder / RESULTS) if (row := parse_row(line)))


def merge_rows(rows: Iterable[Row]) -> list[Row]:
    """Rows of known kinds in the order of their first occurrence, each replaced by its last version."""
    merged: dict[tuple[str, ...], Row] = {}
    for row in rows:
        if schema := ROWS.get(row["row"]):
            defaults = {key: schema.model_fields[key].default for key in schema.key}
            merged[row["row"], *(repr(row.get(key, default)) for key, default in defaults.items())] = row
    return list(merged.values())


def _read_stages(path: Path) -> Iterator[tuple[list[Row], Row]]:
    """The rows of each complete stage, none if it is damaged, and the row at its end; the last may be incomplete."""
    lines: list[str] = []
    for line in _read_lines(path):
        lines.append(line)
        end = parse_row(line)
        if end is None or end["row"] != "done":
            continue
        rows = [row for row in map(parse_row, lines) if row is not None]
        intact = len(rows) == len(lines) and end.pop("sha256") == _checksum(lines[:-1], end)
        yield rows if intact else [], end
        lines = []


def _read_lines(path: Path) -> list[str]:
    """The lines of a file with their ends."""
    if not path.exists():
        return []
    with readable(path, "choose another --out", CheckpointError):
        return [f"{line}\n" for line in path.read_text(encoding="utf-8", errors="replace").split("\n") if line]


def _checksum(lines: Iterable[str], end: Row) -> str:
    """The checksum of a stage: of its lines and of the row at its end."""
    return hashlib.sha256("".join([*lines, _to_line(end)]).encode()).hexdigest()


def _to_line(row: Mapping[str, Any]) -> str:
    return json.dumps(_to_json(row), ensure_ascii=False) + "\n"


def _to_json(value: Any) -> Any:
    """Drop missing and non-finite values, round numbers to eight significant digits, and replace lone surrogates."""
    if isinstance(value, Mapping):
        return {name: _to_json(part) for name, part in value.items() if not _is_missing(part)}
    if isinstance(value, list | tuple):
        return [_to_json(part) for part in value]
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    return float(f"{value:.8g}") if isinstance(value, float) else value


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and not math.isfinite(value))
