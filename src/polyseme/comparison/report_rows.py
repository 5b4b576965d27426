"""The rows of a comparison as a report reads them: what is broken or unknown is as if it were not there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from polyseme.comparison.results import RESULTS, read_lines
from polyseme.errors import DataError

Row = Mapping[str, Any]

_SMALLEST, _LARGEST = 1e-12, 1e18  # numbers that mean anything

# What tells rows of a kind apart; of two that are the same in these the last one counts.
_KEYS = {
    "comparison": (),
    "family": ("family",),
    "curve": ("family",),
    "figure": ("family", "measure", "name", "scale"),
    "task": ("family", "task", "method", "labels"),
    "neighbours": ("family", "word"),
    "ambiguous": (),
    "senses": ("family", "word"),
    "example": ("family", "kind", "prompt"),
    "failure": ("family", "stage"),
}
_NEEDED = {
    "figure": ("measure",),
    "task": ("task",),
    "neighbours": ("word",),
    "senses": ("word",),
    "example": ("kind", "prompt"),
}


@dataclass(frozen=True, kw_only=True)
class Rows:
    """All that was measured, by kind; families in the order in which they were asked for."""

    comparison: Row
    families: dict[str, Row]  # an empty row for one that was asked for and has none
    of: dict[str, list[Row]]  # by kind, those of families

    @property
    def trained(self) -> list[str]:
        """The families of which there is anything to say."""
        seen = {row["family"] for kind, rows in self.of.items() if kind != "failure" for row in rows}
        return [family for family, row in self.families.items() if row or family in seen]

    def tasks(self) -> dict[str, Row]:
        """What is known of each task by name, those included of which only scores are known."""
        told = {row["name"]: row for row in rows_in(self.comparison, "tasks") if isinstance(row.get("name"), str)}
        return told | {row["task"]: row for row in self.of["task"] if row["task"] not in told}

    def context(self, family: str) -> str:
        """How much of a text a family sees around a word: none, left or both; empty where it is not known."""
        return text_in(self.families.get(family, {}), "context")


def read_rows(folder: Path) -> Rows:
    """The rows of a comparison's folder."""
    path = folder / RESULTS
    if not path.is_file():
        raise DataError(f"{path} cannot be read (there is no such file); give the folder of a comparison")
    return gather(read_lines(path))


def gather(rows: Iterable[Row]) -> Rows:
    """Rows by kind, the last of each."""
    kept: dict[tuple[Any, ...], Row] = {}
    for row in rows:
        kind = text_in(row, "row")
        if kind not in _KEYS or not _whole(kind, row):
            continue
        key = (kind, *(repr(row.get(name)) for name in _KEYS[kind]))
        kept.pop(key, None)  # so that it stands where it was written last
        kept[key] = row
        if kind == "family":  # what went wrong before has been mended
            for old in [old for old in kept if old[0] == "failure" and kept[old]["family"] == row["family"]]:
                del kept[old]
    of: dict[str, list[Row]] = {kind: [] for kind in _KEYS}
    for key, row in kept.items():
        of[key[0]].append(row)
    comparison = of.pop("comparison")
    asked = comparison[-1].get("families", []) if comparison else []
    names = [name for name in asked if isinstance(name, str)] if isinstance(asked, list) else []
    names += [row["family"] for kind, some in of.items() if kind != "ambiguous" for row in some]
    families: dict[str, Row] = {name: {} for name in names}
    families |= {row["family"]: row for row in of.pop("family")}
    ambiguous = of.pop("ambiguous")
    comparison_row = dict(comparison[-1]) if comparison else {}
    comparison_row["ambiguous"] = ambiguous[-1] if ambiguous else {}
    return Rows(comparison=comparison_row, families=families, of=of)


def number_in(row: Row, *keys: str) -> float | None:
    """A number behind some keys."""
    found: Any = row
    for key in keys:
        found = found.get(key) if isinstance(found, Mapping) else None
    return (float(found) if abs(found) > _SMALLEST else 0.0) if is_number(found) else None


def text_in(row: Row, key: str) -> str:
    """A text, or an empty one."""
    found = row.get(key)
    return found if isinstance(found, str) else ""


def rows_in(row: Row, key: str) -> list[Row]:
    """A list of objects, without what is none."""
    found = row.get(key)
    return [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []


def pairs_in(row: Row, key: str) -> list[tuple[str, float]]:
    """A list of texts with a number each, without what is none."""
    found = row.get(key)
    lists = [one for one in found if isinstance(one, list) and len(one) == 2] if isinstance(found, list) else []
    return [(one[0], float(one[1])) for one in lists if isinstance(one[0], str) and is_number(one[1])]


def is_number(found: object) -> bool:
    """Whether something is a number, and one that anything could be measured in."""
    return isinstance(found, int | float) and not isinstance(found, bool) and abs(found) < _LARGEST


def _whole(kind: str, row: Row) -> bool:
    needed = _NEEDED.get(kind, ())
    if kind not in ("comparison", "ambiguous"):
        needed = ("family", *needed)
    return all(isinstance(row.get(key), str) for key in needed)
