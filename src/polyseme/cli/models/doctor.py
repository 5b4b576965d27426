"""polyseme doctor"""

import importlib.metadata
import importlib.util
import platform
import shutil
import timeit
from typing import Any

from polyseme.cli.console import print_json, report, suggest
from polyseme.cli.options import Json
from polyseme.system.formatting import format_bytes

_EXTRAS = {
    "data": ("pyarrow", "zstandard"),
    "chinese": ("rjieba",),
    "serve": ("uvicorn", "httptools"),
    "onnx": ("onnxruntime",),
}


def doctor(json: Json = False) -> None:
    """Check this machine: processor, memory, disk and packages.

    \b
    Example:
      polyseme doctor
    """
    import torch

    from polyseme.system.cache import cache_folder
    from polyseme.system.hardware import available_memory, num_cores, processor_name

    cache = cache_folder()
    facts: dict[str, Any] = {
        "polyseme": importlib.metadata.version("polyseme"),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "processor": processor_name(),
        "cores": num_cores(),
        "threads": torch.get_num_threads(),
        "capability": torch.backends.cpu.get_cpu_capability(),
        "accelerator": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "memory_free": available_memory(),
        "disk_free": shutil.disk_usage(cache).free,
        "cache": str(cache),
        "gigaflops": round(_gigaflops()),
        "extras": {name: all(importlib.util.find_spec(part) for part in parts) for name, parts in _EXTRAS.items()},
    }
    if json:
        print_json(facts)
    else:
        for name, value in facts.items():
            if name == "extras":
                shown = ", ".join(extra if installed else f"no {extra}" for extra, installed in value.items())
            else:
                shown = format_bytes(value) if name.endswith("_free") else value
            print(f"{name.replace('_', ' '):<14}{shown}")
        for advice in _advice(facts):
            report(advice)
    suggest("pretrain bert --corpus docstrings --size tiny --budget 30s --out runs/first")


def _gigaflops() -> float:
    """Throughput of float32 matrix products: the ceiling of every training step."""
    import torch

    a, b = torch.rand(1024, 1024), torch.rand(1024, 1024)
    return 2 * 1024**3 / min(timeit.repeat(lambda: a @ b, number=1, repeat=20)) / 1e9


def _advice(facts: dict[str, Any]) -> list[str]:
    advice = []
    if facts["threads"] < facts["cores"]:
        advice.append(f"torch uses {facts['threads']} of {facts['cores']} cores; unset OMP_NUM_THREADS to use all")
    if facts["memory_free"] < 2e9:
        advice.append("less than 2 GB of memory are free; use --size tiny")
    if facts["disk_free"] < 2e9:
        advice.append("less than 2 GB of disk are free; free some space, or set POLYSEME_CACHE to another disk")
    missing = [name for name, installed in facts["extras"].items() if not installed]
    if missing:
        advice.append(f"for all features: pip install 'polyseme[{','.join(missing)}]'")
    return advice or ["no problems found"]
