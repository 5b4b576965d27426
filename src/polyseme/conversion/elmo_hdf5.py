"""ELMo checkpoints of the original code, bilm-tf: `options.json`, and the weights in HDF5.

They contain both directions without the softmax layer, which was never released. A vocabulary file is optional.
"""

import functools
import json
import operator
import re
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from tokenizers import models
from torch import Tensor

from polyseme.conversion.formats import Exporter, Importer, ImportOptions, Parity, write_checkpoint
from polyseme.errors import CheckpointError, ConfigError
from polyseme.inference.model import LoadedModel
from polyseme.models.elmo import Elmo, ElmoConfig
from polyseme.models.hf_mapping import WeightRule
from polyseme.system.atomic_io import write_file
from polyseme.system.regular_files import check_regular
from polyseme.tokenization.config import TokenizerConfig
from polyseme.tokenization.json_files import read_lines
from polyseme.tokenization.tokenizer import Tokenizer
from polyseme.training.storage.model_dir import WEIGHTS, meta_device, read_json

_OPTIONS, _HDF5, _VOCABULARY = "options.json", "weights.hdf5", "vocab*.txt"  # the ends of the original names

_SPECIALS = ("<S>", "</S>", "<UNK>")
_RULES = (
    WeightRule("tokens.characters.weight", "char_embed"),
    WeightRule("tokens.filters.{n}.weight", "CNN/W_cnn_{n}", transposed=True),
    WeightRule("tokens.filters.{n}.bias", "CNN/b_cnn_{n}"),
    WeightRule("tokens.highways.{n}.carry.weight", "CNN_high_{n}/W_carry", transposed=True),
    WeightRule("tokens.highways.{n}.carry.bias", "CNN_high_{n}/b_carry"),
    WeightRule("tokens.highways.{n}.transform.weight", "CNN_high_{n}/W_transform", transposed=True),
    WeightRule("tokens.highways.{n}.transform.bias", "CNN_high_{n}/b_transform"),
    WeightRule("tokens.projection.weight", "CNN_proj/W_proj", transposed=True),
    WeightRule("tokens.projection.bias", "CNN_proj/b_proj"),
)
_OWN_GATES, _THEIR_GATES = "ifog", "igfo"  # bilm-tf calls the third j
_SETTINGS = {  # where options.json has each field of `ElmoConfig`
    "residual": ("lstm", "use_skip_connections"),
    "width": ("lstm", "projection_dim"),
    "cell_clip": ("lstm", "cell_clip"),
    "projection_clip": ("lstm", "proj_clip"),
    "cell_width": ("lstm", "dim"),
    "num_layers": ("lstm", "n_layers"),
    "filters": ("char_cnn", "filters"),
    "num_highways": ("char_cnn", "n_highway"),
    "character_width": ("char_cnn", "embedding", "dim"),
    "max_characters": ("char_cnn", "max_characters_per_token"),
}


def _find_files(folder: Path) -> tuple[Path, Path] | None:
    """The options and the weights in a folder, if it has both."""
    options, weights = (sorted(folder.glob(f"*{end}")) for end in (_OPTIONS, _HDF5))
    return (options[0], weights[0]) if options and weights else None


def require_hdf5() -> None:
    """Raise an error with the install command if h5py is missing."""
    if find_spec("h5py") is None:
        raise ConfigError("ELMo's checkpoints are HDF5 files; install h5py: pip install h5py")


def _convert(source: Path, target: Path, options: ImportOptions) -> None:
    """Write a model directory from the original files."""
    files = _find_files(source)
    assert files is not None
    require_hdf5()
    options_file, weights_file = files
    words = _read_vocabulary(source)
    config = _read_config(options_file, vocab_size=len(words))
    with meta_device():
        expected = Elmo(config).state_dict()
    shapes = {name: weight.shape for name, weight in _to_theirs(expected).items()}
    model = models.WordLevel({word: id for id, word in enumerate(words)}, unk_token=_SPECIALS[-1])
    tokenizer = Tokenizer.build(model, TokenizerConfig(kind="word", specials="elmo", lowercase=False))
    tokenizer.save(target, max_length=config.max_length)
    weights = _to_ours(_read_weights(weights_file, shapes), expected, config.width)
    weights["tokens.vocabulary"] = config.token_characters(tokenizer)
    write_checkpoint(target, {"model_type": "polyseme-elmo", **config.model_dump()}, weights)


def _write(model: LoadedModel, folder: Path, texts: Sequence[str] | None) -> tuple[Path, Parity | None]:
    """Write what AllenNLP and bilm-tf load, and the vocabulary, without the softmax layer."""
    import h5py

    encoder, tokenizer = model.encoder, model.require_tokenizer()
    path = folder / f"lm_{_HDF5}"
    with h5py.File(path, "w") as file:
        for name, weight in _to_theirs(encoder.state_dict()).items():
            file[name] = weight.cpu().numpy()
    write_file(folder / _OPTIONS, json.dumps(_options(encoder.config), indent=2) + "\n")
    words = [tokenizer.token(id) for id in range(tokenizer.vocab_size)]
    write_file(folder / _VOCABULARY.replace("*", ""), "".join(f"{word}\n" for word in words))
    return path, None


def _options(config: ElmoConfig) -> dict[str, Any]:
    options: dict[str, Any] = {"lstm": {}, "char_cnn": {"activation": "relu", "embedding": {}}}
    options["char_cnn"]["n_characters"] = 262  # AllenNLP prepends a zero row for padding to the 261 of the table
    for name, (*groups, key) in _SETTINGS.items():
        functools.reduce(operator.getitem, groups, options)[key] = getattr(config, name)
    return options


