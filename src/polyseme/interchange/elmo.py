"""ELMo as its authors publish it: `options.json`, and the weights in HDF5 under the names of their program, bilm-tf.

Both directions, without the output layer, which was never published. A list of words may lie beside them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from tokenizers import models
from torch import Tensor, nn

from polyseme.errors import CheckpointError, ConfigError
from polyseme.files import write_file
from polyseme.models.directory import CONFIG, WEIGHTS, read_json, weightless
from polyseme.models.elmo import Elmo, ElmoConfig
from polyseme.models.names import Rename
from polyseme.text.published import Published
from polyseme.text.tokenizer import Tokenizer
from polyseme.text.vocabulary import TokenizerConfig
from polyseme.weights import write_tensors

OPTIONS, HDF5, WORDS = "options.json", "weights.hdf5", "vocab*.txt"
"""How the names of the published files end, and the list of words, which is not always among them."""

_SPECIALS = ("<S>", "</S>", "<UNK>")
_MAX_WORDS = 50_000_000  # bytes
_NAMES = (
    Rename("tokens.characters.weight", "char_embed"),
    Rename("tokens.filters.{n}.weight", "CNN/W_cnn_{n}", transposed=True),
    Rename("tokens.filters.{n}.bias", "CNN/b_cnn_{n}"),
    Rename("tokens.highways.{n}.carry.weight", "CNN_high_{n}/W_carry", transposed=True),
    Rename("tokens.highways.{n}.carry.bias", "CNN_high_{n}/b_carry"),
    Rename("tokens.highways.{n}.transform.weight", "CNN_high_{n}/W_transform", transposed=True),
    Rename("tokens.highways.{n}.transform.bias", "CNN_high_{n}/b_transform"),
    Rename("tokens.projection.weight", "CNN_proj/W_proj", transposed=True),
    Rename("tokens.projection.bias", "CNN_proj/b_proj"),
)
_OWN_GATES, _THEIR_GATES = "ifog", "igfo"  # they call the third j


def find_published(folder: Path) -> tuple[Path, Path] | None:
    """The options and the weights in a folder, if it has both."""
    options, weights = (sorted(folder.glob(f"*{end}")) for end in (OPTIONS, HDF5))
    return (options[0], weights[0]) if options and weights else None


def require_hdf5() -> None:
    """Say what to install where it is missing."""
    if find_spec("h5py") is None:
        raise ConfigError("ELMo is published in HDF5, which needs h5py; say pip install h5py")


def convert_elmo(source: Path, target: Path) -> None:
    """Write the published files as a model directory of ours."""
    found = find_published(source)
    assert found is not None, "who calls this has looked"
    require_hdf5()
    options, file = found
    words = _read_words(source)
    config = _config(options, vocab_size=len(words))
    with weightless():
        shapes = {name: weight.shape for name, weight in _to_theirs(Elmo(config).state_dict()).items()}
    vocabulary = {word: number for number, word in enumerate(words)}
    tokenizer = Tokenizer.build(
        Published(
            model=models.WordLevel(vocabulary, unk_token=_SPECIALS[-1]),
            config=TokenizerConfig(kind="word", specials="elmo", lowercase=False),
        )
    )
    tokenizer.save(target, max_length=config.max_length)
    weights = _to_ours(_read(file, shapes), config)
    write_tensors(target / WEIGHTS, {**weights, "tokens.spelling": config.spelling_of(tokenizer)})
    write_file(target / CONFIG, json.dumps({"model_type": "polyseme-elmo", **config.model_dump()}, indent=2) + "\n")


def export_elmo(encoder: Elmo, objective: nn.Module, folder: Path, tokenizer: Tokenizer) -> Path:
    """Write what AllenNLP and bilm-tf open, and the list of words; the output layer has no place there."""
    require_hdf5()
    import h5py

    path = folder / f"lm_{HDF5}"
    with h5py.File(path, "w") as file:
        for name, weight in _to_theirs(encoder.state_dict()).items():
            file[name] = weight.cpu().numpy()
    write_file(folder / OPTIONS, json.dumps(_options(encoder.config), indent=2) + "\n")
    words = [tokenizer.token(id) for id in range(tokenizer.vocab_size)]
    write_file(folder / WORDS.replace("*", ""), "".join(f"{word}\n" for word in words))
    return path


def _options(config: ElmoConfig) -> dict[str, Any]:
    return {
        "lstm": {
            "use_skip_connections": config.residual,
            "projection_dim": config.width,
            "cell_clip": config.cell_clip,
            "proj_clip": config.clip,
            "dim": config.cell_width,
            "n_layers": config.num_layers,
        },
        "char_cnn": {
            "activation": "relu",
            "filters": [list(pair) for pair in config.filters],
            "n_highway": config.num_highways,
            "embedding": {"dim": config.character_width},
            "n_characters": 262,  # one more than the table has: where it is read, 0 is put before as nothing
            "max_characters_per_token": config.max_characters,
        },
    }


def _config(path: Path, *, vocab_size: int) -> ElmoConfig:
    options = read_json(path)
    try:
        lstm, characters = options["lstm"], options["char_cnn"]
        if characters.get("activation") != "relu":
            raise ConfigError(f"activation = {characters.get('activation')!r} is not supported, only 'relu'")
        return ElmoConfig.parse(
            {
                "vocab_size": vocab_size,
                "width": lstm["projection_dim"],
                "cell_width": lstm["dim"],
                "num_layers": lstm["n_layers"],
                "cell_clip": lstm["cell_clip"],
                "clip": lstm["proj_clip"],
                "residual": lstm["use_skip_connections"],
                "character_width": characters["embedding"]["dim"],
                "filters": characters["filters"],
                "num_highways": characters["n_highway"],
                "max_characters": characters["max_characters_per_token"],
            },
            group=OPTIONS,
        )
    except ConfigError as error:
        raise CheckpointError(f"{path}: {error}") from None
    except (KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{path} is not that of an ELMo of characters ({error}); download it again") from None


def _read_words(folder: Path) -> list[str]:
    """The words that are listed, in their order, behind the special ones; only these where there is no list."""
    words: dict[str, None] = {}
    for path in sorted(folder.glob(WORDS))[:1]:
        try:
            if path.stat().st_size > _MAX_WORDS:
                raise CheckpointError(f"{path} is too large for a list of words; take it away")
            words = dict.fromkeys(filter(None, path.read_text(encoding="utf-8").split("\n")))
        except (OSError, UnicodeDecodeError):
            raise CheckpointError(f"{path} cannot be read as a list of words; download it again") from None
    return [*(word for word in _SPECIALS if word not in words), *words]


def _read(path: Path, shapes: Mapping[str, torch.Size]) -> dict[str, Tensor]:
    """The weights that options.json implies."""
    import h5py

    weights = {}
    try:
        with h5py.File(path, "r") as file:
            for name, shape in shapes.items():
                found = file.get(name)
                if not isinstance(found, h5py.Dataset) or found.shape != tuple(shape):
                    has = getattr(found, "shape", "no such weight")
                    raise CheckpointError(
                        f"{path}: {name} has shape {has} where {OPTIONS} implies {tuple(shape)}; "
                        "the two files do not belong together"
                    )
                weights[name] = torch.from_numpy(found.astype("float32")[...])
    except (OSError, RuntimeError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{path} is not a whole HDF5 file ({error}); download it again") from None
    return weights


def _to_theirs(ours: Mapping[str, Tensor]) -> dict[str, Tensor]:
    theirs = {}
    for rule, name, their_name in _renamed(ours):
        weight = ours[name]
        theirs[their_name] = weight.permute(2, 1, 0)[None] if weight.dim() == 3 else rule.turn(weight)
    for lstm, cell in _cells(ours):
        both = torch.cat([ours[f"{lstm}.input"], ours[f"{lstm}.recurrent"]], 1)
        theirs[f"{cell}/W_0"] = _reordered(both, _OWN_GATES, _THEIR_GATES).T
        theirs[f"{cell}/B"] = _reordered(ours[f"{lstm}.bias"], _OWN_GATES, _THEIR_GATES)
        theirs[f"{cell}/W_P_0"] = ours[f"{lstm}.projection"].T
    return theirs


def _to_ours(theirs: Mapping[str, Tensor], config: ElmoConfig) -> dict[str, Tensor]:
    with weightless():
        expected = Elmo(config).state_dict()
    ours = {}
    for rule, name, their_name in _renamed(expected):
        weight = theirs[their_name]
        ours[name] = weight[0].permute(2, 1, 0) if weight.dim() == 4 else rule.turn(weight)
    for lstm, cell in _cells(expected):
        both = _reordered(theirs[f"{cell}/W_0"].T, _THEIR_GATES, _OWN_GATES)
        ours[f"{lstm}.input"], ours[f"{lstm}.recurrent"] = torch.split(both, config.width, 1)
        ours[f"{lstm}.bias"] = _reordered(theirs[f"{cell}/B"], _THEIR_GATES, _OWN_GATES)
        ours[f"{lstm}.projection"] = theirs[f"{cell}/W_P_0"].T
    return ours


def _renamed(ours: Mapping[str, Tensor]) -> Iterator[tuple[Rename, str, str]]:
    for name in ours:
        for rule in _NAMES:
            blanks = rule.match(name)
            if blanks is not None:
                yield rule, name, rule.parts(blanks)[0]


def _cells(ours: Mapping[str, Tensor]) -> Iterator[tuple[str, str]]:
    """Each layer and direction, as we and they call it."""
    for name in ours:
        if found := re.fullmatch(r"(layers\.(\d+)\.([01]))\.bias", name):
            yield found[1], f"RNN_{found[3]}/RNN/MultiRNNCell/Cell{found[2]}/LSTMCell"


def _reordered(weight: Tensor, here: str, there: str) -> Tensor:
    parts = dict(zip(here, weight.chunk(4), strict=True))
    return torch.cat([parts[gate] for gate in there])
