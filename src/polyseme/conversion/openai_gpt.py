"""OpenAI's original GPT checkpoint: ten `.npy` files of concatenated weights, and a JSON file with their shapes."""

import itertools
import math
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
from pydantic import Field, TypeAdapter

from polyseme.conversion.formats import Importer, ImportOptions, write_checkpoint
from polyseme.errors import CheckpointError
from polyseme.system.io_errors import readable
from polyseme.system.regular_files import check_regular, read_regular
from polyseme.training.storage.model_dir import WEIGHTS

_SHAPES = "params_shapes.json"
_HEAD_WIDTH = 64  # the files do not contain the number of heads
_MAX_SHAPES_BYTES = 1_000_000
# Positions and tokens, then these for each layer, each a matrix and a bias or a gain and a bias.
_LAYER = ("attn.c_attn", "attn.c_proj", "ln_1", "mlp.c_fc", "mlp.c_proj", "ln_2")


def _convert(source: Path, target: Path, options: ImportOptions) -> None:
    """Write the weights under the names of the transformers library."""
    shapes = _read_shapes(source / _SHAPES)
    values = _read_values(source)
    sizes = [math.prod(shape) for shape in shapes]
    if sum(sizes) != len(values):
        raise CheckpointError(
            f"{source}: {_SHAPES} describes {sum(sizes):,} parameters and the files contain {len(values):,}; "
            "download them again"
        )
    num_layers = (len(shapes) - 2) // (2 * len(_LAYER))
    names = ["positions_embed.weight", "tokens_embed.weight"]
    names += [f"h.{n}.{part}.{kind}" for n in range(num_layers) for part in _LAYER for kind in ("weight", "bias")]
    # Matrices are stored as convolution kernels of size one, (1, in, out).
    parts = zip(np.split(values, np.cumsum(sizes)[:-1]), shapes, strict=True)
    arrays = [part.reshape(shape[1:] if len(shape) == 3 else shape) for part, shape in parts]
    weights = {name: torch.from_numpy(array) for name, array in zip(names, arrays, strict=True)}
    (max_length, width), (vocab_size, _) = shapes[:2]
    config = {
        "model_type": "openai-gpt",
        "vocab_size": vocab_size,
        "n_positions": max_length,
        "n_embd": width,
        "n_layer": num_layers,
        "n_head": max(1, width // _HEAD_WIDTH),
        "afn": "gelu",
    }
    write_checkpoint(target, config, weights)


def _read_shapes(path: Path) -> list[list[int]]:
    """Read the shapes and check that they are those of a GPT."""
    try:
        with readable(path, kind=CheckpointError):
            content = read_regular(path, limit=_MAX_SHAPES_BYTES)
        shapes = TypeAdapter(list[list[Annotated[int, Field(gt=0, lt=1 << 31)]]]).validate_json(content, strict=True)
        dimensions = [2, 2, *[3, 1, 3, 1, 1, 1, 3, 1, 3, 1, 1, 1] * (len(shapes) // (2 * len(_LAYER)))]
        if len(shapes) == 2 or [len(shape) for shape in shapes] != dimensions:
            raise ValueError
    except ValueError:
        raise CheckpointError(f"{path} does not contain the shapes of a GPT; download it again") from None
    return shapes


def _read_values(source: Path) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    """All parameters, concatenated."""
    parts = []
    paths = (source / f"params_{number}.npy" for number in itertools.count())
    for path in itertools.takewhile(Path.exists, paths):
        try:
            # Memory-mapped, a file cannot declare more values than it has.
            part = np.load(check_regular(path), mmap_mode="r", allow_pickle=False)
            if part.ndim != 1 or part.dtype != np.float32:
                raise ValueError
        except (OSError, ValueError, EOFError):
            raise CheckpointError(f"{path} is not a vector of float32 values; download it again") from None
        parts.append(part)
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.float32)


IMPORTER = Importer(
    description="OpenAI's original GPT checkpoint",
    detect=lambda source, options: (source / _SHAPES).exists() and not (source / WEIGHTS).exists(),
    convert=_convert,
)
