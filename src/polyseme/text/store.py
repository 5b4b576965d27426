"""Stores: the token ids of a corpus with its sentence and document boundaries, memory-mapped."""

import errno
import hashlib
import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO, Self

import numpy as np

from polyseme.errors import CheckpointError, DataError
from polyseme.files import cache_folder, require_space, size, whole_folder, write_file
from polyseme.text import passages
from polyseme.text.corpus import Corpus
from polyseme.text.draft import Draft, Sheet
from polyseme.text.passages import Passage
from polyseme.text.sentences import split_sentences
from polyseme.text.stretches import Table
from polyseme.text.tokenizer import Tokenizer
from polyseme.text.units import Units, align
from polyseme.text.utf16 import Numbers, Text
from polyseme.text.vocabulary import guarded

FORMAT = 2  # counts changes of the files and of how sentences are split


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
    languages: Sequence[int] = (0,)  # the first token of each
    units: Numbers | None = None  # (N,) uint8, bits of the units that a token shares with the token before

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
    def from_documents(
        cls,
        documents: Iterable[str],
        tokenizer: Tokenizer,
        units: Units | None = None,
        *,
        split: Callable[[str], list[str]] = split_sentences,
    ) -> Self:
        """Encode a few documents in memory."""
        blocks = list(_encode(documents, tokenizer, units, split))
        digest = hashlib.sha256(_key(tokenizer.fingerprint, units))
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
            units=np.concatenate([block.units for block in blocks]) if units else None,
        )


def prepare(corpus: Corpus, tokenizer: Tokenizer, units: Units | None = None, *, draft: Draft | None = None) -> Store:
    """The store of a corpus, from the cache or built now and kept there; it knows of `units` if they are given.

    With a `draft` of the corpus it is not read again, where that can be.
    """
    key = _key(f"{corpus.fingerprint()} {tokenizer.fingerprint}", units)
    fingerprint = hashlib.sha256(key).hexdigest()
    folder = cache_folder() / "stores" / fingerprint
    if folder.exists():
        try:
            return Store.open(folder)
        except CheckpointError:
            shutil.rmtree(folder, ignore_errors=True)
    try:
        return build_store(corpus, tokenizer, folder, fingerprint=fingerprint, units=units, draft=draft)
    except FileExistsError:
        return Store.open(folder)  # another process was faster


def _key(sources: str, units: Units | None) -> bytes:
    """What a store is made from, in a line."""
    return f"{FORMAT} {sources}{f' {units.fingerprint}' if units else ''}".encode()


def build_store(
    corpus: Iterable[str],
    tokenizer: Tokenizer,
    folder: Path | str,
    *,
    fingerprint: str | None = None,
    units: Units | None = None,
    draft: Draft | None = None,
) -> Store:
    """Stream a corpus into a store at `folder`, which is whole or not there at all."""
    folder = Path(folder)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(corpus, Corpus):
            # A token takes some four bytes of text and two or four of store; compressed text is counted as three times.
            require_space(folder.parent, 3 * corpus.num_bytes, DataError)
        with whole_folder(folder) as beside:
            _write(corpus, tokenizer, beside, fingerprint, units, draft)
    except OSError as error:
        if error.errno in (errno.EEXIST, errno.ENOTEMPTY):
            raise FileExistsError(errno.EEXIST, "a store is there already", str(folder)) from None
        free = f" ({size(shutil.disk_usage(folder.parent).free)} free)" if folder.parent.is_dir() else ""
        raise DataError(f"{folder}: {error.strerror}{free}; make room or set POLYSEME_CACHE to another disk") from None
    return Store.open(folder)


def _write(
    corpus: Iterable[str],
    tokenizer: Tokenizer,
    folder: Path,
    fingerprint: str | None,
    units: Units | None,
    draft: Draft | None,
) -> None:
    num_tokens = num_sentences = num_documents = 0
    languages: list[int] = []
    counts = {"num_characters": 0, "num_words": 0, "unknown": 0}
    digest = hashlib.sha256(_key(tokenizer.fingerprint, units))
    names = ["tokens", "sentences", "documents", *(["units"] if units else [])]
    with ExitStack() as stack:
        files = {name: stack.enter_context((folder / name).open("wb")) for name in names}
        for name in ("sentences", "documents"):
            files[name].write(np.zeros(1, np.int64).tobytes())
        for part in corpus.parts if isinstance(corpus, Corpus) else [corpus]:
            languages.append(num_tokens)
            split = part.split if isinstance(part, Corpus) else split_sentences
            for block in _encode(part, tokenizer, units, split, draft):
                files["tokens"].write(block.tokens.tobytes())
                _continue(files["sentences"], block.lengths, num_tokens)
                _continue(files["documents"], block.counts, num_sentences)
                if block.units is not None:
                    files["units"].write(block.units.tobytes())
                digest.update(block.tokens.tobytes())
                num_tokens += len(block.tokens)
                num_sentences += len(block.lengths)
                num_documents += len(block.counts)
                for name in counts:
                    counts[name] += getattr(block, name)
    if num_tokens == 0:
        raise DataError("the corpus holds no text that gives tokens; give other text")
    arrays = {
        "tokens": [_width(tokenizer).__name__, num_tokens],
        "sentences": ["int64", num_sentences + 1],
        "documents": ["int64", num_documents + 1],
        "units": ["uint8", num_tokens],
    }
    meta = {
        "format": FORMAT,
        "fingerprint": fingerprint or digest.hexdigest(),
        "counts": {**counts, "languages": languages},
        "arrays": {name: arrays[name] for name in names},
    }
    write_file(folder / "meta.json", json.dumps(meta, indent=2) + "\n")


