"""A model directory: a transformers checkpoint wherever that library knows the family.

It has `config.json`, `model.safetensors` and the files of the tokenizer; families that transformers lacks have the same
files with model types of our own. Recipe and model card are written by the training session.
"""

import json
import logging
import math
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from polyseme.config import Config, suggest_name
from polyseme.errors import CheckpointError, ConfigError
from polyseme.families import FAMILIES
from polyseme.models.base import Encoder, ModelConfig
from polyseme.system.atomic_io import atomic_file, write_file
from polyseme.system.io_errors import readable
from polyseme.system.regular_files import read_regular
from polyseme.system.safetensors_io import Shapes, read_shapes, read_tensors, write_tensors

logger = logging.getLogger(__name__)

CONFIG, WEIGHTS = "config.json", "model.safetensors"
ConfigT = TypeVar("ConfigT", bound=Config)

_PREFIX = "polyseme-"
_MAX_CONFIG = 1_000_000
_MAX_SHARED_LAYERS = 100  # that share their weights


def write_model(folder: Path, *, family: str, encoder: Encoder, heads: nn.Module, extra: Mapping[str, Any]) -> None:
    """Write weights and config.json, with further settings in `extra`."""
    ours = {**encoder.state_dict(), **heads.state_dict()}
    hf_mapping = encoder.hf_mapping and encoder.hf_mapping.for_heads(heads)
    if hf_mapping is None:
        config = {"model_type": _PREFIX + family, **encoder.config.model_dump()}
    else:
        config = hf_mapping.settings_to(encoder.config.model_dump(), dict(heads.named_children()))
        ours = hf_mapping.weights_to(ours)
    folder.mkdir(parents=True, exist_ok=True)
    with atomic_file(folder / WEIGHTS) as partial:
        write_tensors(partial, ours, metadata={"format": "pt"})
    write_file(folder / CONFIG, json.dumps({**config, "dtype": "float32", **extra}, indent=2) + "\n")


@dataclass(frozen=True, kw_only=True)
class ModelFiles:
    """A model directory of which only config and weight shapes have been read."""

    folder: Path
    family: str
    encoder: Encoder  # on the meta device
    shapes: Shapes

    def load(self, heads: nn.Module) -> tuple[Encoder, set[str]]:
        """Load the weights of the encoder, and of the heads as far as present; return the names of the latter."""
        hf_mapping = self.encoder.hf_mapping and self.encoder.hf_mapping.for_heads(heads)
        file = self.folder / WEIGHTS
        expected = {**self.encoder.state_dict(), **heads.state_dict()}
        theirs = {(hf_mapping.full_name(name) if hf_mapping else name): name for name in self.shapes}
        names = {name: hf_mapping.names_of(name) if hf_mapping else [name] for name in expected}
        wanted = [theirs[part] for parts in names.values() for part in parts if part in theirs]
        weights = read_tensors(file, wanted)
        if hf_mapping:
            weights = hf_mapping.weights_from(expected, theirs, weights.__getitem__)
        for name, tensor in weights.items():
            if tensor.shape != expected[name].shape:
                raise CheckpointError(
                    f"{file}: {names[name][0]} has shape {tuple(tensor.shape)} where config.json implies "
                    f"{tuple(expected[name].shape)}; use the files of one model"
                )
            if not torch.isfinite(tensor).all():
                raise CheckpointError(f"{file}: {names[name][0]} is not finite; use another checkpoint")
        weights = {name: tensor.to(expected[name].dtype).contiguous() for name, tensor in weights.items()}
        self._load_encoder(weights)
        unused = sorted(set(self.shapes) - set(wanted))
        unused = [name for name in unused if not (hf_mapping and re.fullmatch(hf_mapping.ignored_weights, name))]
        if unused:
            logger.warning("%s has %d unused weights, such as %s", file, len(unused), unused[0])
        found = weights.keys() & heads.state_dict().keys()
        heads.load_state_dict({name: weights[name] for name in found}, strict=False, assign=True)
        return self.encoder, found

    def _load_encoder(self, weights: Mapping[str, Tensor]) -> None:
        own = self.encoder.state_dict()
        weights = {name: tensor for name, tensor in weights.items() if name in own}
        optional = self.encoder.hf_mapping.optional_weights if self.encoder.hf_mapping else ()
        missing = [name for name in own if name not in weights and name not in optional]
        if missing:
            raise CheckpointError(
                f"{self.folder / WEIGHTS} lacks {len(missing)} weights of the model, such as {missing[0]}; "
                "save or download the directory again"
            )
        initialized = {name: torch.zeros(own[name].shape).normal_(std=0.02) for name in own if name not in weights}
        if initialized:
            logger.warning("%s has no %s: initialized randomly", self.folder, ", ".join(initialized))
        self.encoder.load_state_dict({**weights, **initialized}, assign=True)


