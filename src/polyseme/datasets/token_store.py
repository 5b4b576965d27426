"""Memory-mapped storage of the token ids of a corpus with its sentence and document boundaries."""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Self

import numpy as np

from polyseme.arrays import Integers
from polyseme.corpora.corpus import Corpus
from polyseme.corpora.sentence_splitting import split_sentences
from polyseme.corpora.utf16_text import Utf16Text
from polyseme.errors import CheckpointError, DataError
from polyseme.system.atomic_io import require_space, write_file
from polyseme.system.cache import load_or_build
from polyseme.system.formatting import format_bytes
from polyseme.tokenization import document_batches
from polyseme.tokenization.document_batches import DocumentBatch, map_document_batches
from polyseme.tokenization.fast_encoder.pretoken_cache import PretokenCache, PretokenizedBatch, PretokenizedText
from polyseme.tokenization.masking_units import MaskingUnits, mark_continuations
from polyseme.tokenization.tokenizer import Tokenizer
from polyseme.tokenization.training import call_library

FORMAT = 3  # increased when the files or the sentence splitting change
_COUNTS = ("num_characters", "num_words", "num_unknown")


@dataclass(frozen=True, eq=False, kw_only=True)
class TokenStore:
    """The token ids of a corpus: sentence i is `tokens[sentences[i]:sentences[i + 1]]`; documents hold sentences so."""

    tokens: Integers  # (N,) uint16 or uint32
    sentences: Integers  # (S + 1,) int64
    documents: Integers  # (D + 1,) int64
    num_characters: int
    num_words: int  # separated by white space; each ideograph counts as a word
    num_unknown: int  # unknown tokens
    fingerprint: str
    language_starts: Sequence[int] = (0,)  # index of the first token of each language
    units: Integers | None = None  # (N,) uint8, one bit per level of masking units that the token continues

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
    def open(cls, folder: Path) -> Self:
        """Map the files of a store."""
        try:
            meta = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
            if meta["format"] != FORMAT:
                raise CheckpointError(f"{folder} was written by another version of Polyseme; delete it and rebuild it")
            arrays = {name: _map(folder / name, dtype, length) for name, (dtype, length) in meta["arrays"].items()}
            values: dict[str, Any] = {**arrays, **meta["counts"], "fingerprint": meta["fingerprint"]}
            return cls(**values)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise CheckpointError(
                f"{folder} is not a complete token store ({error}); delete it and rebuild it"
            ) from None

    @classmethod
    def from_documents(
        cls,
        documents: Iterable[str],
        tokenizer: Tokenizer,
        units: MaskingUnits | None = None,
        *,
        split: Callable[[str], list[str]] = split_sentences,
    ) -> Self:
        """Tokenize documents in memory."""
        blocks = list(_encode(documents, tokenizer, units, split))
        if not any(len(block.tokens) for block in blocks):
            raise DataError("the documents contain no tokens; give some text")
        tokens = np.concatenate([block.tokens for block in blocks])
        return cls(
            tokens=tokens,
            sentences=np.cumsum(np.concatenate([[0], *(block.lengths for block in blocks)], dtype=np.int64)),
            documents=np.cumsum(np.concatenate([[0], *(block.counts for block in blocks)], dtype=np.int64)),
            **{name: sum(getattr(block, name) for block in blocks) for name in _COUNTS},
            fingerprint=hashlib.sha256(_key(tokenizer.fingerprint, units) + tokens.tobytes()).hexdigest(),
            units=np.concatenate([block.units for block in blocks]) if units else None,
        )


def build_or_load_store(
    corpus: Corpus,
    tokenizer: Tokenizer,
    units: MaskingUnits | None = None,
    *,
    pretokenized: PretokenizedText | None = None,
) -> TokenStore:
    """Load the token store of a corpus from the cache, or build it there.

    Masking units are stored if `units` is given. With `pretokenized` text the corpus need not be read again.
    """
    key = _key(f"{corpus.fingerprint()} {tokenizer.fingerprint}", units)
    fingerprint = hashlib.sha256(key).hexdigest()

    def build(folder: Path) -> None:
        # A token takes about four bytes of text and two or four bytes in the store; text may be compressed.
        require_space(folder, 3 * corpus.num_bytes, DataError)
        build_store(corpus, tokenizer, folder, fingerprint=fingerprint, units=units, pretokenized=pretokenized)

    return load_or_build("stores", fingerprint, load=TokenStore.open, build=build)


