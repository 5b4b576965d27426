"""Training runs, live and finished, and comparison reports; nothing is ever written."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from polyseme.errors import PolysemeError
from polyseme.server.errors import ApiError
from polyseme.server.model_registry import ModelRegistry, ServedModel, has_file, is_training
from polyseme.system.regular_files import read_regular
from polyseme.training.finetuning import FineTuningScores
from polyseme.training.recipes.finetune_recipe import read_recipe
from polyseme.training.recipes.recipe import RECIPE
from polyseme.training.storage.history import COLUMNS, read_history
from polyseme.training.storage.model_dir import WEIGHTS

_MAX_ROWS = 2_000  # of a history in a response; longer ones are thinned out
_MAX_REPORT_BYTES = 20_000_000
_MAX_CHART_BYTES = 2_000_000


@dataclass
class RunRegistry:
    """The training runs among the served directories, and comparison reports."""

    models: ModelRegistry
    reports: dict[str, Path] = field(default_factory=dict)  # HTML files by name

    def summaries(self) -> list[dict[str, Any]]:
        """Every run and its progress."""
        return [_summary(served) for served in self.models.models if served.is_run]

    def details(self, name: str) -> dict[str, Any]:
        """The training history of a run, read again from disk."""
        served = next((one for one in self.models.models if one.name == name and one.is_run), None)
        if served is None:
            raise ApiError(404, "run_not_found", "unknown run; see /v1/runs")
        rows = read_history(served.folder)
        every = -(-len(rows) // _MAX_ROWS) or 1
        sampled = [
            row for index, row in enumerate(rows) if index % every == 0 or "dev" in row or index == len(rows) - 1
        ]
        scores = None
        with suppress(PolysemeError):
            scores = FineTuningScores.read(served.folder).model_dump()
        return {
            "name": name,
            "history": sampled,
            "scores": scores,
            "probe_charts": dict(_probe_charts(served.folder)),
        }

    def report(self, name: str) -> bytes:
        """The HTML of a report."""
        path = self.reports.get(name)
        try:
            if path is None:
                raise ApiError(404, "report_not_found", "unknown report; see /v1/reports")
            return read_regular(path, limit=_MAX_REPORT_BYTES)
        except OSError:
            message = "the report was deleted, or is too large; write it again with polyseme compare"
            raise ApiError(404, "report_not_found", message) from None


def find_reports(folders: list[Path]) -> tuple[list[Path], dict[str, Path]]:
    """The folders of models and runs, those of comparisons included, and the reports of comparisons by name."""
    models: list[Path] = []
    reports: dict[str, Path] = {}
    for folder in folders:
        page = folder / "report.html"
        if has_file(folder, page.name) and not _is_model(folder):
            reports[folder.absolute().name] = page
            models += sorted(path for part in (folder, folder / "runs") for path in part.glob("*") if _is_model(path))
        else:
            models.append(folder)
    return list(dict.fromkeys(models)), reports


def _is_model(folder: Path) -> bool:
    return has_file(folder, WEIGHTS) or has_file(folder, RECIPE)


def _summary(served: ServedModel) -> dict[str, Any]:
    rows = read_history(served.folder)
    steps_done, family, total_steps = 0, None, None
    with suppress(IndexError, TypeError, ValueError, OverflowError):  # no rows, or not a number
        steps_done = int(rows[-1]["step"])
    try:
        recipe = read_recipe(served.folder)
        family, total_steps = recipe.family, recipe.training.step_schedule.total_steps or None
    except (PolysemeError, OSError):  # it is not written yet, or was deleted
        family = served.loaded.family if served.loaded else None
    metrics = [name for name in {name: None for row in rows for name in row} if name not in (*COLUMNS, "dev")]
    metrics += [f"dev {name}" for name in {name: None for row in rows for name in row.get("dev") or {}}]
    training = is_training(served.folder)
    return {
        "name": served.name,
        "family": family,
        "total_steps": total_steps if training or total_steps is None else max(steps_done, total_steps),
        "steps_done": steps_done,
        "training": training,
        "metrics": metrics,
    }


def _probe_charts(folder: Path) -> Iterator[tuple[str, str]]:
    """Charts that `polyseme probe` wrote, by file name."""
    for path in sorted([*folder.glob("probe*.svg"), *folder.glob("probe*/*.svg")])[:20]:
        try:
            if path.resolve().is_relative_to(folder.resolve()):
                content = read_regular(path, limit=_MAX_CHART_BYTES)
                yield path.relative_to(folder).as_posix(), content.decode("utf-8", errors="replace")
        except (OSError, RuntimeError):  # a symbolic link to itself
            continue