def _read_config(path: Path, *, vocab_size: int) -> ElmoConfig:
    options = read_json(path)
    try:
        activation = options["char_cnn"].get("activation")
        if activation != "relu":
            raise ConfigError(f"activation = {activation!r} is not supported, only 'relu'")
        values = {name: functools.reduce(operator.getitem, path, options) for name, path in _SETTINGS.items()}
        return ElmoConfig.parse({"vocab_size": vocab_size, **values}, group=_OPTIONS)
    except ConfigError as error:
        raise CheckpointError(f"{path}: {error}") from None
    except (KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{path} does not describe a character-based ELMo ({error}); download it again") from None


def _read_vocabulary(folder: Path) -> list[str]:
    """The words of the vocabulary file after missing special tokens; without a file, only these."""
    words: dict[str, None] = {}
    for path in sorted(folder.glob(_VOCABULARY))[:1]:
        words = dict.fromkeys(filter(None, read_lines(path)))
    return [*(word for word in _SPECIALS if word not in words), *words]


def _read_weights(path: Path, shapes: Mapping[str, torch.Size]) -> dict[str, Tensor]:
    """Read the weights with the shapes that options.json implies."""
    import h5py

    weights = {}
    try:
        with h5py.File(check_regular(path), "r") as file:
            for name, shape in shapes.items():
                dataset = _find_dataset(file, name)
                if dataset is None or dataset.shape != tuple(shape):
                    actual = getattr(dataset, "shape", "missing")
                    raise CheckpointError(
                        f"{path}: the shape of {name} is {actual} and {_OPTIONS} implies {tuple(shape)}; "
                        "the two files do not belong together"
                    )
                weights[name] = torch.from_numpy(dataset.astype("float32")[...])
    except (OSError, RuntimeError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{path} is a damaged HDF5 file ({error}); download it again") from None
    return weights


def _find_dataset(file: Any, name: str) -> Any:
    """A dataset of an HDF5 file; None if there is none, or if it refers to other files."""
    import h5py

    place = file
    for part in name.split("/"):
        if not isinstance(place, h5py.Group) or not isinstance(place.get(part, getlink=True), h5py.HardLink):
            return None
        place = place[part]
    refers = isinstance(place, h5py.Dataset) and (place.external or place.is_virtual)
    return place if isinstance(place, h5py.Dataset) and not refers else None


def _to_theirs(ours: Mapping[str, Tensor]) -> dict[str, Tensor]:
    theirs = {}
    for rule, name, their_name in _renamed_weights(ours):
        weight = ours[name]
        theirs[their_name] = weight.permute(2, 1, 0)[None] if weight.dim() == 3 else rule.transpose(weight)
    for lstm, cell in _cells(ours):
        both = torch.cat([ours[f"{lstm}.input"], ours[f"{lstm}.recurrent"]], 1)
        theirs[f"{cell}/W_0"] = _reorder_gates(both, _OWN_GATES, _THEIR_GATES).T
        theirs[f"{cell}/B"] = _reorder_gates(ours[f"{lstm}.bias"], _OWN_GATES, _THEIR_GATES)
        theirs[f"{cell}/W_P_0"] = ours[f"{lstm}.projection"].T
    return theirs


def _to_ours(theirs: Mapping[str, Tensor], expected: Mapping[str, Tensor], width: int) -> dict[str, Tensor]:
    ours = {}
    for rule, name, their_name in _renamed_weights(expected):
        weight = theirs[their_name]
        ours[name] = weight[0].permute(2, 1, 0) if weight.dim() == 4 else rule.transpose(weight)
    for lstm, cell in _cells(expected):
        both = _reorder_gates(theirs[f"{cell}/W_0"].T, _THEIR_GATES, _OWN_GATES)
        ours[f"{lstm}.input"], ours[f"{lstm}.recurrent"] = torch.split(both, width, 1)
        ours[f"{lstm}.bias"] = _reorder_gates(theirs[f"{cell}/B"], _THEIR_GATES, _OWN_GATES)
        ours[f"{lstm}.projection"] = theirs[f"{cell}/W_P_0"].T
    return ours


def _renamed_weights(ours: Mapping[str, Tensor]) -> Iterator[tuple[WeightRule, str, str]]:
    """The rule, our name and bilm-tf's name of each weight outside the LSTMs."""
    for name in ours:
        for rule in _RULES:
            for their_name in rule.their_names(name):
                yield rule, name, their_name


def _cells(ours: Mapping[str, Tensor]) -> Iterator[tuple[str, str]]:
    """Our name and bilm-tf's name of each layer and direction."""
    for name in ours:
        if match := re.fullmatch(r"(layers\.(\d+)\.([01]))\.bias", name):
            yield match[1], f"RNN_{match[3]}/RNN/MultiRNNCell/Cell{match[2]}/LSTMCell"


def _reorder_gates(weight: Tensor, source: str, target: str) -> Tensor:
    parts = dict(zip(source, weight.chunk(4), strict=True))
    return torch.cat([parts[gate] for gate in target])


IMPORTER = Importer(
    description="an ELMo of the original code",
    detect=lambda source, options: _find_files(source) is not None and not (source / WEIGHTS).exists(),
    convert=_convert,
)
EXPORTER = Exporter(write=_write, family="elmo", check_packages=require_hdf5)
