"""Stores: the token ids of a corpus with its sentence and document boundaries, memory-mapped."""

import errno
import hashlib
import json
import re
import shutil
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Self

import numpy as np
from numpy.typing import NDArray

from polyseme.errors import CheckpointError, DataError
from polyseme.files import cache_folder, require_space, size, whole_folder, write_file
from polyseme.text.corpus import Corpus
from polyseme.text.sentences import split_sentences
from polyseme.text.tokenizer import Tokenizer
from polyseme.text.vocabulary import guarded, mend

FORMAT = 1  # counts changes of the files and of how sentences are split
_BATCH = 500_000  # characters encoded together
_NUM_WORKERS = 2
_WORD = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]|[^\s\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]+")

Numbers = NDArray[np.integer[Any]]


@dataclass(frozen=True, kw_only=True)
class Store:
    """A corpus in token ids; sentence i is `tokens[sentences[i]:sentences[i + 1]]`, documents index sentences so."""

    tokens: Numbers  # (N,) uint16 or uint32
    sentences: Numbers  # (S + 1,) int64
    documents: Numbers  # (D + 1,) int64
    num_characters: int
    num_words: int  # between white space; every ideograph counts as one
    unknown: int  # how many tokens are the unknown one
    fingerprint: str

    @property
    def num_tokens(self) -> int:
        return len(self.tokens)

    @property
    def num_sentences(self) -> int:
        return len(self.sentences) - 1

    @property
    def num_documents(self) -> int:
        return len(self.documents) - 1

    @classmethod
    def open(cls, folder: Path | str) -> Self:
        """Map a store that was built before."""
        folder = Path(folder)
        try:
            meta = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
            if meta["format"] != FORMAT:
                raise CheckpointError(
                    f"{folder}: written by another version of Polyseme; delete it and prepare it again"
                )
            arrays = {name: _map(folder / name, dtype, length) for name, (dtype, length) in meta["arrays"].items()}
            values: dict[str, Any] = {**arrays, **meta["counts"], "fingerprint": meta["fingerprint"]}
            return cls(**values)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise CheckpointError(f"{folder}: not a whole store ({error}); delete it and prepare it again") from None

    @classmethod
    def from_documents(cls, documents: Iterable[str], tokenizer: Tokenizer) -> Self:
        """Encode a few documents in memory."""
        blocks = list(_encode(documents, tokenizer))
        digest = hashlib.sha256(f"{FORMAT} {tokenizer.fingerprint}".encode())
        for block in blocks:
            digest.update(block.tokens.tobytes())
        lengths = np.concatenate([np.zeros(1, np.int64), *(block.lengths for block in blocks)])
        counts = np.concatenate([np.zeros(1, np.int64), *(block.counts for block in blocks)])
        if len(lengths) == 1:
            raise DataError("the documents hold no text that gives tokens; give some text")
        return cls(
            tokens=np.concatenate([block.tokens for block in blocks]),
            sentences=np.cumsum(lengths),
            documents=np.cumsum(counts),
            num_characters=sum(block.num_characters for block in blocks),
            num_words=sum(block.num_words for block in blocks),
            unknown=sum(block.unknown for block in blocks),
            fingerprint=digest.hexdigest(),
        )


def count_words(text: str) -> int:
    """Stretches between white space; every ideograph counts as one."""
    return len(text.split()) if text.isascii() else len(_WORD.findall(text))


def prepare(corpus: Corpus, tokenizer: Tokenizer) -> Store:
    """The store of a corpus, from the cache or built now and kept there."""
    fingerprint = hashlib.sha256(f"{FORMAT} {corpus.fingerprint()} {tokenizer.fingerprint}".encode()).hexdigest()
    folder = cache_folder() / "stores" / fingerprint
    if folder.exists():
        try:
            return Store.open(folder)
        except CheckpointError:
            shutil.rmtree(folder, ignore_errors=True)
    try:
        return build_store(corpus, tokenizer, folder, fingerprint=fingerprint)
    except FileExistsError:
        return Store.open(folder)  # another process was faster


def build_store(
    corpus: Iterable[str], tokenizer: Tokenizer, folder: Path | str, *, fingerprint: str | None = None
) -> Store:
    """Stream a corpus into a store at `folder`, which is whole or not there at all."""
    folder = Path(folder)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(corpus, Corpus):
            # A token takes some four bytes of text and two or four of store; compressed text is counted as three times.
            require_space(folder.parent, 3 * corpus.num_bytes, DataError)
        with whole_folder(folder) as beside:
            _write(corpus, tokenizer, beside, fingerprint)
    except OSError as error:
        if error.errno in (errno.EEXIST, errno.ENOTEMPTY):
            raise FileExistsError(errno.EEXIST, "a store is there already", str(folder)) from None
        free = f" ({size(shutil.disk_usage(folder.parent).free)} free)" if folder.parent.is_dir() else ""
        raise DataError(f"{folder}: {error.strerror}{free}; make room or set POLYSEME_CACHE to another disk") from None
    return Store.open(folder)


