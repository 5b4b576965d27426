"""AWD-LSTM checkpoints of the original code and of fastai: weights by name, and a list of words.

The files do not contain the direction of the model; names with `bwd` are taken as backward, as fastai names them.
"""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import torch
from pydantic import Field, TypeAdapter, ValidationError
from tokenizers import models
from torch import Tensor

from polyseme.conversion.formats import Exporter, Importer, ImportOptions, Parity, write_checkpoint
from polyseme.conversion.pickle_sandbox import as_safetensors
from polyseme.errors import CheckpointError
from polyseme.inference.model import LoadedModel
from polyseme.system.atomic_io import write_file
from polyseme.system.io_errors import readable
from polyseme.system.regular_files import read_regular
from polyseme.system.safetensors_io import read_tensors, write_tensors
from polyseme.tokenization.config import TokenizerConfig
from polyseme.tokenization.tokenizer import Tokenizer
from polyseme.training.storage.model_dir import CONFIG

_VOCABULARY = "itos.json"  # words in the order of their ids: `json.dump(list(vocab), file)` of fastai's pickle
_WEIGHTS = (".safetensors", ".pth", ".pt")
_ROLES = {"pad": ("xxpad", "_pad_"), "unknown": ("xxunk", "_unk_", "<unk>"), "end": ("xxbos", "xbos", "<eos>")}
_MAX_VOCABULARY_BYTES = 100_000_000
_MAX_LENGTH = 512  # tokens per window; the model has no limit of its own


def _find_weights(source: Path) -> Path | None:
    """The only weights file of a directory without a config.json."""
    if not source.is_dir() or (source / CONFIG).exists():
        return None
    files = [path for path in source.iterdir() if path.suffix in _WEIGHTS]
    return files[0] if len(files) == 1 else None


def _convert(source: Path, target: Path, options: ImportOptions) -> None:
    """Write a model directory from a weights file, and from the vocabulary beside it if there is one."""
    weights = _find_weights(source)
    assert weights is not None
    theirs = read_tensors(as_safetensors(weights, target, read_pickle=options.read_pickle))
    ours = _rename_weights(theirs, weights)
    widths = [len(ours[name]) // 4 for name in ours if name.endswith("weight_hh_l0")]
    vocab_size, width = ours["tokens.weight"].shape
    config = {
        "model_type": "polyseme-ulmfit",
        "vocab_size": vocab_size,
        "max_length": _MAX_LENGTH,
        "width": width,
        "inner_width": widths[0],
        "num_layers": len(widths),
        "direction": "backward" if "bwd" in weights.stem else "forward",
    }
    write_checkpoint(target, config, ours)
    if (source / _VOCABULARY).exists():
        _read_tokenizer(source / _VOCABULARY, vocab_size).save(target)


def _write(model: LoadedModel, folder: Path, texts: Sequence[str] | None) -> tuple[Path, Parity | None]:
    """Write the weights with fastai's names, for `load_state_dict`, and the vocabulary."""
    encoder, tokenizer = model.encoder, model.require_tokenizer()
    ours = encoder.state_dict()
    embedding = ours["tokens.weight"]
    theirs = {"0.encoder.weight": embedding, "0.encoder_dp.emb.weight": embedding.clone()}
    for name, weight in ours.items():
        if match := re.fullmatch(r"recurrent\.(\d+)\.(\w+)", name):
            theirs[f"0.rnns.{match[1]}.module.{match[2]}"] = weight
            if match[2] == "weight_hh_l0":
                theirs[f"0.rnns.{match[1]}.weight_hh_l0_raw"] = weight.clone()
    bias = model.objective.state_dict().get("causal_lm.bias")
    if bias is not None:
        theirs |= {"1.decoder.weight": embedding.clone(), "1.decoder.bias": bias}
    path = folder / f"awd_lstm_{'bwd' if encoder.context == 'right' else 'fwd'}.safetensors"
    write_tensors(path, theirs)
    tokens = [tokenizer.token(id) for id in range(tokenizer.vocab_size)]
    write_file(folder / _VOCABULARY, json.dumps(tokens, ensure_ascii=False) + "\n")
    return path, None


def _rename_weights(theirs: Mapping[str, Tensor], path: Path) -> dict[str, Tensor]:
    # fastai prefixes encoder and decoder with 0 and 1, and wraps layers with weight dropout in `module`.
    plain = {re.sub(r"^[01]\.", "", name).replace(".module.", "."): tensor for name, tensor in theirs.items()}
    ours = {}
    for name in sorted(plain):  # raw weights sort after their copy with dropout, and replace it
        if match := re.fullmatch(r"rnns\.(\d+)\.((?:weight|bias)_[ih]h_l0)(?:_raw)?", name):
            ours[f"recurrent.{match[1]}.{match[2]}"] = plain[name]
    embedding = plain.get("encoder.weight", torch.empty(0))
    if embedding.dim() != 2 or not ours or any(tensor.dim() not in (1, 2) for tensor in ours.values()):
        raise CheckpointError(f"{path} is not an AWD-LSTM; pass the file that fastai or awd-lstm-lm saved")
    ours["tokens.weight"] = embedding
    if "decoder.weight" in plain:
        if not torch.equal(plain["decoder.weight"], embedding):
            raise CheckpointError(f"{path}: the weights of decoder and embedding differ; only tied ones are supported")
        ours["causal_lm.bias"] = plain.get("decoder.bias", torch.zeros(len(embedding)))
    return ours


def _read_tokenizer(path: Path, vocab_size: int) -> Tokenizer:
    try:
        with readable(path, kind=CheckpointError):
            content = read_regular(path, limit=_MAX_VOCABULARY_BYTES)
        words = TypeAdapter(Annotated[list[str], Field(min_length=1, max_length=vocab_size)]).validate_json(content)
    except ValidationError:
        raise CheckpointError(f"{path} is not a JSON list of at most {vocab_size:,} words; export it again") from None
    vocab = {word: id for id, word in reversed([*enumerate(words)])}  # the first of duplicates
    roles = {role: name for role, names in _ROLES.items() for name in names if name in vocab}
    lowercase = all(word == word.lower() for word in words)
    model = models.WordLevel(vocab, unk_token=roles.get("unknown", words[0]))
    return Tokenizer.build(model, TokenizerConfig(kind="word", specials="plain", lowercase=lowercase), specials=roles)


IMPORTER = Importer(
    description=f"weights without a {CONFIG}, such as an AWD-LSTM of fastai",
    detect=lambda source, options: _find_weights(source) is not None,
    convert=_convert,
)
EXPORTER = Exporter(write=_write, family="ulmfit")
