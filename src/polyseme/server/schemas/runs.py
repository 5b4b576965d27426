"""Training runs and comparison reports."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from polyseme.server.schemas.common import ResponseBody


class RunSummary(ResponseBody):
    """A training run and its progress."""

    name: str
    family: str | None
    total_steps: int | None = Field(description="Null if it is not known yet.")
    steps_done: int
    training: bool
    metrics: list[str]


class RunDetails(ResponseBody):
    """The training history of a run."""

    name: str
    history: list[dict[str, Any]]
    scores: dict[str, Any] | None
    probe_charts: dict[str, str] = Field(description="SVG files that `polyseme probe` wrote, by file name.")


class ReportEntry(ResponseBody):
    """A comparison report."""

    name: str
