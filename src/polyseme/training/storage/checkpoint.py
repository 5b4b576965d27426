"""Checkpoints: each is a folder that is written atomically, with a checksum of every file."""

import hashlib
import json
import logging
import math
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from polyseme.errors import CheckpointError
from polyseme.learner import LearnerState
from polyseme.system.atomic_io import atomic_folder, require_space, sha256
from polyseme.system.hardware import num_cores
from polyseme.system.safetensors_io import read_tensors, write_tensors

logger = logging.getLogger(__name__)

MANIFEST = "manifest.json"
_NUM_RECENT = 2


def fingerprint(*, data: str, recipe: str) -> dict[str, Any]:
    """What must be the same for a resumed run to be bit for bit the same."""
    return {
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "cores": num_cores(),
        "capability": torch.backends.cpu.get_cpu_capability(),
        "processes": 1,
        "dtype": "float32",
        "data": data,
        "recipe": recipe,
    }


def save_checkpoint(
    folder: Path, state: LearnerState, *, step: int, fingerprint: Mapping[str, Any], dev_loss: float | None = None
) -> Path:
    """Write a checkpoint, and delete all but the last two and the best."""
    folder.mkdir(exist_ok=True)
    num_bytes = sum(t.numel() * t.element_size() for group in state.tensors.values() for t in group.values())
    require_space(folder, num_bytes, CheckpointError)
    path = folder / f"{step:07d}"
    if path.exists():  # invalid, or of the same step
        shutil.rmtree(path)
    with atomic_folder(path) as partial:
        for group, tensors in state.tensors.items():
            if tensors:  # the optimizer has none before the first step
                write_tensors(partial / f"{group}.safetensors", tensors)
        manifest = {
            "step": step,
            "values": state.values,
            "files": {file.name: sha256(file) for file in sorted(partial.iterdir())},
            "dev_loss": dev_loss,
            "fingerprint": dict(fingerprint),
        }
        manifest["sha256"] = _digest(manifest)
        (partial / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n")
    _prune(folder, path)
    return path


def load_checkpoint(folder: Path, *, best: bool = False) -> tuple[LearnerState, dict[str, Any]] | None:
    """Load the last valid checkpoint, or the one with the best validation, and its manifest; None without any."""
    paths = _paths(folder)[::-1]
    for path in sorted(paths, key=_dev_loss) if best else paths:
        try:
            manifest = json.loads((path / MANIFEST).read_text())
            if _digest(manifest) != manifest["sha256"]:
                raise CheckpointError(f"{path / MANIFEST} is damaged")
            for name, digest in manifest["files"].items():
                if sha256(path / name) != digest:
                    raise CheckpointError(f"{path / name} is damaged")
            tensors = {name.removesuffix(".safetensors"): read_tensors(path / name) for name in manifest["files"]}
            return LearnerState(tensors=tensors, values=manifest["values"]), manifest
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, CheckpointError) as error:
            logger.warning("checkpoint %s cannot be used (%s); trying an earlier one", path, error)
    return None


def _paths(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    return sorted(
        (path for path in folder.iterdir() if re.fullmatch(r"\d{7,}", path.name)), key=lambda path: int(path.name)
    )


def _digest(manifest: Mapping[str, Any]) -> str:
    content = {name: value for name, value in manifest.items() if name != "sha256"}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _prune(folder: Path, newest: Path) -> None:
    paths = _paths(folder)
    for path in paths[paths.index(newest) + 1 :]:  # later ones, which could not be read when the run resumed
        shutil.rmtree(path, ignore_errors=True)
    paths = paths[: paths.index(newest) + 1]
    losses = {path: _dev_loss(path) for path in paths}
    best = min(paths, key=lambda path: losses[path])
    for path in paths[:-_NUM_RECENT]:
        if path != best or losses[path] == math.inf:
            shutil.rmtree(path, ignore_errors=True)


def _dev_loss(path: Path) -> float:
    try:
        loss = float(json.loads((path / MANIFEST).read_text())["dev_loss"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return math.inf
    return loss if math.isfinite(loss) else math.inf
