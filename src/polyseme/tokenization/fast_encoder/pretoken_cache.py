"""Cache of the tokens of pre-tokens: text is mostly words that come again, and each is encoded once.

Pre-tokens are looked up among those seen before, in compiled loops that release the interpreter lock, and only new ones
go to the tokenizers library.
"""

import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import repeat
from typing import Self

import numpy as np
import tokenizers
from tokenizers import models, pre_tokenizers

from polyseme.arrays import Integers
from polyseme.corpora.scripts import STABLE_IDEOGRAPHS, UNIFIED_IDEOGRAPHS
from polyseme.corpora.utf16_text import Utf16Text
from polyseme.system.jit import jit
from polyseme.tokenization.fast_encoder.boundaries import PretokenBoundaries
from polyseme.tokenization.fast_encoder.hash_index import HashIndex
from polyseme.tokenization.tokenizer import Tokenizer
from polyseme.tokenization.training import byte_alphabet, call_library, is_word_splitter

_PAUSE = 20  # batches left to the library when pre-tokens hardly repeat


class PretokenCache:
    """The tokens of pre-tokens seen so far; it is cleared when full.

    Pre-tokens that are too long for a key are encoded each time.
    """

    def __init__(self, tokenizer: Tokenizer, boundaries: PretokenBoundaries) -> None:
        self.tokenizer = tokenizer
        self.boundaries = boundaries
        self.word_encoder = WholeWordEncoder(tokenizer.backend)
        self.lock = threading.Lock()
        self.pause = 0
        self._clear()

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> Self | None:
        """A cache for a tokenizer, or None if its pipeline is not supported."""
        boundaries = PretokenBoundaries.of(tokenizer)
        return cls(tokenizer, boundaries) if boundaries is not None else None

    def _clear(self, min_capacity: int = 0) -> None:
        self.index = HashIndex(min_capacity)
        self.firsts = np.empty(self.index.capacity, np.int32)  # offset in `tokens` of each entry
        self.counts = np.empty(self.index.capacity, np.int32)  # number of tokens of each entry
        self.tokens: Integers = np.empty(0, np.uint32)

    def encode(self, text: Utf16Text) -> tuple[Integers, Integers] | None:
        """Encode sentences; return their tokens and the number of each, or None to leave the text to the library."""
        self.pause = max(0, self.pause - 1)
        if self.pause or not self.boundaries.applies_to(text):
            return None
        starts, ends = self.boundaries.find(text)
        with self.lock:
            if not self.index.has_room(len(starts)):
                self._clear(len(starts))
            rows, new = self.index.find_or_add(text, starts, ends)
            self._add(text.substrings(starts[new], ends[new]), rows[new])
            if 2 * (ends[new] - starts[new]).sum() > (ends - starts).sum():
                self.pause = _PAUSE
            firsts, counts, tokens = self.firsts, self.counts, self.tokens
        return _gather(rows, self.boundaries.per_sentence(text, starts), firsts, counts, tokens)

    def fill(self, pretokens: list[str]) -> None:
        """Clear the cache and give the first rows to these pre-tokens."""
        self._clear(len(pretokens))
        self._add(pretokens, np.arange(len(pretokens)))

    def gather(self, rows: Integers, lengths: Integers) -> tuple[Integers, Integers]:
        """The tokens of cached rows, and the number of each sentence, which has `lengths` rows."""
        return _gather(rows, lengths, self.firsts, self.counts, self.tokens)

    def _add(self, pretokens: list[str], rows: Integers) -> None:
        whole = np.array([self.word_encoder.accepts(pretoken) is not None for pretoken in pretokens], np.bool_)
        order = np.argsort(~whole, kind="stable")
        pretokens = [pretokens[index] for index in order.tolist()]
        num_whole = np.count_nonzero(whole)
        tokens, counts = self.word_encoder.encode(pretokens[:num_whole])
        others = self.tokenizer.encode_segmented(pretokens[num_whole:])
        counts = np.concatenate([counts, np.array([len(other) for other in others], np.int64)])
        rows = rows[order]
        self.counts[rows] = counts
        self.firsts[rows] = len(self.tokens) + np.cumsum(counts) - counts
        self.tokens = np.concatenate([self.tokens, tokens, *others])


@jit
def _gather(
    rows: Integers, lengths: Integers, firsts: Integers, counts: Integers, cached: Integers
) -> tuple[Integers, Integers]:
    num_tokens = 0
    for row in rows:
        num_tokens += counts[row]
    tokens, sentence_lengths = np.empty(num_tokens, np.uint32), np.zeros(len(lengths), np.int64)
    place = number = 0
    for sentence in range(len(lengths)):
        start = place
        for row in rows[number : number + lengths[sentence]]:
            for token in range(firsts[row], firsts[row] + counts[row]):
                tokens[place] = cached[token]
                place += 1
        number += lengths[sentence]
        sentence_lengths[sentence] = place - start
    return tokens, sentence_lengths


