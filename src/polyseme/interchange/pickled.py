"""Weights in a pickle, which may hold anything: read by a process of its own that may run nothing and take little."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from polyseme.errors import CheckpointError

PICKLED = "pytorch_model.bin"
_MEMORY = 500_000_000  # bytes on top of three times the file
_SECONDS = 60  # of work, and one for every ten megabytes
_PATIENCE = 10  # times as long on a machine that is busy


def unpickle(source: Path, target: Path) -> None:
    """Write the tensors of a pickle as safetensors."""
    command = [sys.executable, "-P", "-m", __name__, str(source), str(target)]
    seconds = _PATIENCE * _seconds(source.stat().st_size)
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        raise CheckpointError(f"{source} takes over {seconds} s to read: refused") from None
    if done.returncode or not target.exists():
        why = (done.stderr.strip().splitlines() or ["its reader was ended"])[-1]
        raise CheckpointError(f"{source} is refused ({why:.200}); take the model in safetensors")


def _seconds(length: int) -> int:
    return _SECONDS + length // 10_000_000


def _limit(length: int) -> None:
    """Let this process take no more memory, time and room on disk than reading such a file needs."""
    import resource

    mapped = Path("/proc/self/statm")  # where there is none, the system knows no such limit either
    if mapped.exists():
        used = int(mapped.read_text().split()[0]) * resource.getpagesize()
        _lower(resource.RLIMIT_AS, used + 3 * length + _MEMORY)
    _lower(resource.RLIMIT_CPU, _seconds(length))
    _lower(resource.RLIMIT_FSIZE, 2 * length + 1_000_000)


def _lower(limit: int, most: int) -> None:
    import resource

    _, hard = resource.getrlimit(limit)
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(limit, (most, most))


def _main(source: Path, target: Path) -> None:
    import torch

    from polyseme.weights import write_tensors

    _limit(source.stat().st_size)
    try:
        weights = torch.load(source, map_location="cpu", weights_only=True)
    except MemoryError:
        raise SystemExit("it takes too much memory") from None
    except Exception as error:  # whatever a hostile file brings about
        raise SystemExit(f"it does not hold weights alone: {type(error).__name__}") from None
    if not isinstance(weights, dict) or not all(
        isinstance(name, str) and type(tensor) in (torch.Tensor, torch.nn.Parameter) for name, tensor in weights.items()
    ):
        raise SystemExit("it holds something else than weights by name")
    try:
        write_tensors(target, {name: tensor.clone() for name, tensor in weights.items()})
    except (CheckpointError, MemoryError, RuntimeError) as error:
        raise SystemExit(str(error)) from None


if __name__ == "__main__":
    _main(*map(Path, sys.argv[1:]))
