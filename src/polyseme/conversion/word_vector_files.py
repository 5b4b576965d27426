"""Word vector files: word2vec's binary and text format, GloVe's text format, fastText's .vec.

A binary file starts with the vocabulary size and the width; then each word is followed by a space and its float32
vector. The text format of word2vec and fastText has the same header line; GloVe's has none. The word of a line is
everything before the numbers, including spaces.
"""

import itertools
import logging
import mmap
import os
import re
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import models

from polyseme.arrays import Floats, Ids
from polyseme.conversion.formats import Exporter, Parity
from polyseme.corpora.utf16_text import replace_surrogates
from polyseme.errors import CheckpointError, ConfigError, DataError
from polyseme.inference.model import LoadedModel
from polyseme.static_embeddings.encoder import StaticEmbedding, StaticEmbeddingConfig
from polyseme.system.atomic_io import atomic_file
from polyseme.system.io_errors import readable
from polyseme.tokenization.config import SpecialTokens, TokenizerConfig
from polyseme.tokenization.tokenizer import Tokenizer
from polyseme.tokenization.training import build_pipeline
from polyseme.training.storage.model_dir import meta_device

logger = logging.getLogger(__name__)

UNKNOWN = "<unk>"
"""The OOV token; its vector is zero unless the file has one."""

_BLOCK_WORDS = 10_000  # read at once, with at most …
_BLOCK_VALUES = 250_000  # … values
MAX_WORD_BYTES = 1_000
_MAX_LINE_BYTES = 1 << 20  # 80,000 dimensions
_SAMPLED_LINES = 100  # from which the width is determined
_HEADER = re.compile(rb"(\d{1,12})[ \t](\d{1,6})[ \t\r]*(?:\n|\Z)")
_NUMBER = re.compile(rb"[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?|[-+]?(?:nan|inf|infinity)", re.IGNORECASE)
_UNSUPPORTED = {
    b"\\data\\": "an n-gram model in the ARPA format; convert it with polyseme import",
    b"\x1f\x8b": "compressed; decompress it with gunzip",
    b"PK\x03\x04": "compressed; decompress it with unzip",
}

Blocks = Iterator[tuple[int, Floats]]  # batches of vectors, each with the index of the first


@dataclass(frozen=True, kw_only=True)
class WordVectors:
    """A scanned file; its vectors are read on demand."""

    family: str  # guessed from the format; files do not contain how their vectors were trained
    words: list[str]  # including `UNKNOWN`
    width: int
    read: Callable[[], Floats]  # (N, D)

    def build_encoder(self) -> StaticEmbedding:
        """Read the vectors into an encoder."""
        with meta_device():
            encoder = StaticEmbedding(StaticEmbeddingConfig(vocab_size=len(self.words), width=self.width))
        encoder.load_state_dict({"tokens.weight": torch.from_numpy(self.read())}, assign=True)
        return encoder.eval()


class WordListTokenizer(Tokenizer):
    """A word-level tokenizer of a list of words, built on first use because that takes seconds for a million."""

    def __init__(self, words: Sequence[str]) -> None:
        self.words = words

    def __getattr__(self, name: str) -> Any:
        if "backend" in vars(self):
            raise AttributeError(f"a tokenizer has no attribute {name!r}")
        text = "\n".join(self.words)
        lowercase = text == text.lower()
        config = TokenizerConfig(kind="word", specials="plain", lowercase=lowercase, segmenter="auto")
        ids = {word: id for id, word in enumerate(self.words)}
        unknown = ids[UNKNOWN]  # also stands for an empty text
        backend = build_pipeline(config, models.WordLevel(ids, unk_token=UNKNOWN))
        super().__init__(backend, config, SpecialTokens(unknown=unknown, end=unknown))
        return getattr(self, name)


