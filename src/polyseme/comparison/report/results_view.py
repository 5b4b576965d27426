"""View of the results of a comparison by kind and family; implausible values count as missing."""

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from polyseme.comparison.report.labels import BASELINES
from polyseme.comparison.results import RESULTS, merge_rows, read_rows
from polyseme.comparison.rows import ROWS, Row
from polyseme.errors import DataError

_SMALLEST, _LARGEST = 1e-12, 1e18  # plausible magnitudes
_GLOBAL = ("comparison", "ambiguous_words")  # kinds of rows that belong to no family


@dataclass(frozen=True, kw_only=True)
class ResultsView:
    """All results by kind; families are in the order of the command."""

    comparison: Row
    ambiguous_words: Row
    families: dict[str, Row]  # means over trainings; a requested family without results has an empty row
    of: dict[str, list[Row]]  # kind → rows of families

    @property
    def trained(self) -> list[str]:
        """Families that have any result."""
        seen = {row["family"] for kind, rows in self.of.items() if kind != "failure" for row in rows}
        return [family for family, row in self.families.items() if row or family in seen]

    @property
    def pretrained(self) -> list[str]:
        """Families that have any result, without the baselines."""
        return [family for family in self.trained if family not in BASELINES]

    @cached_property
    def num_trainings(self) -> int:
        """The largest number of trainings of a family that have results."""
        return max((1 + _run(row)[1] for rows in self.of.values() for row in rows), default=1)

    @cached_property
    def series(self) -> dict[str, int]:
        """The number of each family, which determines its colour, marker and dash pattern in all charts."""
        return {family: number for number, family in enumerate(self.families)}

    @cached_property
    def tasks(self) -> dict[str, Row]:
        """The description of each task by name, including tasks of which only scores exist."""
        tasks = {row["name"]: row for row in self.comparison.get("tasks", ())}
        return tasks | {row["task"]: row for row in self.of["task"] if row["task"] not in tasks}

    def group(self, kind: str, *keys: str) -> dict[tuple[str, ...], dict[str, Row]]:
        """The rows of a kind by the texts of some fields, and then by family: those of its first training."""
        groups = self.group_trainings(kind, *keys)
        return {key: {family: rows[0] for family, rows in families.items()} for key, families in groups.items()}

    def group_trainings(self, kind: str, *keys: str) -> dict[tuple[str, ...], dict[str, list[Row]]]:
        """The rows of a kind by the texts of some fields, and then by family in their order: one per training."""
        groups: dict[tuple[str, ...], dict[str, list[Row]]] = {}
        for row in self.of[kind]:
            families = groups.setdefault(tuple(get_text(row, key) for key in keys), {})
            families.setdefault(row["family"], []).append(row)
        return groups

    def task_options(self, task: str) -> dict[tuple[str, str, int], list[Row]]:
        """The rows of a task by family, method and number of labels: one per training."""
        groups: dict[tuple[str, str, int], list[Row]] = {}
        for row in self.of["task"]:
            if row["task"] == task:
                groups.setdefault((row["family"], get_text(row, "method"), row["num_labels"]), []).append(row)
        return groups

    def context(self, family: str) -> str:
        """The context that a family's vectors depend on: none, left or both; empty if unknown."""
        return get_text(self.families[family], "context")

    def is_static(self, family: str) -> bool:
        """Whether a family is known to have context-independent vectors."""
        return self.context(family) == "none"

    def is_contextual(self, family: str) -> bool:
        """Whether a family is known to have context-dependent vectors."""
        return self.context(family) not in ("none", "")


def load_results(folder: Path) -> ResultsView:
    """Load the results of a comparison's folder."""
    path = folder / RESULTS
    if not path.is_file():
        raise DataError(f"{path} does not exist; pass the folder of a comparison")
    return group_rows(read_rows(folder))


def group_rows(rows: Iterable[Row]) -> ResultsView:
    """Group rows by kind, in the order of the families; a failure counts only until the stage succeeds."""
    of: dict[str, list[Row]] = {kind: [] for kind in ROWS}
    for row in merge_rows(rows):
        of[row["row"]].append(row)
        if row["row"] == "family":
            of["failure"] = [failure for failure in of["failure"] if _run(failure) != _run(row)]
    comparison, ambiguous = ((of.pop(kind) or [{}])[-1] for kind in _GLOBAL)
    repeated = {(*_run(row), row["stage"]) for row in of.pop("done") if not row.get("failed")}
    of["failure"] = [failure for failure in of["failure"] if (*_run(failure), failure["stage"]) not in repeated]
    names = [*comparison.get("families", ()), *(row["family"] for some in of.values() for row in some)]
    order = {family: number for number, family in enumerate(dict.fromkeys(names))}
    for some in of.values():  # a repeated stage is at the end of the file
        some.sort(key=lambda row: (order[row["family"]], _run(row)[1]))
    families = {
        family: _mean_row([row for row in of["family"] if row["family"] == family]) or _baseline_row(of["task"], family)
        for family in order
    }
    del of["family"]
    return ResultsView(comparison=comparison, ambiguous_words=ambiguous, families=families, of=of)


def _run(row: Row) -> tuple[str, int]:
    """The family and the training that a row belongs to."""
    return row.get("family", ""), row.get("training", 0)


def _mean_row(rows: Sequence[Row]) -> Row:
    """The first of several rows, with the means of all measurements."""
    if not rows:
        return {}
    keys = [key for key in rows[0] if key != "training"]
    by_key = {key: [value for row in rows if (value := get_number(row, key)) is not None] for key in keys}
    return rows[0] | {key: statistics.fmean(values) for key, values in by_key.items() if len(values) > 1}


def _baseline_row(rows: Sequence[Row], family: str) -> Row:
    """What is known of a baseline that has no model: the time in which it predicts labels."""
    costs = [get_number(row, "inference_seconds") for row in rows if row["family"] == family]
    known = [cost for cost in costs if cost is not None]
    return {"embedding_seconds": statistics.fmean(known)} if known else {}


def get_number(row: Mapping[str, Any], key: str) -> float | None:
    """A number; None if it is missing or implausibly large."""
    value = row.get(key)
    if not isinstance(value, int | float) or abs(value) >= _LARGEST:
        return None
    return float(value) if abs(value) > _SMALLEST else 0.0


def fill_template(template: str, row: Mapping[str, Any], key: str, formatted: Callable[[float], object] = float) -> str:
    """A number in a template; empty if there is none."""
    value = get_number(row, key)
    return "" if value is None else template.format(formatted(value))


def get_text(row: Mapping[str, Any], key: str) -> str:
    """A string, or an empty one."""
    return str(row.get(key) or "")
