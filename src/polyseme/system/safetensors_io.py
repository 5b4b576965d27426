"""Reading and writing of safetensors files; the header is checked before anything is allocated."""

import json
import math
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
_BYTES = {"F64": 8, "I64": 8, "U64": 8, "F32": 4, "I32": 4, "U32": 4, "F16": 2, "BF16": 2, "I16": 2, "U16": 2}
_BYTES |= {"I8": 1, "U8": 1, "BOOL": 1}

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
            header = json.loads(file.read(header_length), object_pairs_hook=_without_duplicates)
    except (ValueError, RecursionError):
        raise CheckpointError(f"{path} is not a safetensors file (invalid header); save or download it again") from None
    return _check_header(path, header, size - 8 - header_length)


def _without_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    if len({name for name, _ in pairs}) != len(pairs):
        raise ValueError
    return dict(pairs)


def _check_header(path: Path, header: object, num_bytes: int) -> Shapes:
    broken = CheckpointError(f"{path} has an inconsistent header; save or download it again")
    if not isinstance(header, dict):
        raise broken
    header.pop("__metadata__", None)
    if len(header) > _MAX_TENSORS:
        raise CheckpointError(
            f"{path} holds {len(header):,} tensors, more than the allowed {_MAX_TENSORS:,}; save fewer tensors"
        )
    shapes: Shapes = {}
    spans = []
    try:
        for name, entry in header.items():
            shape, (begin, end), width = entry["shape"], entry["data_offsets"], _BYTES[entry["dtype"]]
            plausible = len(shape) <= _MAX_DIMENSIONS and len(name) <= 512 and name.isprintable()
            plausible &= all(type(number) is int and 0 <= number < 1 << 63 for number in (*shape, begin, end))
            # The product of thousands of dimensions would take long.
            if not plausible or end - begin != math.prod(shape) * width:
                raise broken
            shapes[name] = tuple(shape)
            spans.append((begin, end))
    except (KeyError, TypeError, ValueError):
        raise broken from None
    position = 0
    for begin, end in sorted(spans):
        if begin != position:
            raise broken
        position = end
    if position > num_bytes:
        raise CheckpointError(
            f"{path} is truncated ({format_bytes(num_bytes)} of {format_bytes(position)}); save or download it again"
        )
    if position < num_bytes:
        raise broken
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