def read_word_vectors(path: Path) -> WordVectors:
    """Open a file, find its words and check that vectors follow them."""
    with readable(path, kind=CheckpointError), path.open("rb") as file:
        if not os.fstat(file.fileno()).st_size:
            raise CheckpointError(f"{path} is empty; download or export it again")
        content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    for magic, reason in _UNSUPPORTED.items():
        if content[: len(magic)] == magic:
            raise CheckpointError(f"{path} is {reason}")
    header = _HEADER.match(content[:100])
    count, width, start = (int(header[1]), int(header[2]), header.end()) if header else (None, None, 0)
    if count == 0 or width == 0:
        raise CheckpointError(f"{path} contains no vectors according to its first line; export it again")
    blocks: Callable[[], Blocks]
    if count and width and not _is_text(content, start, width):
        words, offsets = _scan_binary(path, content, start, count, width)
        blocks = partial(_binary_blocks, content, offsets, width)
    else:
        width = _detect_width(path, content, start, width)
        words, blocks = _scan_text(path, content, start, count, width)
    words = words if UNKNOWN in words else [*words, UNKNOWN]
    family, read = "skipgram" if header else "glove", partial(_read, path, words, width, blocks)
    return WordVectors(family=family, words=words, width=width, read=read)


def _read(path: Path, words: Sequence[str], width: int, blocks: Callable[[], Blocks]) -> Floats:
    """Read all vectors; raise an error at one that is not finite."""
    vectors = np.zeros((len(words), width), np.float32)
    for first, block in blocks():
        finite = np.isfinite(block).all(1)
        if not finite.all():
            word = words[first + int(np.argmin(finite))]
            raise CheckpointError(f"{path}: the vector of {word!r:.60} is not finite; remove that word")
        vectors[first : first + len(block)] = block
    return vectors


def _is_text(content: mmap.mmap, start: int, width: int) -> bool:
    """Whether decimal numbers follow the first word, which binary vectors never look like."""
    line = next(filter(None, _lines(content, start)), b"")
    return _count_numbers(line) >= max(1, min(width, len(line.split(b" ")) - 1))


def _scan_binary(path: Path, content: mmap.mmap, start: int, count: int, width: int) -> tuple[list[str], Ids]:
    """The words of a binary file and the offsets of their vectors."""
    size = 4 * width
    # A word and its vector, or else the rest of the file.
    entry = re.compile(rb"(?s)([^ ]{0,%d}+ ).{%d}|.+" % (MAX_WORD_BYTES, size))
    entries: list[bytes] = entry.findall(content, start) if count * (size + 1) <= len(content) - start else []
    if entries and not entries[-1]:
        del entries[-1]  # the rest
    ends = start + np.cumsum(np.fromiter(map(len, entries), np.int64, len(entries)) + size)
    if len(entries) != count or len(content) - ends[-1] > 1:  # the file may end with a line break
        raise CheckpointError(
            f"{path} does not contain {count:,} vectors of {width:,} dimensions as its first line declares; "
            "it may be truncated: download or export it again"
        )
    # Some programs write a line break after each vector.
    words = b"".join(entries).replace(b" \n", b" ").decode("utf-8", "replace").split(" ")[:-1]
    words, first = without_duplicates(path, words)
    return words, (ends - size)[first]


def _binary_blocks(content: mmap.mmap, offsets: Ids, width: int) -> Blocks:
    windows = np.ndarray(len(content) - 4 * width + 1, f"V{4 * width}", content, strides=(1,))  # a vector at every byte
    step = _words_in_block(width)
    for first in range(0, len(offsets), step):
        yield first, windows[offsets[first : first + step]].view("<f4").reshape(-1, width)


def _detect_width(path: Path, content: mmap.mmap, start: int, width: int | None) -> int:
    """The number of values per line."""
    sample = list(itertools.islice(filter(None, _lines(content, start)), _SAMPLED_LINES))
    if max(map(len, sample), default=0) == _MAX_LINE_BYTES:
        raise CheckpointError(f"{path} has a line of over {_MAX_LINE_BYTES:,} bytes; it is not a file of word vectors")
    counts = [_count_numbers(line) for line in sample]
    detected = statistics.mode(counts) if counts else 0  # a word such as "route 66" has one more than the others
    if not detected:
        raise CheckpointError(
            f"{path} contains no word vectors; pass a model directory, or a file of word2vec, GloVe or fastText"
        )
    if width not in (None, detected):
        raise CheckpointError(
            f"{path} has {detected:,} values per word and its first line declares {width:,}; correct that line"
        )
    return detected


