"""Shared code of the benchmarks: alternating runs, limits of the machine, result tables and JSON."""

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

from polyseme.system.hardware import processor_name

Row = dict[str, Any]


def arguments(
    description: str | None, *, rounds: int, long_rounds: int
) -> tuple[argparse.ArgumentParser, Callable[[], argparse.Namespace]]:
    """A parser with the options of all benchmarks, and the function that parses the command line."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--long", action="store_true", help="run every workload, with more rounds")
    parser.add_argument("--rounds", type=int, help=f"runs of each system ({rounds}, {long_rounds} with --long)")
    parser.add_argument("--json", type=Path, help="also write the table to this file")

    def parse() -> argparse.Namespace:
        args = parser.parse_args()
        args.rounds = args.rounds or (long_rounds if args.long else rounds)
        return args

    return parser, parse


def best_of(functions: Mapping[str, Callable[[], object]], rounds: int, *, warmup: int = 1) -> dict[str, float]:
    """The shortest time of each function in seconds; they run in turn, because the load of the machine varies."""
    for function in functions.values():
        for _ in range(warmup):
            function()
    best = dict.fromkeys(functions, float("inf"))
    for _ in range(rounds):
        for name, function in functions.items():
            started = time.perf_counter()
            function()
            best[name] = min(best[name], time.perf_counter() - started)
    return best


class Gemm:
    """Large float32 matrix products, the upper limit of training speed; one call takes about as long as a step."""

    def __init__(self, seconds: float = 0.5) -> None:
        size = 1536
        self.a, self.b, self.out = torch.randn(size, size), torch.randn(size, size), torch.empty(size, size)
        self.num_products = 1
        self.num_products = max(1, round(seconds / best_of({"": self}, 8)[""]))
        self.operations = 2 * size**3 * self.num_products

    def __call__(self) -> None:
        for _ in range(self.num_products):
            torch.mm(self.a, self.b, out=self.out)


def read_bandwidth(rounds: int = 8) -> float:
    """Memory bandwidth of all threads in bytes per second, the upper limit of generating one token at a time."""
    values = torch.ones(1 << 26)
    return 4 * values.numel() / best_of({"": values.sum}, rounds)[""]


def machine() -> dict[str, Any]:
    """The date, the processor and the versions of the libraries."""
    facts: dict[str, Any] = {
        "date": time.strftime("%Y-%m-%d"),
        "processor": processor_name(),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
    }
    for package in ("torch", "transformers", "tokenizers", "onnxruntime"):
        with contextlib.suppress(PackageNotFoundError):
            facts[package] = version(package)
    return facts


def report(rows: Sequence[Row], path: Path | None, **limits: float) -> None:
    """Print the rows as a table, and write them to a JSON file if there is a path."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    cells = [columns, *([_cell(row.get(name)) for name in columns] for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(columns))]
    for line in cells:
        (first, width), *others = zip(line, widths, strict=True)
        print("  ".join([f"{first:<{width}}", *(f"{text:>{width}}" for text, width in others)]))
    facts = machine() | {name: float(f"{value:.3g}") for name, value in limits.items()}
    print(", ".join(f"{name} {value}" for name, value in facts.items()))
    if path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"machine": facts, "rows": list(rows)}, indent=2) + "\n")


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return "" if value is None else f"{value:,}" if isinstance(value, int) else str(value)
