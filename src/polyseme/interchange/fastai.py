"""AWD-LSTM as its authors' program and the fastai library save it: weights by name, and words in a list.

Neither says in its file which way the model reads; fastai calls those that read backwards `bwd`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

import torch
from tokenizers import models
from torch import Tensor, nn

from polyseme.errors import CheckpointError
from polyseme.files import write_file
from polyseme.interchange.pickled import unpickle
from polyseme.models.directory import CONFIG, WEIGHTS
from polyseme.models.ulmfit import Ulmfit
from polyseme.text.published import Published
from polyseme.text.tokenizer import Tokenizer
from polyseme.text.vocabulary import TokenizerConfig
from polyseme.weights import read_tensors, write_tensors

WORDS = "itos.json"
"""The words by their ids, written by `json.dump(list(vocab), file)` where fastai has them in a pickle."""

_PICKLES = (".pth", ".pt")
_ROLES = {"pad": ("xxpad", "_pad_"), "unknown": ("xxunk", "_unk_", "<unk>"), "end": ("xxbos", "xbos", "<eos>")}
_MOST_BYTES = 100_000_000  # of words
_LENGTH = 512  # tokens read at once; the model itself has no limit


def find_weights(source: Path) -> Path | None:
    """The only file of weights in a directory that says nothing else of its model."""
    if not source.is_dir() or (source / CONFIG).exists():
        return None
    found = [path for path in source.iterdir() if path.suffix in (".safetensors", *_PICKLES)]
    return found[0] if len(found) == 1 else None


def convert_fastai(weights: Path, target: Path, *, pickle: bool) -> None:
    """Write a model directory of a file of weights, and of the words beside it if there are any."""
    tensors = weights
    if weights.suffix in _PICKLES:
        if not pickle:
            raise CheckpointError(f"{weights} is a pickle, which could do anything when it is read; add --pickle")
        tensors = target / "pickled.safetensors"
        unpickle(weights, tensors)
    ours = _renamed(read_tensors(tensors), weights)
    widths = [len(ours[name]) // 4 for name in ours if name.endswith("weight_hh_l0")]
    (vocab_size, width), num_layers = ours["tokens.weight"].shape, len(widths)
    config = {
        "model_type": "polyseme-ulmfit",
        "vocab_size": vocab_size,
        "max_length": _LENGTH,
        "width": width,
        "inner_width": widths[0],
        "num_layers": num_layers,
        "direction": "backward" if "bwd" in weights.stem else "forward",
    }
    write_tensors(target / WEIGHTS, ours)
    write_file(target / CONFIG, json.dumps(config, indent=2) + "\n")
    if (weights.parent / WORDS).exists():
        _tokenizer(weights.parent / WORDS, vocab_size).save(target)


def export_fastai(encoder: Ulmfit, objective: nn.Module, folder: Path, tokenizer: Tokenizer) -> Path:
    """Write the weights by fastai's names, for `load_state_dict`, and the tokens by their ids."""
    ours = encoder.state_dict()
    words = ours["tokens.weight"]
    theirs = {"0.encoder.weight": words, "0.encoder_dp.emb.weight": words.clone()}
    for name, weight in ours.items():
        if found := re.fullmatch(r"recurrent\.(\d+)\.(\w+)", name):
            theirs[f"0.rnns.{found[1]}.module.{found[2]}"] = weight
            if found[2] == "weight_hh_l0":
                theirs[f"0.rnns.{found[1]}.weight_hh_l0_raw"] = weight.clone()
    bias = objective.state_dict().get("next_token.bias")
    if bias is not None:
        theirs |= {"1.decoder.weight": words.clone(), "1.decoder.bias": bias}
    path = folder / f"awd_lstm_{'bwd' if encoder.context == 'right' else 'fwd'}.safetensors"
    write_tensors(path, theirs)
    tokens = [tokenizer.token(id) for id in range(tokenizer.vocab_size)]
    write_file(folder / WORDS, json.dumps(tokens, ensure_ascii=False) + "\n")
    return path


def _renamed(theirs: Mapping[str, Tensor], path: Path) -> dict[str, Tensor]:
    # fastai numbers encoder and decoder; what it drops weights of is wrapped in a module, around some or all of them.
    plain = {re.sub(r"^[01]\.", "", name).replace(".module.", "."): tensor for name, tensor in theirs.items()}
    ours = {}
    for name in sorted(plain):  # raw weights come behind a copy of which some were dropped, and take its place
        if found := re.fullmatch(r"rnns\.(\d+)\.((?:weight|bias)_[ih]h_l0)(?:_raw)?", name):
            ours[f"recurrent.{found[1]}.{found[2]}"] = plain[name]
    words = plain.get("encoder.weight", torch.empty(0))
    if words.dim() != 2 or not ours or any(tensor.dim() not in (1, 2) for tensor in ours.values()):
        raise CheckpointError(f"{path} does not hold an AWD-LSTM; give the file that fastai or awd-lstm-lm saved")
    ours["tokens.weight"] = words
    if "decoder.weight" in plain:
        if not torch.equal(plain["decoder.weight"], words):
            raise CheckpointError(f"{path}: the output is not the embedding again; only such models are known")
        ours["next_token.bias"] = plain.get("decoder.bias", torch.zeros(len(words)))
    return ours


def _tokenizer(path: Path, vocab_size: int) -> Tokenizer:
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise ValueError
        words = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise ValueError
        if not 0 < len(words) <= vocab_size:
            raise ValueError
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read ({error.strerror}); check the path") from None
    except (ValueError, RecursionError):
        raise CheckpointError(f"{path} is no list of at most {vocab_size:,} words; write it again") from None
    vocab = {word: number for number, word in reversed([*enumerate(words)])}  # of words that are there twice, the first
    roles = {role: name for role, names in _ROLES.items() for name in names if name in vocab}
    lowercase = not any(word != word.lower() for word in words)
    return Tokenizer.build(
        Published(
            model=models.WordLevel(vocab, unk_token=roles.get("unknown", words[0])),
            config=TokenizerConfig(kind="word", specials="plain", lowercase=lowercase),
            specials=roles,
        )
    )