@contextmanager
def meta_device() -> Iterator[None]:
    """Build modules on torch's meta device, without allocating or initializing weights."""
    with torch.device("meta"), _WithoutInitialization():
        yield


class _WithoutInitialization(TorchFunctionMode):
    """Skips random initialization, which on the meta device makes torch load its compiler for over a second."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if getattr(function, "__name__", "") in ("normal_", "trunc_normal_", "uniform_", "kaiming_uniform_"):
            return args[0] if args else kwargs["tensor"]
        return function(*args, **kwargs)


def open_model(folder: Path, *, family: str | None = None) -> ModelFiles:
    """Read the config of a model directory, and check it against the header of the weights."""
    if not folder.is_dir():
        raise CheckpointError(f"{folder} is not a folder; give the directory of a model or run")
    config = read_json(folder / CONFIG)
    model_type = str(config.get("model_type"))
    family = family or _family_of(model_type, folder)
    encoder_class = FAMILIES[family]
    hf_mapping = encoder_class.hf_mapping
    shapes = read_shapes(folder / WEIGHTS)
    try:
        known = encoder_class.Config.model_fields
        settings = hf_mapping.settings_from(config) if hf_mapping else {k: v for k, v in config.items() if k in known}
        sizes = encoder_class.Config.parse(settings, group=CONFIG)
        encoder = outline_encoder(family, sizes, shapes)
    except ConfigError as error:
        raise CheckpointError(f"{folder / CONFIG}: {error}; use the files of one model") from None
    return ModelFiles(folder=folder, family=family, encoder=encoder, shapes=shapes)


def outline_encoder(family: str, sizes: ModelConfig, shapes: Shapes) -> Encoder:
    """Build an encoder on the meta device, after checking that saved weights of these shapes suffice for it."""
    encoder_class = FAMILIES[family]
    # A billion layers take forever to build, even on the meta device.
    if getattr(sizes, "num_layers", 0) > max(len(shapes), _MAX_SHARED_LAYERS):
        raise ConfigError("it has more layers than weights were saved")
    try:
        with meta_device():
            encoder = encoder_class(sizes)
    except (TypeError, RuntimeError, OverflowError):  # raised by torch for impossible sizes
        raise ConfigError("the sizes of the model are too large") from None
    optional = encoder.hf_mapping.optional_weights if encoder.hf_mapping else ()
    expected = sum(weight.numel() for name, weight in encoder.named_parameters() if name not in optional)
    present = sum(map(math.prod, shapes.values()))
    if expected > present:  # checked before heads of that size are built
        raise ConfigError(f"it describes {expected:,} parameters, and {present:,} were saved")
    return encoder


def read_json(path: Path) -> dict[str, Any]:
    """Read a small JSON object from a directory of unknown origin."""
    try:
        with readable(path, kind=CheckpointError):
            if not path.exists():
                raise CheckpointError(f"{path.parent} has no {path.name}; give the directory of a model or run")
            content = json.loads(read_regular(path, limit=_MAX_CONFIG))
    except (ValueError, RecursionError):
        raise CheckpointError(f"{path} is not JSON; save or download it again") from None
    if not isinstance(content, dict):
        raise CheckpointError(f"{path} is not a JSON object; save or download it again")
    return content


def read_record(kind: type[ConfigT], path: Path) -> ConfigT:
    """Read a JSON file with a closed schema."""
    try:
        return kind.parse(read_json(path), group=path.name)
    except ConfigError as error:
        raise CheckpointError(f"{path.parent}: {error}; restore the file that the run wrote") from None


def _family_of(model_type: str, folder: Path) -> str:
    families = reversed(FAMILIES.items())
    known = {(one.hf_mapping.model_type if one.hf_mapping else _PREFIX + name): name for name, one in families}
    if model_type not in known:
        raise CheckpointError(f"{folder}: model_type {model_type!r} is unknown{suggest_name(model_type, known)}")
    return known[model_type]
