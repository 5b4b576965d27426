"""What was measured: a row a line, kept as it comes, so that a comparison that is broken off loses nothing finished."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from polyseme.errors import CheckpointError
from polyseme.files import write_file

RESULTS = "results.jsonl"
Row = dict[str, Any]

# What makes a row the same as an earlier one, which it then replaces.
_KEYS = ("row", "family", "measure", "name", "scale", "task", "method", "labels", "word", "kind", "prompt", "stage")


def read_rows(folder: Path) -> list[Row]:
    """The rows of a comparison, the last of those with the same key where the first of them stood."""
    found: dict[tuple[Any, ...], Row] = {}
    for row in read_lines(folder / RESULTS):
        found[tuple(row.get(key) for key in _KEYS)] = row
    return list(found.values())


class Results:
    """The rows of a folder; those of a piece of work stand before a row that says it is done."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / RESULTS
        rows = read_lines(self.path)
        last = max((number for number, row in enumerate(rows, start=1) if row["row"] == "done"), default=0)
        # What is behind the last piece of work that was done comes again, and what failed is tried again.
        kept = [row for row in rows[:last] if row["row"] != "failure" and not row.get("failed")]
        if kept or self.path.exists():
            write_file(self.path, "".join(map(_line, kept)))
        self.done = {(row.get("family", ""), row["stage"]) for row in kept if row["row"] == "done"}
        self.rows = kept

    def add(self, stage: str, rows: Iterable[Row], *, family: str = "", failed: bool = False, **facts: Any) -> None:
        """Keep the rows of a piece of work that is done."""
        end: Row = {"row": "done"} | ({"family": family} if family else {}) | {"stage": stage, **facts}
        new = [*rows, end | ({"failed": True} if failed else {})]
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.write("".join(map(_line, new)))
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise CheckpointError(f"{self.path} cannot be written ({error.strerror}); make room and go on") from None
        self.rows += new
        if not failed:
            self.done.add((family, stage))

    def find(self, kind: str, **facts: Any) -> Row | None:
        """The last row of a kind of which this is true."""
        wanted = {"row": kind, **facts}
        return next((row for row in reversed(self.rows) if wanted.items() <= row.items()), None)


def _line(row: Mapping[str, Any]) -> str:
    return json.dumps(_plain(row), ensure_ascii=False) + "\n"


def _plain(value: Any) -> Any:
    """Without what is nothing or no number, and with no more digits than mean something."""
    if isinstance(value, Mapping):
        return {name: _plain(part) for name, part in value.items() if not _is_nothing(part)}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return float(f"{value:.8g}") if isinstance(value, float) else value


def _is_nothing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and not math.isfinite(value))


def read_lines(path: Path) -> list[Row]:
    """The whole rows of a file; one that was cut short is left out."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read ({error.strerror}); choose another --out") from None
    rows = []
    for line in text.split("\n"):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(row, dict) and isinstance(row.get("row"), str):
            rows.append(row)
    return rows
