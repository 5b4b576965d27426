"""Reading and writing of safetensors files; the header is checked before anything is allocated."""

import json
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from polyseme.errors import CheckpointError
from polyseme.system.formatting import format_bytes
from polyseme.system.io_errors import readable
from polyseme.system.regular_files import open_regular

_MAX_HEADER = 8_000_000
_MAX_TENSORS = 20_000
_MAX_DIMENSIONS = 8

Shapes = dict[str, tuple[int, ...]]


def read_shapes(path: Path) -> Shapes:
    """The shapes of the tensors in a file, after checking its header against its size."""
    try:
        with readable(path, kind=CheckpointError), open_regular(path) as file:
            size = path.stat().st_size
            start = file.read(8)
            header_length = struct.unpack("<Q", start)[0] if len(start) == 8 else 0
            if not 2 <= header_length <= min(_MAX_HEADER, size - 8):
                raise ValueError
            header = json.loads(file.read(header_length))
    except (ValueError, RecursionError):
        raise CheckpointError(f"{path} is not a safetensors file (invalid header); save or download it again") from None
    try:
        names = [name for name in header if name != "__metadata__"]
        if len(names) > _MAX_TENSORS:
            raise CheckpointError(
                f"{path} holds {len(names):,} tensors, more than the allowed {_MAX_TENSORS:,}; save fewer tensors"
            )
        end = max((header[name]["data_offsets"][1] for name in names), default=0)
        if end > (num_bytes := size - 8 - header_length):
            raise CheckpointError(
                f"{path} is truncated ({format_bytes(num_bytes)} of {format_bytes(end)}); save or download it again"
            )
        with safe_open(path, framework="np") as tensors:  # checks that sizes and offsets are consistent
            shapes = {name: tuple(tensors.get_slice(name).get_shape()) for name in names}
        if any(len(name) > 512 or not name.isprintable() or len(shapes[name]) > _MAX_DIMENSIONS for name in names):
            raise ValueError
    except (SafetensorError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        raise CheckpointError(f"{path} has an inconsistent header; save or download it again") from None
    return shapes


def read_tensors(path: Path, names: Iterable[str] | None = None) -> dict[str, Tensor]:
    """Read all tensors of a file, or some."""
    shapes = read_shapes(path)
    try:
        with safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in (shapes if names is None else names)}
    except SafetensorError as error:
        raise CheckpointError(f"{path} is not a safetensors file ({error}); save or download it again") from None


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> None:
    """Write tensors to a file; the caller renames it into place."""
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and not torch.isfinite(tensor).all():
            raise CheckpointError(f"{name} has non-finite values, so {path.name} is not saved; check the training loss")
    contiguous = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    try:
        save_file(contiguous, path, metadata=dict(metadata or {}))
    except SafetensorError as error:  # also if the disk is full
        raise CheckpointError(f"{path} cannot be written ({error}); make room or choose another disk") from None
    path.chmod(path.parent.stat().st_mode & 0o666)  # the library makes files readable by their owner only
