"""fastText's binary models: the settings, the dictionary with word counts, and the input and output vectors.

The input vectors are those of the words, then those of the n-gram buckets. Only these are read: supervised models load
as word vectors without their classifier. Runs store neither word counts nor output vectors, so written files have ranks
in place of the counts and zeros for the output vectors; both matter only to programs that continue the training.
"""

import mmap
import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from polyseme.arrays import Floats, Ids
from polyseme.conversion.formats import Exporter, Parity
from polyseme.conversion.word_vector_files import MAX_WORD_BYTES, UNKNOWN, without_duplicates, words_of
from polyseme.corpora.utf16_text import replace_surrogates
from polyseme.errors import CheckpointError, ConfigError, DataError
from polyseme.inference.model import LoadedModel
from polyseme.static_embeddings.base import Subwords
from polyseme.static_embeddings.config import FastTextObjectiveConfig
from polyseme.static_embeddings.fasttext.encoder import FastText, FastTextConfig, compose, decompose
from polyseme.system.atomic_io import atomic_file
from polyseme.system.io_errors import readable
from polyseme.training.recipes.recipe import Recipe
from polyseme.training.storage.model_dir import meta_device

_MAGIC, _VERSION = 793_712_314, 12
_READABLE_VERSIONS = (11, 12)  # with the same layout
_HEADER = struct.Struct("<2i12id3i2q")
_ENTRY = re.compile(rb"(?s)([^\0]{1,%d})\0.{8}(.)" % MAX_WORD_BYTES)  # a word, its count and its type
_MIN_ENTRY = 11  # bytes
_MATRIX = struct.Struct("<?2q")  # whether it is quantized, and its shape
_CBOW, _SKIPGRAM, _SUPERVISED = 1, 2, 3
_HIERARCHICAL, _NEGATIVE = 1, 2
_NO_PRUNING = -1
_BLOCK = 1_000  # words processed at once


class _Header(NamedTuple):
    """The fields before the dictionary, in the order of the file, named like the options of the program."""

    magic: int
    version: int
    dim: int
    ws: int
    epoch: int
    min_count: int
    neg: int
    word_ngrams: int
    loss: int
    model: int
    bucket: int
    minn: int
    maxn: int
    lr_update_rate: int
    t: float
    size: int
    nwords: int
    nlabels: int
    ntokens: int
    prune_size: int


@dataclass(frozen=True, kw_only=True)
class FastTextFile:
    """A scanned file; its vectors are read on demand."""

    path: Path
    family: str
    words: list[str]  # including `UNKNOWN`
    config: FastTextConfig
    rows: Ids  # of the words; without `UNKNOWN` where it was added
    inputs: Floats  # (words + buckets, D), mapped

    def build_encoder(self) -> FastText:
        """Read the vectors into an encoder."""
        num_words = len(self.inputs) - self.config.num_buckets
        ngrams = np.array(self.inputs[num_words:], np.float32)
        weight = np.zeros((len(self.words), self.config.width), np.float32)
        for start in range(0, len(self.rows), _BLOCK):
            rows = self.rows[start : start + _BLOCK]
            words = self.words[start : start + len(rows)]
            subwords = Subwords(ngrams, *self.config.hash_ngrams(words))
            with np.errstate(over="ignore", invalid="ignore"):  # checked below
                weight[start : start + len(rows)] = compose(self.inputs[rows], subwords)
        if not (np.isfinite(weight).all() and np.isfinite(ngrams).all()):
            raise CheckpointError(f"{self.path} has vectors that are not finite; download or export it again")
        with meta_device():
            encoder = FastText(self.config)
        weights = {"tokens.weight": torch.from_numpy(weight), "tokens.ngrams.weight": torch.from_numpy(ngrams)}
        encoder.load_state_dict(weights, assign=True)
        return encoder.eval()


def is_fasttext(path: Path) -> bool:
    """Whether a file begins like a binary model of fastText."""
    with readable(path, kind=CheckpointError), path.open("rb") as file:
        return file.read(4) == struct.pack("<i", _MAGIC)


def read_fasttext(path: Path) -> FastTextFile:
    """Open a file, find its words and check that vectors follow them."""
    with readable(path, kind=CheckpointError), path.open("rb") as file:
        content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    if len(content) < _HEADER.size:
        raise _damaged(path)
    header = _Header(*_HEADER.unpack_from(content))
    if header.version not in _READABLE_VERSIONS:
        raise CheckpointError(f"{path} has version {header.version} of the format; convert it with fastText 0.9")
    config = _config_of(path, header)
    words, position = _scan_words(path, content, header)
    inputs, position = _find_matrix(path, content, position)
    if inputs.shape != (header.nwords + config.num_buckets, header.dim):
        raise _damaged(path)
    _find_matrix(path, content, position)  # the output vectors, to see that the file is complete
    words, rows = without_duplicates(path, words)
    words = words if UNKNOWN in words else [*words, UNKNOWN]
    return FastTextFile(
        path=path,
        family="fasttext",
        words=words,
        config=config.replace(vocab_size=len(words)),
        rows=rows,
        inputs=inputs,
    )