def _continue(file: BinaryIO, lengths: Numbers, start: int) -> None:
    file.write((np.cumsum(lengths, dtype=np.int64) + start).tobytes())


def _map(path: Path, dtype: str, length: int) -> Numbers:
    if dtype not in ("uint8", "uint16", "uint32", "int64"):
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
    units: Numbers | None  # of each token, where they are asked for
    lengths: Numbers  # tokens of each sentence
    counts: Numbers  # sentences of each document
    num_characters: int
    num_words: int
    unknown: int


def _encode(
    documents: Iterable[str],
    tokenizer: Tokenizer,
    units: Units | None,
    split: Callable[[str], list[str]],
    draft: Draft | None = None,
) -> Iterator[_Block]:
    """The blocks of a text in order, from its draft where there is one of use."""
    if draft is not None and units is None and draft.suits(tokenizer):
        for sheet, tokens, lengths in draft.encode(tokenizer):
            yield _block(tokenizer, sheet, sheet.num_words, tokens, lengths)
    else:
        yield from passages.read(documents, split, tokenizer.spacing, _Encoder(tokenizer, units))


def _block(
    tokenizer: Tokenizer,
    read: Passage | Sheet,
    num_words: int,
    tokens: Numbers,
    lengths: Numbers,
    units: Numbers | None = None,
) -> _Block:
    """A block from the tokens of all sentences; those without any are left out, and documents are closed."""
    end = tokenizer.specials.end
    unknown = int(np.count_nonzero(tokens == tokenizer.specials.unknown))
    owners = np.repeat(np.arange(len(read.counts)), read.counts)[lengths > 0]
    lengths = lengths[lengths > 0]
    counts = np.bincount(owners, minlength=1)
    counts = counts[counts > 0]
    if end is not None:
        ends = np.cumsum(counts) - 1
        places = np.cumsum(lengths)[ends]
        tokens = np.insert(tokens, places, end)
        units = np.insert(units, places, 0) if units is not None else None
        lengths[ends] += 1
    return _Block(
        tokens=tokens.astype(_width(tokenizer), copy=False),
        units=units,
        lengths=lengths,
        counts=counts,
        num_characters=read.num_characters,
        num_words=num_words,
        unknown=unknown,
    )


class _Encoder:
    """Encodes and counts a passage."""

    def __init__(self, tokenizer: Tokenizer, units: Units | None) -> None:
        self.tokenizer = tokenizer
        self.units = units
        self.table = None
        if units:
            units.find("")  # learns what it has to, before threads share it
        else:
            self.table = Table.of(tokenizer)

    def __call__(self, passage: Passage) -> _Block:
        text = passage.text
        # One document may be longer than a passage should be.
        firsts = np.flatnonzero(np.diff(text.bounds[:-1] // (2 * passages.LENGTH), prepend=-1)).tolist()
        parts = [self._part(text.part(*ends)) for ends in pairwise([*firsts, len(text.bounds) - 1])]
        nothing = (np.zeros(0, np.uint32), np.zeros(0, np.int64), np.zeros(0, np.uint8))
        tokens, lengths, units = (np.concatenate(arrays) for arrays in zip(nothing, *parts, strict=True))
        found = units if self.units else None
        return _block(self.tokenizer, passage, passages.count_words(text), tokens, lengths, found)

    def _part(self, text: Text) -> tuple[Numbers, Numbers, Numbers]:
        """The tokens of some sentences, how many each has, and their units if these are asked for."""
        units: Numbers = np.zeros(0, np.uint8)
        found = self.table.encode(text) if self.table else None
        if found is not None:
            return *found, units
        sentences = text.pieces(text.bounds[:-1], text.bounds[1:])
        if self.units:
            encodings = guarded(self.tokenizer.backend.encode_batch, sentences, add_special_tokens=False)
            rows = [np.array(encoding.ids, np.uint32) for encoding in encodings]
            units = _units(self.units, sentences, [encoding.offsets for encoding in encodings])
        else:
            rows = self.tokenizer.encode_spaced(sentences)
        return np.concatenate(rows), np.array([len(row) for row in rows]), units


def _units(units: Units, sentences: list[str], offsets: list[list[tuple[int, int]]]) -> Numbers:
    """The bits of every token, from the characters that it stands for."""
    lengths = np.array(list(map(len, offsets)))
    starts = np.cumsum([0, *(len(sentence) + 1 for sentence in sentences)])[:-1]
    bounds = np.array([bound for row in offsets for bound in row], np.int64).reshape(-1, 2)
    bounds += np.repeat(starts, lengths)[:, None]
    bits = np.zeros(len(bounds), np.uint8)
    # All at once, with a line's end between, over which no unit goes on.
    for level, spans in units.find("\n".join(sentences)).items():
        bits |= align(spans, *bounds.T) * np.uint8(level)
    return bits
