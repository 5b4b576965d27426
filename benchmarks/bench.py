"""What every benchmark here does alike: sides in turns, limits of the machine, a table and JSON."""

from __future__ import annotations

import argparse
import contextlib
import json
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from polyseme.machine import processor

Row = dict[str, Any]


def arguments(
    description: str | None, *, rounds: int, long_rounds: int
) -> tuple[argparse.ArgumentParser, Callable[[], argparse.Namespace]]:
    """A parser with the options that all have; the second part reads them."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--long", action="store_true", help="every workload and more rounds")
    parser.add_argument("--rounds", type=int, help=f"turns of each side ({rounds}, {long_rounds} with --long)")
    parser.add_argument("--json", type=Path, help="write the table here too")

    def read() -> argparse.Namespace:
        given = parser.parse_args()
        given.rounds = given.rounds or (long_rounds if given.long else rounds)
        return given

    return parser, read


def best_of(sides: Mapping[str, Callable[[], object]], rounds: int, *, warmup: int = 1) -> dict[str, float]:
    """The least seconds of each side; they take turns, because the machine is shared."""
    for side in sides.values():
        for _ in range(warmup):
            side()
    best = dict.fromkeys(sides, float("inf"))
    for _ in range(rounds):
        for name, side in sides.items():
            started = time.perf_counter()
            side()
            best[name] = min(best[name], time.perf_counter() - started)
    return best


class Gemm:
    """A turn of large float32 products, the limit of training; as long as a step, since the machine's speed wavers."""

    def __init__(self, seconds: float = 0.5) -> None:
        size = 1536
        self.a, self.b, self.out = torch.randn(size, size), torch.randn(size, size), torch.empty(size, size)
        self.number = 1
        self.number = max(1, round(seconds / best_of({"": self}, 8)[""]))
        self.operations = 2 * size**3 * self.number

    def __call__(self) -> None:
        for _ in range(self.number):
            torch.mm(self.a, self.b, out=self.out)


def read_bandwidth(rounds: int = 8) -> float:
    """Bytes a second that all threads together read from memory, the limit of writing one token at a time."""
    numbers = torch.ones(1 << 26)
    return 4 * numbers.numel() / best_of({"": numbers.sum}, rounds)[""]


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    facts: dict[str, Any] = {
        "date": time.strftime("%Y-%m-%d"),
        "processor": processor(),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
    }
    for package in ("torch", "transformers", "tokenizers", "onnxruntime"):
        with contextlib.suppress(PackageNotFoundError):
            facts[package] = version(package)
    return facts


def report(rows: Sequence[Row], path: Path | None, **limits: float) -> None:
    """Print the rows as a table, and write them as JSON where asked."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    cells = [columns, *([_cell(row.get(name)) for name in columns] for row in rows)]
    widths = [max(len(line[place]) for line in cells) for place in range(len(columns))]
    for line in cells:
        print(
            "  ".join(
                f"{text:<{width}}" if not place else f"{text:>{width}}"
                for place, (text, width) in enumerate(zip(line, widths, strict=True))
            )
        )
    facts = machine() | {name: float(f"{value:.3g}") for name, value in limits.items()}
    print(", ".join(f"{name} {value}" for name, value in facts.items()))
    if path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"machine": facts, "rows": list(rows)}, indent=2) + "\n")


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return "" if value is None else f"{value:,}" if isinstance(value, int) else str(value)
