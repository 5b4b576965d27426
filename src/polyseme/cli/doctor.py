"""polyseme doctor"""

import importlib.metadata
import importlib.util
import platform
import shutil
import time
from typing import Annotated, Any

import typer

from polyseme.cli.console import say, write_json

_EXTRAS = {
    "data": ("pyarrow", "zstandard"),
    "chinese": ("rjieba",),
    "serve": ("fastapi", "uvicorn"),
    "onnx": ("onnxruntime",),
}


def doctor(json: Annotated[bool, typer.Option("--json", help="As one JSON object.")] = False) -> None:
    """Look at this machine: what there is, what is missing, what to expect.

    \b
    Example:
      polyseme doctor
    """
    import torch

    from polyseme.files import cache_folder, size
    from polyseme.machine import available_memory, num_cores, processor

    cache = cache_folder()
    place = next(folder for folder in [cache, *cache.parents] if folder.exists())
    facts: dict[str, Any] = {
        "polyseme": importlib.metadata.version("polyseme"),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "processor": processor(),
        "cores": num_cores(),
        "threads": torch.get_num_threads(),
        "capability": torch.backends.cpu.get_cpu_capability(),
        "accelerator": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "memory_free": available_memory(),
        "disk_free": shutil.disk_usage(place).free,
        "cache": str(cache),
        "gigaflops": round(_gigaflops()),
        "extras": {name: all(importlib.util.find_spec(part) for part in parts) for name, parts in _EXTRAS.items()},
    }
    if json:
        write_json(facts)
        return
    for name, value in facts.items():
        if name == "extras":
            shown = ", ".join(extra if there else f"no {extra}" for extra, there in value.items())
        else:
            shown = size(value) if name.endswith("_free") else value
        print(f"{name.replace('_', ' '):<14}{shown}")
    for advice in _advice(facts):
        say(advice)


def _gigaflops() -> float:
    """Float32 products in one second: the ceiling of every training step."""
    import torch

    a, b = torch.rand(1024, 1024), torch.rand(1024, 1024)
    best = float("inf")
    for _ in range(20):
        started = time.perf_counter()
        a @ b
        best = min(best, time.perf_counter() - started)
    return 2 * 1024**3 / best / 1e9


def _advice(facts: dict[str, Any]) -> list[str]:
    advice = []
    if facts["threads"] < facts["cores"]:
        advice.append(f"torch uses {facts['threads']} of {facts['cores']} cores; unset OMP_NUM_THREADS to use all")
    if facts["memory_free"] < 2e9:
        advice.append("less than 2 GB of memory are free; keep to --size tiny")
    if facts["disk_free"] < 2e9:
        advice.append("less than 2 GB of disk are free; make room, or set POLYSEME_CACHE to another disk")
    missing = [name for name, there in facts["extras"].items() if not there]
    if missing:
        advice.append(f"for more: pip install 'polyseme[{','.join(missing)}]'")
    return advice or ["all is well"]