def _write(corpus: Iterable[str], tokenizer: Tokenizer, folder: Path, fingerprint: str | None) -> None:
    num_tokens = num_sentences = num_documents = 0
    counts = {"num_characters": 0, "num_words": 0, "unknown": 0}
    digest = hashlib.sha256(f"{FORMAT} {tokenizer.fingerprint}".encode())
    with (
        (folder / "tokens").open("wb") as tokens,
        (folder / "sentences").open("wb") as sentences,
        (folder / "documents").open("wb") as documents,
    ):
        for file in (sentences, documents):
            file.write(np.zeros(1, np.int64).tobytes())
        for block in _encode(corpus, tokenizer):
            tokens.write(block.tokens.tobytes())
            _continue(sentences, block.lengths, num_tokens)
            _continue(documents, block.counts, num_sentences)
            digest.update(block.tokens.tobytes())
            num_tokens += len(block.tokens)
            num_sentences += len(block.lengths)
            num_documents += len(block.counts)
            for name in counts:
                counts[name] += getattr(block, name)
    if num_tokens == 0:
        raise DataError("the corpus holds no text that gives tokens; give other text")
    meta = {
        "format": FORMAT,
        "fingerprint": fingerprint or digest.hexdigest(),
        "counts": counts,
        "arrays": {
            "tokens": [_width(tokenizer).__name__, num_tokens],
            "sentences": ["int64", num_sentences + 1],
            "documents": ["int64", num_documents + 1],
        },
    }
    write_file(folder / "meta.json", json.dumps(meta, indent=2) + "\n")


def _continue(file: BinaryIO, lengths: Numbers, start: int) -> None:
    file.write((np.cumsum(lengths, dtype=np.int64) + start).tobytes())


def _map(path: Path, dtype: str, length: int) -> Numbers:
    if dtype not in ("uint16", "uint32", "int64"):
        raise ValueError(f"numbers of kind {dtype!r}")
    expected = length * np.dtype(dtype).itemsize
    found = path.stat().st_size
    if found != expected:
        raise ValueError(f"{path.name} has {size(found)} of {size(expected)}")
    return np.memmap(path, dtype=dtype, mode="r", shape=(length,))


def _width(tokenizer: Tokenizer) -> type[np.uint16] | type[np.uint32]:
    return np.uint16 if tokenizer.vocab_size <= 1 << 16 else np.uint32


@dataclass(frozen=True, kw_only=True)
class _Block:
    """A batch of documents, encoded."""

    tokens: Numbers
    lengths: Numbers  # tokens of each sentence
    counts: Numbers  # sentences of each document
    num_characters: int
    num_words: int
    unknown: int


def _encode(documents: Iterable[str], tokenizer: Tokenizer) -> Iterator[_Block]:
    """Encode batches in parallel and give them back in order, never holding more than a few."""
    waiting: deque[Future[_Block]] = deque()
    encoder = _Encoder(tokenizer)
    with ThreadPoolExecutor(_NUM_WORKERS) as pool:
        try:
            for batch in _batches(documents):
                if len(waiting) > _NUM_WORKERS:
                    yield waiting.popleft().result()
                waiting.append(pool.submit(encoder, batch))
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def _batches(documents: Iterable[str]) -> Iterator[list[str]]:
    """Group texts so that each group but the last has at least `_BATCH` characters."""
    batch: list[str] = []
    length = 0
    for document in documents:
        batch.append(document)
        length += len(document)
        if length >= _BATCH:
            yield batch
            batch, length = [], 0
    if batch:
        yield batch


