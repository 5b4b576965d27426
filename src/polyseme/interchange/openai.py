"""OpenAI's GPT as it was published: ten files of numbers, and one that says how they are cut into weights."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path

import numpy as np
import torch

from polyseme.errors import CheckpointError
from polyseme.files import write_file
from polyseme.models.directory import CONFIG, WEIGHTS
from polyseme.weights import write_tensors

SHAPES = "params_shapes.json"
_HEAD_WIDTH = 64  # the files do not say how many heads there are
_MAX_SHAPES = 1_000_000  # bytes
# Positions and tokens, then these of each layer, each a matrix and a bias or a gain and a bias.
_LAYER = ("attn.c_attn", "attn.c_proj", "ln_1", "mlp.c_fc", "mlp.c_proj", "ln_2")


def convert_openai(source: Path, target: Path) -> None:
    """Write the published files as the transformers library has them."""
    shapes = _read_shapes(source / SHAPES)
    numbers = _read_numbers(source)
    sizes = [math.prod(shape) for shape in shapes]
    if sum(sizes) != len(numbers):
        raise CheckpointError(
            f"{source}: {SHAPES} asks for {sum(sizes):,} numbers and the files hold {len(numbers):,}; copy them again"
        )
    num_layers = (len(shapes) - 2) // (2 * len(_LAYER))
    names = ["positions_embed.weight", "tokens_embed.weight"]
    names += [f"h.{n}.{part}.{kind}" for n in range(num_layers) for part in _LAYER for kind in ("weight", "bias")]
    # Matrices are written as convolutions over one token, (1, in, out).
    parts = zip(np.split(numbers, np.cumsum(sizes)[:-1]), shapes, strict=True)
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
    write_tensors(target / WEIGHTS, weights)
    write_file(target / CONFIG, json.dumps(config, indent=2) + "\n")


def _read_shapes(path: Path) -> list[list[int]]:
    """The shapes, which are those of some GPT."""
    try:
        if path.stat().st_size > _MAX_SHAPES:
            raise ValueError
        shapes: list[list[int]] = json.loads(path.read_text(encoding="utf-8"))
        if (len(shapes) - 2) % (2 * len(_LAYER)) or len(shapes) == 2:
            raise ValueError
        dimensions = [2, 2, *[3, 1, 3, 1, 1, 1, 3, 1, 3, 1, 1, 1] * (len(shapes) // (2 * len(_LAYER)))]
        if [len(shape) for shape in shapes] != dimensions:
            raise ValueError
        if not all(type(number) is int and 0 < number < 1 << 31 for shape in shapes for number in shape):
            raise ValueError
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read ({error.strerror}); check the path") from None
    except (ValueError, TypeError, RecursionError):
        raise CheckpointError(f"{path} does not hold the shapes of a GPT; download it again") from None
    return shapes


def _read_numbers(source: Path) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    """All numbers in a row."""
    parts = []
    for number in itertools.count():
        path = source / f"params_{number}.npy"
        if not path.exists():
            break
        try:
            # Mapped, a file cannot promise more numbers than it has.
            part = np.load(path, mmap_mode="r", allow_pickle=False)
            if part.ndim != 1 or part.dtype != np.float32:
                raise ValueError
        except (OSError, ValueError, EOFError):
            raise CheckpointError(f"{path} is no array of numbers; download it again") from None
        parts.append(part)
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.float32)
