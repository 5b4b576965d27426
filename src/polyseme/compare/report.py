"""A comparison in words."""

from __future__ import annotations

from pathlib import Path

from polyseme.compare.results import read_rows
from polyseme.files import write_file


def write_report(out: Path) -> Path:
    """Write what was found into the folder, and say where."""
    lines = ["# Comparison", ""]
    lines += [f"- {row}" for row in read_rows(out) if row["row"] in ("family", "figure", "task")]
    write_file(out / "report.md", "\n".join(lines) + "\n")
    return out / "report.md"
