"""The interface of import and export formats; `registry` lists them."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from polyseme.inference.model import LoadedModel
from polyseme.system.atomic_io import write_file
from polyseme.system.safetensors_io import write_tensors
from polyseme.training.pretrained_embeddings import PretrainedEmbeddings
from polyseme.training.storage.model_dir import CONFIG, WEIGHTS


@dataclass(frozen=True, kw_only=True)
class ImportOptions:
    """Options of `polyseme import`."""

    read_pickle: bool = False  # whether pickled weights are read, in the sandbox
    embeddings: PretrainedEmbeddings | None = None  # the input vectors of a CoVe


@dataclass(frozen=True, kw_only=True)
class Importer:
    """A checkpoint format that has to be converted before it can be loaded."""

    description: str
    detect: Callable[[Path, ImportOptions], bool]  # by the source, a directory or a file
    convert: Callable[[Path, Path, ImportOptions], None]  # from the source to a model directory
    flags: str = ""  # of `polyseme import`


@dataclass(frozen=True, kw_only=True)
class Parity:
    """How close the mean vectors of an exported graph are to those of the model."""

    num_texts: int
    max_difference: float
    min_cosine: float


@dataclass(frozen=True, kw_only=True)
class Exporter:
    """An export format: a file, or a directory."""

    write: Callable[[LoadedModel, Path, Sequence[str] | None], tuple[Path, Parity | None]]  # texts to check a graph on
    family: str | None = None  # None: any
    single_file: bool = False
    check_packages: Callable[[], None] = lambda: None  # raises an error if an optional package is missing


def write_checkpoint(folder: Path, config: Mapping[str, Any], weights: Mapping[str, Tensor]) -> None:
    """Write the config and weights of a model directory."""
    write_tensors(folder / WEIGHTS, weights)
    write_file(folder / CONFIG, json.dumps(config, indent=2) + "\n")