def _damaged(path: Path) -> CheckpointError:
    return CheckpointError(f"{path} is a damaged or truncated fastText model; download or export it again")


def _config_of(path: Path, header: _Header) -> FastTextConfig:
    has_ngrams = header.maxn > 0 and not (header.version < _VERSION and header.model == _SUPERVISED)
    sizes = {"width": header.dim, "num_buckets": header.bucket}
    sizes |= {"min_n": header.minn, "max_n": header.maxn} if has_ngrams else {"min_n": 0, "max_n": 0}
    try:
        return FastTextConfig.parse(sizes, group="fastText")
    except ConfigError as error:
        raise CheckpointError(f"{path}: {error}; download or export it again") from None


def _scan_words(path: Path, content: mmap.mmap, header: _Header) -> tuple[list[str], int]:
    """The words of the dictionary, which precede the labels, and its end."""
    if header.prune_size != _NO_PRUNING:
        raise _quantized(path)
    if not 0 < header.nwords <= header.size <= len(content) // _MIN_ENTRY:
        raise _damaged(path)
    words, position = [], _HEADER.size
    for index in range(header.size):
        entry = _ENTRY.match(content, position)
        if entry is None or (entry[2] == b"\0") != (index < header.nwords):
            raise _damaged(path)
        if index < header.nwords:
            words.append(entry[1].decode("utf-8", "replace"))
        position = entry.end()
    return words, position


def _find_matrix(path: Path, content: mmap.mmap, position: int) -> tuple[Floats, int]:
    """A matrix at a position, not read yet, and its end."""
    start = position + _MATRIX.size
    if start > len(content):
        raise _damaged(path)
    is_quantized, num_rows, width = _MATRIX.unpack_from(content, position)
    if is_quantized:
        raise _quantized(path)
    if num_rows < 0 or width <= 0 or num_rows * width > (len(content) - start) // 4:
        raise _damaged(path)
    matrix: Floats = np.ndarray((num_rows, width), "<f4", content, start)
    return matrix, start + 4 * num_rows * width


def _quantized(path: Path) -> CheckpointError:
    return CheckpointError(f"{path} is a quantized fastText model; use the .bin file that it was made from")


def _write(model: LoadedModel, path: Path, texts: Sequence[str] | None) -> tuple[Path, Parity | None]:
    """Write the words without special tokens, their own vectors and those of the n-grams."""
    encoder = model.encoder
    assert isinstance(encoder, FastText)
    words, ids = words_of(model.require_tokenizer())
    ngrams = encoder.tokens.ngrams.weight.cpu().numpy()
    subwords = Subwords(ngrams, *encoder.config.hash_ngrams(words))
    own = decompose(encoder.tokens.weight.detach().cpu().numpy()[ids], subwords)
    with atomic_file(path) as temporary, temporary.open("wb") as file:
        file.write(_HEADER.pack(*_header_of(model, len(words))))
        for rank, word in enumerate(words):
            if not 0 < len(spelling := replace_surrogates(word).encode()) <= MAX_WORD_BYTES or b"\0" in spelling:
                raise DataError(f"{word!r:.60} cannot be written in the format of fastText; remove it")
            file.write(spelling + struct.pack("<xqb", len(words) - rank, 0))
        file.write(_MATRIX.pack(False, len(own) + len(ngrams), own.shape[1]))
        for matrix in (own, ngrams):
            file.write(matrix.astype("<f4", copy=False).data)
        file.write(_MATRIX.pack(False, *own.shape))
        for start in range(0, len(own), _BLOCK):
            file.write(bytes(4 * own[start : start + _BLOCK].size))
    return path, None


def _header_of(model: LoadedModel, num_words: int) -> _Header:
    """The settings of a run, or those of the program where a model has no recipe."""
    config, recipe = model.encoder.config, model.recipe
    objective: Any = recipe.objective if isinstance(recipe, Recipe) else FastTextObjectiveConfig()
    return _Header(
        magic=_MAGIC,
        version=_VERSION,
        dim=config.width,
        ws=objective.window,
        epoch=5,
        min_count=1,  # programs drop words below it, and the counts are ranks
        neg=objective.negatives,
        word_ngrams=1,
        loss=_NEGATIVE if objective.softmax == "negative" else _HIERARCHICAL,
        model=_CBOW if objective.is_cbow else _SKIPGRAM,
        bucket=config.num_buckets,
        minn=config.min_n,
        maxn=config.max_n,
        lr_update_rate=100,
        t=objective.subsample,
        size=num_words,
        nwords=num_words,
        nlabels=0,
        ntokens=num_words * (num_words + 1) // 2,
        prune_size=_NO_PRUNING,
    )


EXPORTER = Exporter(write=_write, family="fasttext", single_file=True)
