"""A model directory: a transformers checkpoint wherever that library knows the family.

`config.json`, `model.safetensors` and the tokenizer's files; the other families use the same files with
type names of our own. What else a directory holds (recipe, model card) is written by whoever trained it.
"""

from __future__ import annotations

import json
import logging
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from polyseme.config import nearest
from polyseme.errors import CheckpointError, ConfigError
from polyseme.files import sha256, sync_file, write_file
from polyseme.models import FAMILIES
from polyseme.models.base import Encoder
from polyseme.weights import Shapes, read_shapes, read_tensors, write_tensors

logger = logging.getLogger(__name__)

CONFIG, WEIGHTS, MANIFEST = "config.json", "model.safetensors", "manifest.json"
_OWN = "polyseme-"
_MAX_CONFIG = 1_000_000
_MOST_SHARED = 100  # layers that may share their weights


def write_model(folder: Path, *, family: str, encoder: Encoder, heads: nn.Module, extra: Mapping[str, Any]) -> None:
    """Write the weights and their config; `extra` is what else its config.json should say."""
    ours = {**encoder.state_dict(), **heads.state_dict()}
    foreign = encoder.foreign and encoder.foreign.naming(heads)
    if foreign is None:
        config = {"model_type": _OWN + family, **encoder.config.model_dump()}
    else:
        config = foreign.settings_to(encoder.config.model_dump(), dict(heads.named_children()))
        ours = foreign.weights_to(ours)
    folder.mkdir(parents=True, exist_ok=True)
    beside = folder / f".{WEIGHTS}.part"
    try:
        write_tensors(beside, ours, metadata={"format": "pt"})
        sync_file(beside)
        os.replace(beside, folder / WEIGHTS)
    finally:
        beside.unlink(missing_ok=True)
    write_file(folder / CONFIG, json.dumps({**config, "dtype": "float32", **extra}, indent=2) + "\n")


@dataclass(frozen=True, kw_only=True)
class ModelFiles:
    """A model directory whose config and header were read, and nothing else yet."""

    folder: Path
    family: str
    encoder: Encoder  # without weights
    shapes: Shapes

    def load(self, heads: nn.Module | None = None) -> tuple[Encoder, set[str]]:
        """Fill the encoder and as many of the heads as the file has; say which of their weights it has."""
        foreign = self.encoder.foreign and self.encoder.foreign.naming(heads)
        file = self.folder / WEIGHTS
        expected = {**self.encoder.state_dict(), **(heads.state_dict() if heads else {})}
        theirs = {(foreign.full_name(name) if foreign else name): name for name in self.shapes}
        if foreign is None:
            names = {name: [name] for name in expected}
        else:
            names = {name: foreign.names_of(name) for name in expected}
        wanted = [theirs[part] for parts in names.values() for part in parts if part in theirs]
        tensors = read_tensors(file, wanted)
        if foreign is None:
            weights = {name: tensors[name] for name in expected if name in tensors}
        else:
            weights = foreign.weights_from(expected, theirs, tensors.__getitem__)
        for name, tensor in weights.items():
            if tensor.shape != expected[name].shape:
                raise CheckpointError(
                    f"{file}: {names[name][0]} has shape {tuple(tensor.shape)} where config.json implies "
                    f"{tuple(expected[name].shape)}; the two files do not belong together"
                )
            if not torch.isfinite(tensor).all():
                raise CheckpointError(
                    f"{file}: {names[name][0]} holds numbers that are not finite; take another checkpoint"
                )
        weights = {name: tensor.to(expected[name].dtype).contiguous() for name, tensor in weights.items()}
        self._fill_encoder(weights)
        left = sorted(set(self.shapes) - set(wanted))
        left = [name for name in left if not (foreign and re.fullmatch(foreign.ignored, name))]
        if left and heads is not None:
            logger.warning("%s holds %d weights that are not used, such as %s", file, len(left), left[0])
        found = {name for name in weights if heads is not None and name in heads.state_dict()}
        if heads is not None:
            heads.load_state_dict({name: weights[name] for name in found}, strict=False, assign=True)
        return self.encoder, found

    def _fill_encoder(self, weights: Mapping[str, Tensor]) -> None:
        own = self.encoder.state_dict()
        weights = {name: tensor for name, tensor in weights.items() if name in own}
        fresh = self.encoder.foreign.fresh if self.encoder.foreign else ()
        missing = [name for name in own if name not in weights and name not in fresh]
        if missing:
            raise CheckpointError(
                f"{self.folder / WEIGHTS} lacks {len(missing)} weights that config.json implies, such as {missing[0]}; "
                "save or download the directory again"
            )
        started = {name: torch.zeros(own[name].shape).normal_(std=0.02) for name in own if name not in weights}
        if started:
            logger.warning("%s has no %s: started afresh", self.folder, ", ".join(started))
        self.encoder.load_state_dict({**weights, **started}, assign=True)