class _Encoder:
    """Splits, encodes and counts a batch of documents.

    Most words of a text have been met before. Where the tokenizer allows it, each is looked up in a table of those
    encoded so far, and only the new ones go to the library: three times as fast as giving it all the text.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self.end = tokenizer.specials.end
        self.pattern = tokenizer.separable()
        self.table = _Table(tokenizer)

    def __call__(self, documents: list[str]) -> _Block:
        split = [split_sentences(mend(document)) for document in documents]
        sentences = [sentence for pieces in split for sentence in pieces]
        parts = [self._ids(part) for part in _batches(sentences)]  # one document may be longer than a batch
        tokens = np.concatenate([part for part, _ in parts] or [np.zeros(0, np.uint32)])
        lengths = np.concatenate([part for _, part in parts] or [np.zeros(0, np.int64)])
        unknown = int(np.count_nonzero(tokens == self.tokenizer.specials.unknown))
        owners = np.repeat(np.arange(len(split)), [len(pieces) for pieces in split])[lengths > 0]
        lengths = lengths[lengths > 0]
        _, lasts, counts = np.unique(owners[::-1], return_index=True, return_counts=True)
        if self.end is not None:
            ends = len(owners) - 1 - lasts
            tokens = np.insert(tokens, np.cumsum(lengths)[ends], self.end)
            lengths[ends] += 1
        return _Block(
            tokens=tokens.astype(_width(self.tokenizer), copy=False),
            lengths=lengths,
            counts=counts.astype(np.int64, copy=False),
            num_characters=sum(map(len, documents)),
            num_words=sum(map(count_words, sentences)),
            unknown=unknown,
        )

    def _ids(self, sentences: list[str]) -> tuple[Numbers, Numbers]:
        """All tokens in a row, and how many each sentence has."""
        if self.pattern is None or self.table.useless():
            rows = self.tokenizer.encode_ids(sentences)
            return np.concatenate(rows), np.array([len(row) for row in rows], np.int64)
        find = self.pattern.findall
        found = [find(sentence) for sentence in sentences]
        tokens, lengths = self.table.encode([word for words in found for word in words])
        bounds = np.cumsum([0, *map(len, found)])
        return tokens, np.diff(np.concatenate([[0], np.cumsum(lengths)])[bounds])


class _Table:
    """The tokens of the words met so far; it starts afresh when it has grown too large."""

    LARGEST = 4_000_000  # characters

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self.lock = threading.Lock()
        self.pause = 0
        self.plain = re.compile(r" ?[\S\x1c-\x1f]+").fullmatch
        added = tokenizer.backend.get_added_tokens_decoder().values()
        self.eager = [token.content for token in added if token.lstrip]  # these swallow the white space before them
        self._clear()

    def useless(self) -> bool:
        """Whether words hardly repeat, as in Chinese cut by bytes; asked before each batch, and tried again later."""
        self.pause = max(0, self.pause - 1)
        return self.pause > 0

    def _clear(self) -> None:
        self.rows: dict[str, int] = {}
        self.num_characters = 0
        self.starts: Numbers = np.zeros(0, np.int64)
        self.lengths: Numbers = np.zeros(0, np.int64)
        self.tokens: Numbers = np.zeros(0, np.uint32)

    def encode(self, words: list[str]) -> tuple[Numbers, Numbers]:
        """The tokens of the words in a row, and how many each word has."""
        distinct = set(words)
        with self.lock:
            if self.num_characters > self.LARGEST:
                self._clear()
            unseen = list(distinct.difference(self.rows))
            if sum(map(len, unseen)) > sum(map(len, words)) / 2:
                self.pause = 20
            self._learn(unseen)
            rows = np.fromiter(map(self.rows.__getitem__, words), np.int64, len(words))
            starts, lengths, tokens = self.starts[rows], self.lengths[rows], self.tokens
        # Position j of the result lies as far behind its word's first token here as there.
        firsts = np.cumsum(lengths) - lengths
        sources = np.arange(lengths.sum()) + np.repeat(starts - firsts, lengths)
        return tokens[sources], lengths

    def _learn(self, words: list[str]) -> None:
        if not words:
            return
        plain = [word for word in words if self.plain(word) and not any(token in word for token in self.eager)]
        odd = list(set(words).difference(plain))
        found = self.tokenizer.encode_ids(odd)
        lengths = [np.array([len(tokens) for tokens in found], np.int64)]
        # The library takes as long for a short text as for a line, so words are given to it by the line.
        groups = [plain[start : start + 256] for start in range(0, len(plain), 256)]
        lines = ["\n".join(group) for group in groups]
        encodings = guarded(self.tokenizer.backend.encode_batch, lines, add_special_tokens=False)
        for group, encoding in zip(groups, encodings, strict=True):
            ends = np.cumsum([len(word) + 1 for word in group])  # behind the line end that follows each word
            places = np.array(encoding.offsets, np.int64).reshape(-1, 2)[:, 0]
            owners = np.searchsorted(ends, places, side="right")
            owners = np.where(places + 1 == np.append(ends, -1)[owners], len(group), owners)  # line ends belong to none
            found.append(np.array(encoding.ids, np.uint32)[owners < len(group)])
            lengths.append(np.bincount(owners, minlength=len(group) + 1)[: len(group)])
        self._add([*odd, *plain], np.concatenate(found), np.concatenate(lengths))

    def _add(self, words: list[str], tokens: Numbers, lengths: Numbers) -> None:
        self.rows.update(zip(words, range(len(self.rows), len(self.rows) + len(words)), strict=True))
        self.num_characters += sum(map(len, words))
        self.starts = np.concatenate([self.starts, len(self.tokens) + np.cumsum(lengths) - lengths])
        self.lengths = np.concatenate([self.lengths, lengths])
        self.tokens = np.concatenate([self.tokens, tokens])
