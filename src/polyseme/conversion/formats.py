"""The interface of import and export formats; `registry` lists them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from polyseme.inference.model import LoadedModel
from polyseme.training.pretrained_embeddings import PretrainedEmbeddings


@dataclass(frozen=True, kw_only=True)
class ImportOptions:
    """What a user allows or adds."""

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