def _key(sources: str, units: MaskingUnits | None) -> bytes:
    return f"{FORMAT} {sources}{f' {units.fingerprint}' if units else ''}".encode()


def build_store(
    corpus: Iterable[str],
    tokenizer: Tokenizer,
    folder: Path,
    *,
    fingerprint: str,
    units: MaskingUnits | None = None,
    pretokenized: PretokenizedText | None = None,
) -> TokenStore:
    """Tokenize a corpus into the files of a store."""
    folder.mkdir(parents=True, exist_ok=True)
    dtypes = {"tokens": _dtype(tokenizer).__name__, "sentences": "int64", "documents": "int64"}
    dtypes |= {"units": "uint8"} if units else {}
    sizes = dict.fromkeys(dtypes, 0)
    counts = dict.fromkeys(_COUNTS, 0)
    language_starts: list[int] = []
    with ExitStack() as stack:
        files = {name: stack.enter_context((folder / name).open("wb")) for name in dtypes}

        def append(**arrays: Integers | None) -> None:
            for name, array in arrays.items():
                if array is not None:
                    files[name].write(array.tobytes())
                    sizes[name] += len(array)

        append(sentences=np.zeros(1, np.int64), documents=np.zeros(1, np.int64))
        for part in corpus.languages if isinstance(corpus, Corpus) else [corpus]:
            language_starts.append(sizes["tokens"])
            split = part.split_document if isinstance(part, Corpus) else split_sentences
            for block in _encode(part, tokenizer, units, split, pretokenized):
                append(
                    documents=np.cumsum(block.counts, dtype=np.int64) + (sizes["sentences"] - 1),
                    sentences=np.cumsum(block.lengths, dtype=np.int64) + sizes["tokens"],
                    tokens=block.tokens,
                    units=block.units,
                )
                for name in counts:
                    counts[name] += getattr(block, name)
    if sizes["tokens"] == 0:
        raise DataError("the corpus contains no tokens; give other text")
    meta = {
        "format": FORMAT,
        "fingerprint": fingerprint,
        "counts": {**counts, "language_starts": language_starts},
        "arrays": {name: [dtype, sizes[name]] for name, dtype in dtypes.items()},
    }
    write_file(folder / "meta.json", json.dumps(meta, indent=2) + "\n")
    return TokenStore.open(folder)


def _map(path: Path, dtype: str, length: int) -> Integers:
    if dtype not in ("uint8", "uint16", "uint32", "int64"):
        raise ValueError(f"unknown dtype {dtype!r}")
    expected = length * np.dtype(dtype).itemsize
    found = path.stat().st_size
    if found != expected:
        raise ValueError(f"{path.name} has {format_bytes(found)} of {format_bytes(expected)}")
    return np.memmap(path, dtype=dtype, mode="r", shape=(length,))


def _dtype(tokenizer: Tokenizer) -> type[np.uint16] | type[np.uint32]:
    return np.uint16 if tokenizer.vocab_size <= 1 << 16 else np.uint32


@dataclass(frozen=True, kw_only=True)
class _Block:
    """The tokens of a batch of documents."""

    tokens: Integers
    units: Integers | None
    lengths: Integers  # tokens per sentence
    counts: Integers  # sentences per document
    num_characters: int
    num_words: int
    num_unknown: int


def _encode(
    documents: Iterable[str],
    tokenizer: Tokenizer,
    units: MaskingUnits | None,
    split: Callable[[str], list[str]],
    pretokenized: PretokenizedText | None = None,
) -> Iterator[_Block]:
    """Tokenize documents in order, from their pre-tokenized text if it fits the tokenizer."""
    if pretokenized is not None and units is None and pretokenized.matches(tokenizer):
        for batch, tokens, lengths in pretokenized.encode(tokenizer):
            yield _close_documents(tokenizer, batch, tokens, lengths)
    else:
        yield from map_document_batches(documents, split, tokenizer.segmentation, _Encoder(tokenizer, units))


