"""What can be seen of runs while they learn and after, and of reports that compare them; nothing is ever written."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from polyseme.errors import PolysemeError
from polyseme.models.directory import WEIGHTS, read_json
from polyseme.serve.errors import CallError
from polyseme.serve.models import Models, Served, has
from polyseme.train.finetuning import SCORES
from polyseme.train.recipe import RECIPE
from polyseme.train.run import LOCK, TIMES, read_history
from polyseme.train.tuning_recipe import read_recipe

_MOST_ROWS = 2_000  # of a history that are sent; of longer ones every so many
_MOST_BYTES = 20_000_000  # of a report
_MOST_DRAWN = 2_000_000  # bytes of a drawing


@dataclass
class Runs:
    """The runs among what is served, and the reports beside them."""

    models: Models
    reports: dict[str, Path] = field(default_factory=dict)  # pages by name

    def all(self) -> list[dict[str, Any]]:
        """Every run, and how far it is."""
        return [_summary(served) for served in self.models.all if served.is_run]

    def details(self, name: str) -> dict[str, Any]:
        """The history of one, read anew."""
        served = next((one for one in self.models.all if one.name == name and one.is_run), None)
        if served is None:
            raise CallError(404, "run_not_found", "no such run; see /v1/runs")
        rows = read_history(served.folder)
        every = -(-len(rows) // _MOST_ROWS) or 1
        kept = [
            row for number, row in enumerate(rows) if number % every == 0 or "dev" in row or number == len(rows) - 1
        ]
        return {
            "name": name,
            "history": [finite(row) for row in kept],
            "scores": _scores(served.folder),
            "probe": dict(_drawings(served.folder)),
        }

    def report(self, name: str) -> bytes:
        """A report as the page that it is."""
        path = self.reports.get(name)
        try:
            if path is None or path.stat().st_size > _MOST_BYTES:
                raise CallError(404, "report_not_found", "no such report; see /v1/reports")
            return path.read_bytes()
        except OSError:
            raise CallError(404, "report_not_found", "this report has gone") from None


def finite(value: Any) -> Any:
    """The same without numbers that JSON does not have."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(name): finite(part) for name, part in value.items()}
    return [finite(part) for part in value] if isinstance(value, list) else value


def find_reports(folders: list[Path]) -> tuple[list[Path], dict[str, Path]]:
    """Which folders are models or runs, and the pages of those that are comparisons, with the runs inside of these."""
    models: list[Path] = []
    reports: dict[str, Path] = {}
    for folder in folders:
        page = folder / "report.html"
        if has(folder, page.name) and not _is_model(folder):
            reports[folder.absolute().name] = page
            models += sorted(path for part in (folder, folder / "runs") for path in part.glob("*") if _is_model(path))
        else:
            models.append(folder)
    return list(dict.fromkeys(models)), reports


def _is_model(folder: Path) -> bool:
    return has(folder, WEIGHTS) or has(folder, RECIPE)


def _summary(served: Served) -> dict[str, Any]:
    rows = read_history(served.folder)
    last = rows[-1] if rows else {}
    family, steps = None, None
    try:
        recipe = read_recipe(served.folder)
        family, steps = recipe.family, recipe.plan.course.total or None
    except (PolysemeError, OSError):  # it is about to be written, or has gone
        family = served.opened.family if served.opened else None
    done = int(last.get("step", 0))
    figures = [name for name in {name: None for row in rows for name in row} if name not in (*TIMES, "dev")]
    figures += [f"dev {name}" for name in {name: None for row in rows for name in row.get("dev") or {}}]
    training = is_training(served.folder)
    return {
        "name": served.name,
        "family": family,
        "steps": steps if training or steps is None else max(done, steps),
        "done": done,
        "training": training,
        "figures": figures,
    }


def is_training(folder: Path) -> bool:
    """Whether a process that lives holds an unfinished run; taking its lock to find out might get in its way."""
    try:
        owner = int((folder / LOCK).read_text(encoding="utf-8")[:20])
        if owner <= 0 or (folder / WEIGHTS).exists():
            return False
        os.kill(owner, 0)
    except PermissionError:
        return True  # of somebody else
    except (OSError, ValueError, OverflowError):
        return False
    return True


def _scores(folder: Path) -> dict[str, Any] | None:
    try:
        scores: dict[str, Any] = finite(read_json(folder / SCORES))
    except PolysemeError:
        return None
    return scores


def _drawings(folder: Path) -> Iterator[tuple[str, str]]:
    """Charts that polyseme probe has left."""
    for path in sorted([*folder.glob("probe*.svg"), *folder.glob("probe*/*.svg")])[:20]:
        try:
            if path.resolve().is_relative_to(folder.resolve()) and path.stat().st_size <= _MOST_DRAWN:
                yield path.relative_to(folder).as_posix(), path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