class WholeWordEncoder:
    """Encodes words that the pre-tokenizer leaves whole with the model alone: twice as fast as the whole pipeline.

    Words of a word-level model are looked up here, which is faster still.
    """

    GROUP_SIZE = 256  # words passed to the library at once, since a call takes as long for one

    def __init__(self, backend: tokenizers.Tokenizer) -> None:
        self.backend = tokenizers.Tokenizer(backend.model)
        self.backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        if isinstance(backend.pre_tokenizer, pre_tokenizers.ByteLevel):
            words, end = rf" ?(?:[A-Za-z{STABLE_IDEOGRAPHS}]+|[0-9]+)", "Ċ"
            self.spell: Callable[[str], str] = _spell_bytes
        elif is_word_splitter(backend.pre_tokenizer):
            words, end = f"[A-Za-z0-9]+|[{UNIFIED_IDEOGRAPHS}]", "."
            self.spell = str.lower if backend.normalizer.lowercase else str
        else:
            words, end, self.spell = "(?!)", ".", str
        # A token that no word contains follows each word, so that the tokens of a group can be separated.
        encoding = self.backend.encode(end, add_special_tokens=False)
        valid = len(encoding) == 1 and end in encoding.tokens[0] and end != getattr(backend.model, "unk_token", None)
        self.end = encoding.ids[0] if valid else None
        self.separator = f" {end} "
        self.accepts = re.compile(words if self.end is not None else "(?!)").fullmatch
        word_level = isinstance(backend.model, models.WordLevel)
        self.vocab = self.backend.get_vocab() if word_level else {}
        self.unknown = self.vocab.get(backend.model.unk_token) if word_level else None

    def encode(self, words: list[str]) -> tuple[Integers, Integers]:
        """The concatenated tokens of words, and the number of each word."""
        if self.unknown is not None and words:
            spelled = self.spell("\n".join(words)).split("\n")
            ids = map(self.vocab.get, spelled, repeat(self.unknown))
            return np.fromiter(ids, np.uint32, len(words)), np.ones(len(words), np.int64)
        groups = [words[start : start + self.GROUP_SIZE] for start in range(0, len(words), self.GROUP_SIZE)]
        lines = [self.spell("\n".join([*group, ""])).replace("\n", self.separator) for group in groups]
        encodings = call_library(self.backend.encode_batch_fast, lines, add_special_tokens=False)
        tokens = np.array([id for encoding in encodings for id in encoding.ids], np.uint32)
        ends = np.flatnonzero(tokens == self.end)
        return np.delete(tokens, ends), np.diff(ends, prepend=-1) - 1


def _spell_bytes(text: str) -> str:
    if text.isascii():
        return text.replace(" ", "Ġ")
    return text.encode().decode("latin-1").translate(dict(enumerate(byte_alphabet())) | {ord("\n"): "\n"})


@dataclass(frozen=True, kw_only=True)
class PretokenizedBatch:
    """The pre-tokens of a batch of documents."""

    rows: Integers  # the index of each pre-token
    lengths: Integers  # pre-tokens of each sentence
    counts: Integers  # sentences of each document
    num_characters: int
    num_words: int


class PretokenizedText:
    """A whole text as indices of its pre-tokens, or nothing if it is too long for memory or cannot be split into them.

    Its words are counted at the same time; once they have ids, a token store is made of it without reading it again.
    """

    MAX_LENGTH = 1 << 26  # pre-tokens, of four bytes each
    MAX_PRETOKENS = 1 << 22  # almost all of them distinct

    def __init__(self, *, complete: bool = True) -> None:
        self.complete = complete
        self.boundaries: PretokenBoundaries | None = None  # set when the whole text is here
        self.pretokens: list[str] = []  # by their index
        self.batches: list[PretokenizedBatch] = []
        self._length = 0

    def add(self, batch: PretokenizedBatch | None) -> None:
        """Add a batch; drop everything if it is None or does not fit."""
        self._length += len(batch.rows) if batch else 0
        fits = self._length <= self.MAX_LENGTH and len(self.pretokens) <= self.MAX_PRETOKENS
        if self.complete and batch and fits:
            self.batches.append(batch)
        else:
            self.complete = False
            self.batches.clear()
            self.pretokens.clear()

    def matches(self, tokenizer: Tokenizer) -> bool:
        """Whether the whole text is here, split as a tokenizer splits it."""
        boundaries = self.boundaries
        return self.complete and boundaries is not None and boundaries.same_as(PretokenBoundaries.of(tokenizer))

    def encode(self, tokenizer: Tokenizer) -> Iterator[tuple[PretokenizedBatch, Integers, Integers]]:
        """Encode the batches; yield each with its tokens and the number of tokens of each sentence."""
        cache = PretokenCache.of(tokenizer)
        assert cache is not None
        cache.fill(self.pretokens)
        for batch in self.batches:
            yield batch, *cache.gather(batch.rows, batch.lengths)