def _scan_text(
    path: Path, content: mmap.mmap, start: int, count: int | None, width: int
) -> tuple[list[str], Callable[[], Blocks]]:
    """The words of a text file, and a function that reads their vectors."""
    from polyseme.conversion.embedding_text_parser import EmbeddingLines  # imports numba

    lines = EmbeddingLines.find(path, content, start, width, max_length=_MAX_LINE_BYTES)
    words, unique = lines.words()
    if count not in (None, len(words)):
        raise CheckpointError(
            f"{path} contains {len(words):,} words and its first line declares {count:,}; "
            "it may be truncated: download or export it again"
        )
    if not unique:
        words, first = without_duplicates(path, words)
        lines = lines.take(first)
    return words, partial(lines.blocks, _words_in_block(width))


def without_duplicates(path: Path, words: list[str]) -> tuple[list[str], Ids]:
    """The distinct words and the index of the first occurrence of each."""
    if len(set(words)) == len(words):
        return words, np.arange(len(words))
    first = {word: index for index, word in reversed([*enumerate(words)])}
    logger.warning("%s contains %d duplicate words; the first vector of each is used", path, len(words) - len(first))
    indices = np.sort(np.fromiter(first.values(), np.int64, len(first)))
    return [words[index] for index in indices.tolist()], indices


def _words_in_block(width: int) -> int:
    return max(1, min(_BLOCK_WORDS, _BLOCK_VALUES // width))


def _lines(content: mmap.mmap, start: int) -> Iterator[bytes]:
    """The lines without trailing white space; lines too long for a vector are cut, and rejected later."""
    while start < len(content):
        end = content.find(b"\n", start, start + _MAX_LINE_BYTES)
        end = end if end >= 0 else min(len(content), start + _MAX_LINE_BYTES)
        yield content[start:end].rstrip(b" \t\r")
        start = end + 1


def _count_numbers(line: bytes) -> int:
    """The number of numeric fields at the end of a line, not counting its first field."""
    fields = line.split(b" ")[:0:-1]
    return sum(1 for _ in itertools.takewhile(_NUMBER.fullmatch, fields))


def write_word_vectors(path: Path, words: Sequence[str], vectors: Floats, format: str) -> None:
    """Write words and vectors atomically as word2vec, word2vec-text or glove; fastText's .vec is word2vec-text."""
    separators = re.compile("\n" if format == "glove" else "[ \n]")
    invalid = next(filter(separators.search, words), None)
    if invalid is not None:
        separator, remedy = ("a line break", "remove it") if "\n" in invalid else ("a space", "use the format glove")
        raise DataError(f"{invalid!r:.60} contains {separator}, which {format} does not allow; {remedy}")
    with atomic_file(path) as temporary, temporary.open("wb") as file:
        if format != "glove":
            file.write(b"%d %d\n" % vectors.shape)
        template = b" %.9g" * vectors.shape[1]  # enough digits to restore every float32
        for word, vector in zip(words, vectors.astype("<f4", copy=False), strict=True):
            values = b" " + vector.tobytes() if format == "word2vec" else template % tuple(vector.tolist())
            file.write(replace_surrogates(word).encode() + values + b"\n")


def _write(model: LoadedModel, path: Path, texts: Sequence[str] | None, *, format: str) -> tuple[Path, Parity | None]:
    """Write the vectors of layer 0, without special tokens."""
    tokenizer, vectors = model.require_tokenizer(), model.space.vectors.cpu().numpy()
    if not vectors.shape[1]:
        raise ConfigError(f"a {model.family} model has no trained vectors to export; choose another model")
    words, ids = words_of(tokenizer)
    write_word_vectors(path, words, vectors[ids], format)
    return path, None


def words_of(tokenizer: Tokenizer) -> tuple[list[str], Ids]:
    """The vocabulary without special tokens, in the order of the ids, and these."""
    ids = {word: id for word, id in tokenizer.backend.get_vocab().items() if id not in tokenizer.special_ids}
    words = sorted(ids, key=ids.__getitem__)
    return words, np.array([ids[word] for word in words], np.int64)


EXPORTERS = {
    format: Exporter(write=partial(_write, format=format), single_file=True)
    for format in ("word2vec", "word2vec-text", "glove")
}
