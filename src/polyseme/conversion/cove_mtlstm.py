"""CoVe's original weights: an LSTM with torch's weight names, trained on GloVe vectors that are separate."""

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from tokenizers import models

from polyseme.conversion.formats import Exporter, Importer, ImportOptions, Parity, write_checkpoint
from polyseme.conversion.pickle_sandbox import as_safetensors
from polyseme.conversion.word_vector_files import write_word_vectors
from polyseme.errors import CheckpointError
from polyseme.inference.model import LoadedModel
from polyseme.models.cove import Cove
from polyseme.system.safetensors_io import read_tensors, write_tensors
from polyseme.tokenization.config import TokenizerConfig
from polyseme.tokenization.tokenizer import Tokenizer

_NAME = re.compile(r"(?:rnn\.)?((?:weight|bias)_[ih]h)_l(\d+)(_reverse)?")
_SPECIALS = ("<pad>", "<unk>", "<s>", "</s>")
_MAX_LENGTH = 512  # words per window; the model has no limit of its own


def _convert(weights: Path, target: Path, options: ImportOptions) -> None:
    """Write a model directory from a weights file and the input vectors that it was trained with."""
    embeddings = options.embeddings
    assert embeddings is not None
    theirs = read_tensors(as_safetensors(weights, target, read_pickle=options.read_pickle))
    matches = {name: _NAME.fullmatch(name) for name in theirs}
    ours = {f"lstms.{m[2]}.{m[1]}_l0{m[3] or ''}": theirs[name] for name, m in matches.items() if m}
    num_layers = len({m[2] for m in matches.values() if m})
    first, width = ours.get("lstms.0.weight_ih_l0"), embeddings.vectors.shape[1]
    if first is None or first.dim() != 2 or len(ours) != 8 * num_layers:
        raise CheckpointError(f"{weights} is not a bidirectional LSTM; pass the file that cove.MTLSTM loads")
    if first.shape[1] != width:
        raise CheckpointError(
            f"{weights} expects input vectors of {first.shape[1]} dimensions and {embeddings.name} has {width}; "
            "pass the vectors that it was trained with"
        )
    words = dict.fromkeys([*_SPECIALS, *embeddings.words])
    weight = torch.zeros(len(words), width)
    ids = {word: id for id, word in enumerate(words)}
    weight[[ids[word] for word in embeddings.words]] = torch.from_numpy(embeddings.vectors)
    weight[: len(_SPECIALS)] = 0.0  # as in the original training, OOV words have zero vectors
    config = {
        "model_type": "polyseme-cove",
        "vocab_size": len(words),
        "max_length": _MAX_LENGTH,
        "width": width,
        "inner_width": len(first) // 4,
        "num_layers": num_layers,
    }
    write_checkpoint(target, config, {**ours, "tokens.weight": weight})
    lowercase = all(word == word.lower() for word in embeddings.words)
    settings = TokenizerConfig(kind="word", specials="plain", lowercase=lowercase)
    Tokenizer.build(models.WordLevel(ids, unk_token="<unk>"), settings).save(target)


def _write(model: LoadedModel, folder: Path, texts: Sequence[str] | None) -> tuple[Path, Parity | None]:
    """Write the LSTM with the weight names of cove.MTLSTM, and its input vectors in word2vec's format."""
    encoder, tokenizer = model.encoder, model.require_tokenizer()
    assert isinstance(encoder, Cove)
    theirs = {}
    for name, weight in encoder.lstms.state_dict().items():
        layer, _, rest = name.partition(".")
        theirs[f"rnn.{rest.replace('_l0', f'_l{layer}')}"] = weight
    path = folder / "mt_lstm.safetensors"
    write_tensors(path, theirs)
    vectors = encoder.tokens.weight.detach().numpy()
    ids = [id for id in np.flatnonzero(vectors.any(1)).tolist() if id not in tokenizer.special_ids]
    write_word_vectors(folder / "vectors.bin", [tokenizer.token(id) for id in ids], vectors[ids], "word2vec")
    return path, None


IMPORTER = Importer(
    description="the LSTM of a CoVe",
    detect=lambda source, options: options.embeddings is not None,
    convert=_convert,
    flags=" --vectors FILE",
)
EXPORTER = Exporter(write=_write, family="cove")