@contextmanager
def weightless() -> Iterator[None]:
    """Build modules on torch's meta device, where a terabyte takes no room."""
    with torch.device("meta"), _NotStarted():
        yield


class _NotStarted(TorchFunctionMode):
    """Draws no starting values: there they mean nothing, and make torch load its compiler for over a second."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if getattr(function, "__name__", "") in ("normal_", "trunc_normal_", "uniform_", "kaiming_uniform_"):
            return args[0] if args else kwargs["tensor"]
        return function(*args, **kwargs)


def open_model(folder: Path, *, family: str | None = None) -> ModelFiles:
    """Read what a directory says of its model, and check it against the weights' header."""
    if not folder.is_dir():
        raise CheckpointError(f"{folder} is not a folder; give the directory of a model or run")
    config = read_json(folder / CONFIG)
    model_type = str(config.get("model_type"))
    family = family or _family_of(model_type, folder)
    encoder_class = FAMILIES[family]
    foreign = encoder_class.foreign
    shapes = read_shapes(folder / WEIGHTS)
    try:
        known = encoder_class.Config.model_fields
        settings = foreign.settings_from(config) if foreign else {k: v for k, v in config.items() if k in known}
        sizes = encoder_class.Config.parse(settings, group=CONFIG)
        # Even without weights, a billion layers take forever to build.
        if getattr(sizes, "num_layers", 0) > max(len(shapes), _MOST_SHARED):
            raise ConfigError(f"{CONFIG} asks for more layers than {WEIGHTS} has weights")
        with weightless():
            encoder = encoder_class(sizes)
        fresh = foreign.fresh if foreign else ()
        asked = sum(weight.numel() for name, weight in encoder.named_parameters() if name not in fresh)
        held = sum(map(math.prod, shapes.values()))
        if asked > held:  # before heads of that size are built
            raise ConfigError(f"{CONFIG} asks for {asked:,} parameters and {WEIGHTS} holds {held:,}")
    except ConfigError as error:
        raise CheckpointError(f"{folder}: {error}") from None
    except (TypeError, RuntimeError, OverflowError):  # torch's words for sizes beyond all measure
        raise CheckpointError(f"{folder}: {CONFIG} makes no sense; save or download it again") from None
    return ModelFiles(folder=folder, family=family, encoder=encoder, shapes=shapes)


def write_manifest(folder: Path, names: Iterable[str]) -> None:
    """Note the checksums of what was written."""
    hashes = {name: sha256(folder / name) for name in names if (folder / name).exists()}
    write_file(folder / MANIFEST, json.dumps({"files": hashes}, indent=2) + "\n")


def changed_files(folder: Path) -> list[str]:
    """What is no longer as it was written; nothing is known of directories without a manifest."""
    if not (folder / MANIFEST).exists():
        return []
    hashes = read_json(folder / MANIFEST).get("files", {})
    return [name for name, digest in hashes.items() if not (folder / name).exists() or sha256(folder / name) != digest]


def read_json(path: Path) -> dict[str, Any]:
    """A small JSON object from a directory that somebody else may have written."""
    try:
        if path.stat().st_size > _MAX_CONFIG:
            raise CheckpointError(f"{path} is too large for a config file; save or download it again")
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CheckpointError(f"{path.parent} has no {path.name}; give the directory of a model or run") from None
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read ({error.strerror}); check its permissions") from None
    except (ValueError, RecursionError):
        raise CheckpointError(f"{path} is not JSON; save or download it again") from None
    if not isinstance(content, dict):
        raise CheckpointError(f"{path} is not a JSON object; save or download it again")
    return content


def _family_of(model_type: str, folder: Path) -> str:
    known = {foreign.model_type: name for name, encoder in reversed(FAMILIES.items()) if (foreign := encoder.foreign)}
    known |= {_OWN + name: name for name, encoder in FAMILIES.items() if encoder.foreign is None}
    if model_type not in known:
        raise CheckpointError(f"{folder}: model_type {model_type!r} is not known{nearest(model_type, known)}")
    return known[model_type]
