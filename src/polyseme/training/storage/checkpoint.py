"""Checkpoints: each is a folder that is written atomically, with a checksum of every file."""

import hashlib
import json
import logging
import math
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from pydantic import ConfigDict, Field

from polyseme.config import Config
from polyseme.errors import CheckpointError
from polyseme.learner import LearnerState
from polyseme.system.atomic_io import atomic_folder, require_space, sha256
from polyseme.system.hardware import num_cores
from polyseme.system.safetensors_io import Shapes, read_shapes, read_tensors, write_tensors
from polyseme.training.storage.manifest import MANIFEST, FileName, FileRecord, Sha256
from polyseme.training.storage.model_dir import read_json, read_record

logger = logging.getLogger(__name__)

_NUM_RECENT = 2
_WEIGHTS = "weights.safetensors"


class Validation(Config):
    """The loss of a validation, by which the best checkpoint is selected."""

    model_config = ConfigDict(strict=True, allow_inf_nan=True)

    step: int = Field(ge=0)
    loss: float


class CheckpointManifest(Config):
    """The contents of a checkpoint beside its tensors."""

    model_config = ConfigDict(strict=True, allow_inf_nan=True)

    step: int = Field(ge=0)
    values: dict[str, int | float]  # of the learner
    files: dict[FileName, Sha256]
    dev_loss: float | None
    validations: list[Validation] = Field(default_factory=list)  # of the run so far
    best: int | None = None  # step of the checkpoint with the lowest dev loss so far
    fingerprint: dict[str, int | str]
    history: FileRecord | None = None  # the rows of the history so far
    sha256: Sha256  # of all that is above


def fingerprint(*, data: str, recipe: str) -> dict[str, Any]:
    """What must be the same for a resumed run to be bit for bit the same."""
    return {
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "cores": num_cores(),
        "capability": torch.backends.cpu.get_cpu_capability(),
        "dtype": "float32",
        "data": data,
        "recipe": recipe,
    }


def save_checkpoint(
    folder: Path,
    state: LearnerState,
    *,
    step: int,
    fingerprint: Mapping[str, Any],
    dev_loss: float | None = None,
    validations: Sequence[Validation] = (),
    history: FileRecord | None = None,
) -> Path:
    """Write a checkpoint, and delete all but the last two and the best."""
    folder.mkdir(exist_ok=True)
    num_bytes = sum(t.numel() * t.element_size() for group in state.tensors.values() for t in group.values())
    require_space(folder, num_bytes, CheckpointError)
    path = folder / f"{step:07d}"
    if path.exists():  # invalid, or of the same step
        shutil.rmtree(path)
    best = _best_step(folder, step, dev_loss)
    with atomic_folder(path) as partial:
        for group, tensors in state.tensors.items():
            if tensors:  # the optimizer has none before the first step
                write_tensors(partial / f"{group}.safetensors", tensors)
        manifest = {
            "step": step,
            "values": state.values,
            "files": {file.name: sha256(file) for file in sorted(partial.iterdir())},
            "dev_loss": dev_loss,
            "validations": [validation.model_dump() for validation in validations],
            "best": best,
            "fingerprint": dict(fingerprint),
            "history": history and history.model_dump(),
        }
        manifest["sha256"] = _digest(manifest)
        (partial / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n")
    _prune(folder, path, best)
    return path


def load_checkpoint(folder: Path, *, best: bool = False) -> tuple[LearnerState, CheckpointManifest] | None:
    """Load the last valid checkpoint, or the one with the best validation, and its manifest; None without any."""
    found = find_best_checkpoint(folder) if best else _find_last(folder)
    if found is None:
        return None
    path, manifest = found
    tensors = {name.removesuffix(".safetensors"): read_tensors(path / name) for name in manifest.files}
    return LearnerState(tensors=tensors, values=manifest.values), manifest


def find_best_checkpoint(folder: Path) -> tuple[Path, CheckpointManifest] | None:
    """The checkpoint with the best validation, or else the last valid one; an error if the best one is damaged."""
    last = _find_last(folder)
    if last is None or last[1].best is None:
        return last
    path = folder / f"{last[1].best:07d}"
    try:
        return path, _verify(path)
    except (OSError, CheckpointError) as error:
        raise CheckpointError(
            f"the best checkpoint of the run is damaged ({error}); restore it, or start a new run elsewhere"
        ) from None


def _find_last(folder: Path) -> tuple[Path, CheckpointManifest] | None:
    """The last valid checkpoint."""
    manifests = ((path, _find_manifest(path, _verify)) for path in reversed(_paths(folder)))
    return next(((path, manifest) for path, manifest in manifests if manifest), None)


def _verify(path: Path) -> CheckpointManifest:
    """The manifest of a checkpoint, after comparing the checksums of its files."""
    manifest = _read_manifest(path)
    for name, digest in manifest.files.items():
        if sha256(path / name) != digest:
            raise CheckpointError(f"{path / name} is damaged")
    return manifest


def checkpoint_shapes(folder: Path) -> Shapes | None:
    """The shapes of the weights in the last checkpoint that has some; None without any."""
    for path in _paths(folder)[::-1]:
        with suppress(CheckpointError):
            return read_shapes(path / _WEIGHTS)
    return None


def _find_manifest(path: Path, read: Callable[[Path], CheckpointManifest]) -> CheckpointManifest | None:
    """The manifest of a checkpoint; None, with a warning, if it is damaged."""
    try:
        return read(path)
    except (OSError, CheckpointError) as error:
        logger.warning("checkpoint %s cannot be used (%s)", path, error)
        return None


def _read_manifest(path: Path) -> CheckpointManifest:
    manifest = read_record(CheckpointManifest, path / MANIFEST)
    if _digest(read_json(path / MANIFEST)) != manifest.sha256:
        raise CheckpointError(f"{path / MANIFEST} is damaged")
    return manifest


def _paths(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    return sorted(
        (path for path in folder.iterdir() if re.fullmatch(r"\d{7,}", path.name)), key=lambda path: int(path.name)
    )


def _digest(manifest: Mapping[str, Any]) -> str:
    content = {name: value for name, value in manifest.items() if name != "sha256"}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _prune(folder: Path, newest: Path, best: int | None) -> None:
    paths = _paths(folder)
    for path in paths[paths.index(newest) + 1 :]:  # later ones, which could not be read when the run resumed
        shutil.rmtree(path, ignore_errors=True)
    for path in paths[: paths.index(newest) + 1][:-_NUM_RECENT]:
        if int(path.name) != best:
            shutil.rmtree(path, ignore_errors=True)


def _best_step(folder: Path, step: int, dev_loss: float | None) -> int | None:
    """The step of the checkpoint with the lowest finite dev loss up to a new one; the first of several.

    The last of several would depend on where a run was interrupted, because older checkpoints are deleted.
    """
    earlier = [path for path in _paths(folder) if int(path.name) < step]
    manifests = [manifest for path in earlier if (manifest := _find_manifest(path, _read_manifest))]
    losses = {manifest.step: manifest.dev_loss for manifest in manifests} | {step: dev_loss}
    finite = {number: loss for number, loss in losses.items() if loss is not None and math.isfinite(loss)}
    return min(finite, key=finite.__getitem__, default=None)