def _close_documents(
    tokenizer: Tokenizer,
    batch: DocumentBatch | PretokenizedBatch,
    tokens: Integers,
    lengths: Integers,
    units: Integers | None = None,
) -> _Block:
    """Drop empty sentences and documents, and add the end token to each document."""
    end = tokenizer.specials.end
    num_unknown = int(np.count_nonzero(tokens == tokenizer.specials.unknown))
    owners = np.repeat(np.arange(len(batch.counts)), batch.counts)[lengths > 0]
    lengths = lengths[lengths > 0]
    counts = np.bincount(owners, minlength=1)
    counts = counts[counts > 0]
    if end is not None:
        ends = np.cumsum(counts) - 1
        positions = np.cumsum(lengths)[ends]
        tokens = np.insert(tokens, positions, end)
        units = np.insert(units, positions, 0) if units is not None else None
        lengths[ends] += 1
    return _Block(
        tokens=tokens.astype(_dtype(tokenizer), copy=False),
        units=units,
        lengths=lengths,
        counts=counts,
        num_characters=batch.num_characters,
        num_words=batch.num_words,
        num_unknown=num_unknown,
    )


class _Encoder:
    """Tokenizes a batch of documents."""

    def __init__(self, tokenizer: Tokenizer, units: MaskingUnits | None) -> None:
        self.tokenizer, self.units = tokenizer, units
        self.cache = None if units else PretokenCache.of(tokenizer)
        if units:
            units.find("")  # loads its lexicon before threads share it

    def __call__(self, batch: DocumentBatch) -> _Block:
        text = batch.text
        # A single document may exceed the batch length.
        starts = np.flatnonzero(np.diff(text.bounds[:-1] // (2 * document_batches.BATCH_LENGTH), prepend=-1)).tolist()
        parts = [self._tokenize(text.segments(*ends)) for ends in pairwise([*starts, len(text.bounds) - 1])]
        empty = (np.zeros(0, np.uint32), np.zeros(0, np.int64), np.zeros(0, np.uint8))
        tokens, lengths, units = (np.concatenate(arrays) for arrays in zip(empty, *parts, strict=True))
        return _close_documents(self.tokenizer, batch, tokens, lengths, units if self.units else None)

    def _tokenize(self, text: Utf16Text) -> tuple[Integers, Integers, Integers]:
        """The tokens of sentences, the number of tokens of each, and the units of tokens if there are any."""
        units: Integers = np.zeros(0, np.uint8)
        encoded = self.cache.encode(text) if self.cache else None
        if encoded is not None:
            return *encoded, units
        sentences = text.substrings(text.bounds[:-1], text.bounds[1:])
        if self.units:
            encodings = call_library(self.tokenizer.backend.encode_batch, sentences, add_special_tokens=False)
            rows = [np.array(encoding.ids, np.uint32) for encoding in encodings]
            units = _unit_bits(self.units, sentences, [encoding.offsets for encoding in encodings])
        else:
            rows = self.tokenizer.encode_segmented(sentences)
        return np.concatenate(rows), np.array([len(row) for row in rows]), units


def _unit_bits(units: MaskingUnits, sentences: list[str], offsets: list[list[tuple[int, int]]]) -> Integers:
    """The unit bits of each token, from its character offsets."""
    lengths = np.array(list(map(len, offsets)))
    starts = np.cumsum([0, *(len(sentence) + 1 for sentence in sentences)])[:-1]
    bounds = np.array([bound for row in offsets for bound in row], np.int64).reshape(-1, 2)
    bounds += np.repeat(starts, lengths)[:, None]
    bits = np.zeros(len(bounds), np.uint8)
    # All sentences at once, joined by line breaks, which no unit crosses.
    for level, spans in units.find("\n".join(sentences)).items():
        bits |= mark_continuations(spans, *bounds.T) * np.uint8(level)
    return bits


def find_parallel_pairs(store: TokenStore) -> Integers:
    """Indices of the source sentences of a parallel corpus; each is followed by its translation.

    Pairs of which a sentence has no tokens are omitted.
    """
    first, end = store.documents[:-1], store.documents[1:]
    return np.asarray(first[end - first == 2])
