"""Reading pickled weights, which may be malicious, in a subprocess with limited memory, time and disk space."""

import subprocess
import sys
from pathlib import Path

from polyseme.errors import CheckpointError
from polyseme.system.regular_files import check_regular

_MEMORY = 500_000_000  # bytes beyond three times the size of the file
_SECONDS = 20  # of processor time, and one for every ten megabytes
_PATIENCE = 10  # wall-clock time relative to processor time, for a busy machine


def as_safetensors(weights: Path, scratch: Path, *, read_pickle: bool) -> Path:
    """The weights as a safetensors file, unpickled into a scratch folder if need be."""
    if weights.suffix == ".safetensors":
        return weights
    if not read_pickle:
        raise CheckpointError(
            f"{weights} is a pickle, which can execute code when it is loaded; add --pickle to read it in a sandbox"
        )
    unpickle(weights, scratch / "unpickled.safetensors")
    return scratch / "unpickled.safetensors"


def unpickle(source: Path, target: Path) -> None:
    """Convert pickled weights to safetensors."""
    command = [sys.executable, "-P", "-m", __name__, str(source), str(target)]
    seconds = _PATIENCE * _processor_seconds(check_regular(source).stat().st_size)
    try:
        process = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        raise CheckpointError(f"{source} was not read within {seconds} s; use the model in safetensors") from None
    if process.returncode or not target.exists():
        reason = (process.stderr.strip().splitlines() or ["the subprocess was killed"])[-1]
        raise CheckpointError(f"{source} is refused ({reason:.200}); use the model in safetensors")


def _processor_seconds(num_bytes: int) -> int:
    return _SECONDS + num_bytes // 10_000_000


def _limit_resources(num_bytes: int) -> None:
    """Limit memory, processor time and file size of this process to what reading such a file needs."""
    import resource

    limits = {resource.RLIMIT_CPU: _processor_seconds(num_bytes), resource.RLIMIT_FSIZE: 2 * num_bytes + 1_000_000}
    statm = Path("/proc/self/statm")  # only Linux has it, and enforces the limit
    if statm.exists():
        used = int(statm.read_text().split()[0]) * resource.getpagesize()
        limits[resource.RLIMIT_AS] = used + 3 * num_bytes + _MEMORY
    for kind, limit in limits.items():
        _, hard = resource.getrlimit(kind)
        value = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.setrlimit(kind, (value, value))


def _main(source: Path, target: Path) -> None:
    import torch

    from polyseme.system.safetensors_io import write_tensors

    _limit_resources(source.stat().st_size)
    try:
        weights = torch.load(source, map_location="cpu", weights_only=True)
    except MemoryError:
        raise SystemExit("it needs too much memory") from None
    except Exception as error:  # a malicious file can raise anything
        raise SystemExit(f"it contains more than weights: {type(error).__name__}") from None
    if not isinstance(weights, dict) or not all(
        isinstance(name, str) and type(tensor) in (torch.Tensor, torch.nn.Parameter) for name, tensor in weights.items()
    ):
        raise SystemExit("it is not a dictionary of tensors")
    try:
        write_tensors(target, {name: tensor.clone() for name, tensor in weights.items()})
    except (CheckpointError, MemoryError, RuntimeError) as error:
        raise SystemExit(str(error)) from None


if __name__ == "__main__":
    _main(*map(Path, sys.argv[1:]))
