"""CoVe as its authors published it: the weights of a plain LSTM by torch's names, to be read with GloVe's vectors."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import torch
from tokenizers import models
from torch import nn

from polyseme.errors import CheckpointError
from polyseme.files import write_file
from polyseme.interchange.pickled import unpickle
from polyseme.interchange.word_vectors import write_vectors
from polyseme.models.cove import Cove
from polyseme.models.directory import CONFIG, WEIGHTS
from polyseme.text.published import Published
from polyseme.text.tokenizer import Tokenizer
from polyseme.text.vocabulary import TokenizerConfig
from polyseme.train.given import GivenVectors
from polyseme.weights import read_tensors, write_tensors

_NAME = re.compile(r"(?:rnn\.)?((?:weight|bias)_[ih]h)_l(\d+)(_reverse)?")
_SPECIALS = ("<pad>", "<unk>", "<s>", "</s>")
_LENGTH = 512  # words read at once; the model itself has no limit


def convert_cove(weights: Path, vectors: GivenVectors, target: Path, *, pickle: bool) -> None:
    """Write a model directory of a file of weights and of the vectors that they were trained on."""
    tensors = weights
    if weights.suffix != ".safetensors":
        if not pickle:
            raise CheckpointError(f"{weights} is a pickle, which could do anything when it is read; add --pickle")
        tensors = target / "pickled.safetensors"
        unpickle(weights, tensors)
    theirs = read_tensors(tensors)
    found = {name: _NAME.fullmatch(name) for name in theirs}
    ours = {f"lstms.{m[2]}.{m[1]}_l0{m[3] or ''}": theirs[name] for name, m in found.items() if m}
    num_layers = len({m[2] for m in found.values() if m})
    first, width = ours.get("lstms.0.weight_ih_l0"), vectors.vectors.shape[1]
    if first is None or first.dim() != 2 or len(ours) != 8 * num_layers:
        raise CheckpointError(f"{weights} does not hold a bidirectional LSTM; give the file that cove.MTLSTM loads")
    if first.shape[1] != width:
        raise CheckpointError(
            f"{weights} reads vectors of {first.shape[1]} numbers and those of {vectors.name} have {width}; give others"
        )
    words = dict.fromkeys([*_SPECIALS, *vectors.words])
    weight = torch.zeros(len(words), width)
    places = {word: number for number, word in enumerate(words)}
    weight[[places[word] for word in vectors.words]] = torch.from_numpy(vectors.vectors)
    weight[: len(_SPECIALS)] = 0.0  # as it was trained, an unknown word is nothing
    config = {
        "model_type": "polyseme-cove",
        "vocab_size": len(words),
        "max_length": _LENGTH,
        "width": width,
        "inner_width": len(first) // 4,
        "num_layers": num_layers,
    }
    write_tensors(target / WEIGHTS, {**ours, "tokens.weight": weight})
    write_file(target / CONFIG, json.dumps(config, indent=2) + "\n")
    lowercase = all(word == word.lower() for word in vectors.words)
    model = models.WordLevel(places, unk_token="<unk>")
    settings = TokenizerConfig(kind="word", specials="plain", lowercase=lowercase)
    Tokenizer.build(Published(model=model, config=settings)).save(target)


def export_cove(encoder: Cove, objective: nn.Module, folder: Path, tokenizer: Tokenizer) -> Path:
    """Write the LSTM by the names of cove.MTLSTM, and the vectors that it reads as a file of word2vec."""
    theirs = {}
    for name, weight in encoder.lstms.state_dict().items():
        number, _, rest = name.partition(".")
        theirs[f"rnn.{rest.replace('_l0', f'_l{number}')}"] = weight
    path = folder / "mt_lstm.safetensors"
    write_tensors(path, theirs)
    vectors = encoder.tokens.weight.detach().numpy()
    known = [id for id in np.flatnonzero(vectors.any(1)).tolist() if id not in tokenizer.special_ids]
    write_vectors(folder / "vectors.bin", [tokenizer.token(id) for id in known], vectors[known], "word2vec")
    return path
