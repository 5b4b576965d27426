"""Stretches of a text that give the same tokens alone as in their place: words, mostly, which come again and again.

One table says of what kind each unit of a text is, another between which kinds to cut. What lies between two cuts is
looked up among those met before, and only new ones go to the tokenizers library. All this is done by compiled loops,
which leave other threads free.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any, Self

import numpy as np
import tokenizers
from numpy.typing import NDArray
from tokenizers import models, normalizers, pre_tokenizers

from polyseme.kernels import compiled
from polyseme.text.tokenizer import Tokenizer
from polyseme.text.utf16 import NUM_UNITS, Flags, Numbers, Text, units_of
from polyseme.text.vocabulary import IDEOGRAPHS, guarded, splits_words

_OTHER, _LETTER, _IDEOGRAPH, _DIGIT, _MARK, _APOSTROPHE, _SPACE, _WHITE = range(8)
# Only what has the same kind in every version of Unicode; all else is never cut from its neighbours.
_LETTERS = "A-Za-zÀ-ÖØ-öø-ɏΑ-ΡΣ-Ωα-ωЀ-ҁぁ-ゖァ-ヺ가-힣"
_UNIFIED_IDEOGRAPHS = "\u3400-\u4db5\u4e00-\u9fa5"
_OLD_IDEOGRAPHS = f"{_UNIFIED_IDEOGRAPHS}\uf900-\ufa2d"
_MARKS = r"!-/:-@\[-`{-~，。、；：？！“”‘’（）《》「」『』【】—–…·"
_WHITE_SPACE = r"\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"  # as the library has it
_TOGETHER, _APART, _JOINED, _BLANKS = range(4)  # neighbours; the last two need another look


def _byte_letters() -> list[str]:
    """How each byte is written in the vocabulary of a byte-level BPE: as itself, or with the letters from 256 on."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    others = (letter for letter in letters if ord(letter) > 255)
    return [chr(byte) if chr(byte) in letters else next(others) for byte in range(256)]


_BYTE_LETTERS = _byte_letters()

LONGEST = 15  # units of a stretch that has a key: them, four to a number, and how many they are in the last
_MASKS = (np.tri(LONGEST + 1, LONGEST + 1, -1, np.uint16) * np.uint16(0xFFFF)).view(np.uint64)  # by that number
_MIXERS = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93], np.uint64)
_HALF, _LAST = np.uint64(32), np.uint64(48)


@dataclass(frozen=True, kw_only=True)
class Cutter:
    """Where texts may be cut without changing their tokens."""

    kinds: NDArray[np.uint8]  # of each unit
    relations: NDArray[np.uint8]  # by eight times the kind before, and the kind behind
    blank: bool  # whether white space gives no tokens
    added: list[str]  # tokens that the library looks for before all else; a text with one is not cut
    joins: Joins = field(default_factory=lambda: Joins([]))

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> Self | None:
        """How to cut for a tokenizer, if that is known."""
        normalizer, splitter = tokenizer.backend.normalizer, tokenizer.backend.pre_tokenizer
        tokens = tokenizer.backend.get_added_tokens_decoder().values()
        added = [token.content for token in tokens]
        if isinstance(normalizer, normalizers.BertNormalizer):
            usual = splits_words(splitter) or tokenizer.config.kind == "char"
            if not usual or any(token.normalized for token in tokens):  # these are found in other guises too
                return None
            return cls.of_words(added, IDEOGRAPHS if normalizer.handle_chinese_chars else "")
        if normalizer is not None or not isinstance(splitter, pre_tokenizers.ByteLevel):
            return None
        if splitter.add_prefix_space or not splitter.use_regex:
            return None
        return cls.of_bytes(added, Joins.of(tokenizer))

    @classmethod
    def of_words(cls, added: list[str], ideographs: str) -> Self:
        """BERT: white space gives nothing, marks and ideographs stand alone."""
        kinds = np.full(NUM_UNITS, _OTHER, np.uint8)
        kinds[units_of(_MARKS + ideographs)] = _MARK
        kinds[units_of("_")] = _OTHER  # a tokenizer of words keeps new_york together
        kinds[units_of(r" \n")] = _WHITE
        relations = np.full((8, 8), _APART, np.uint8)
        relations[_OTHER, _OTHER] = relations[_WHITE, _WHITE] = _TOGETHER
        return cls(kinds=kinds, relations=relations.ravel(), blank=True, added=added)

    @classmethod
    def of_bytes(cls, added: list[str], joins: Joins | None) -> Self:
        """GPT-2: letters, digits and marks stand apart, each with the space before it."""
        kinds = np.full(NUM_UNITS, _OTHER, np.uint8)
        kinds[units_of(_LETTERS)] = _LETTER
        kinds[units_of(_OLD_IDEOGRAPHS)] = _IDEOGRAPH
        kinds[units_of("0-9")] = _DIGIT
        kinds[units_of(_MARKS)] = _MARK
        kinds[units_of("'")] = _APOSTROPHE
        kinds[units_of(_WHITE_SPACE)] = _WHITE
        kinds[units_of(" ")] = _SPACE
        relations = np.full((8, 8), _APART, np.uint8)
        letters = [_LETTER, _IDEOGRAPH]
        for group in (letters, [_DIGIT], [_MARK, _APOSTROPHE]):
            relations[np.ix_(group, group)] = _TOGETHER
        relations[_APOSTROPHE, letters] = _TOGETHER  # 've
        relations[:_SPACE, _OTHER] = relations[_OTHER, :_SPACE] = relations[_SPACE, :_SPACE] = _TOGETHER
        relations[_SPACE:, _SPACE:] = _BLANKS
        if joins is not None:
            relations[_IDEOGRAPH, _IDEOGRAPH] = _JOINED
        return cls(kinds=kinds, relations=relations.ravel(), blank=False, added=added, joins=joins or Joins([]))

    def suits(self, text: Text) -> bool:
        """Whether a text has none of the tokens that are looked for before all else."""
        return not any(token in text.characters for token in self.added)

    def same(self, other: Cutter | None) -> bool:
        """Whether another one cuts alike."""
        return other is not None and set(self.added) == set(other.added) and np.array_equal(self.kinds, other.kinds)

    def cut(self, text: Text) -> tuple[Numbers, Numbers]:
        """Where stretches begin and end."""
        joins = self.joins
        starts, ends = _cut(
            text.units, text.bounds, self.kinds, self.relations, self.blank, joins.left, joins.right, joins.pairs
        )
        return starts, ends

    @staticmethod
    def shares(text: Text, starts: Numbers) -> Numbers:
        """How many of its stretches each sentence of a text has."""
        return np.diff(np.searchsorted(starts, text.bounds))


@compiled
def _cut(
    units: Any, bounds: Any, kinds: Any, relations: Any, blank: bool, left: Flags, right: Flags, pairs: Flags
) -> Any:
    starts, ends = np.empty(len(units), np.int32), np.empty(len(units), np.int32)
    number = 0
    for sentence in range(len(bounds) - 1):
        start, end = bounds[sentence], bounds[sentence + 1]
        kind = kinds[units[start]] if start < end else 0
        for place in range(start + 1, end + 1):
            if place < end:
                before, kind = kind, kinds[units[place]]
                relation = relations[before << 3 | kind]
                if relation == _TOGETHER:
                    continue
                if relation == _JOINED and _joined(units[place - 1], units[place], left, right, pairs):
                    continue
                # Of the white space before a word, the last character is apart from the others.
                if relation == _BLANKS and (place + 1 == end or kinds[units[place + 1]] >= _SPACE):
                    continue
            if not blank or kinds[units[start]] < _SPACE:
                starts[number], ends[number] = start, place
                number += 1
            start = place
    return starts[:number], ends[:number]


@compiled
def _joined(first: int, second: int, left: Flags, right: Flags, pairs: Flags) -> Any:
    return right[first] or left[second] or pairs[checksum(first, second)]


@compiled
def checksum(first: int, second: int) -> Any:
    """A number below 2^20 for a pair of units."""
    return np.uint32(np.uint32(first << 16 | second) * np.uint32(0x9E3779B1)) >> np.uint32(12)


class Joins:
    """Which neighbouring ideographs have a token of a byte-level BPE that reaches from one into the other.

    No merge crosses the other places, so runs of ideographs may be cut there.
    """

    # A token may begin and end inside an ideograph, which has three bytes.
    SPAN = re.compile(rb"(^[\x80-\xbf]{1,2}|[\xe3-\xe9\xef][\x80-\xbf]{2})(?=([\xe3-\xe9\xef][\x80-\xbf]{0,2}))")

    def __init__(self, tokens: Iterable[bytes]) -> None:
        self.left = np.zeros(NUM_UNITS, np.bool_)  # joined to whatever comes before
        self.right = np.zeros(NUM_UNITS, np.bool_)  # joined to whatever follows
        self.pairs = np.zeros(1 << 20, np.bool_)  # by a checksum; those that share one are all joined
        for first, second in {match.groups() for token in tokens for match in self.SPAN.finditer(token)}:
            least, most = (ord(second.ljust(3, filler).decode()) for filler in (b"\x80", b"\xbf"))
            if len(first) < 3:
                self.left[least : most + 1] = True
            elif len(second) < 3:
                self.right[ord(first.decode())] = True
            else:
                self.pairs[checksum(ord(first.decode()), least)] = True

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> Self | None:
        model = tokenizer.backend.model
        if not isinstance(model, models.BPE) or model.ignore_merges or model.fuse_unk or model.dropout:
            return None
        if model.continuing_subword_prefix or model.end_of_word_suffix:
            return None
        spelling = {ord(letter): byte for byte, letter in enumerate(_BYTE_LETTERS)}
        return cls(token.translate(spelling).encode("latin-1", "replace") for token in tokenizer.backend.get_vocab())


class Index:
    """Gives rows to stretches, from 0 on: to equal ones the same, but to those that are too long always new ones."""

    NUM_ROWS = 1 << 19
    NUM_PROBES = 16  # places in which a stretch may be, so that no choice of stretches makes finding slow

    def __init__(self, least: int = 0) -> None:
        self.num_rows = 0
        self.most = max(self.NUM_ROWS, least)
        self.places = np.full(2 * self.most + self.NUM_PROBES, -1, np.int32)  # the row of a stretch, or none
        self.keys = np.empty((self.most, 4), np.uint64)  # of each row

    def has_room(self, number: int) -> bool:
        """Whether so many stretches may be new."""
        return self.num_rows + number <= self.most

    def find(self, text: Text, starts: Numbers, ends: Numbers) -> tuple[Numbers, Numbers]:
        """The rows of stretches, and which of them are new, whose rows are the next."""
        padded = np.append(text.units, np.zeros(LONGEST + 1, np.uint16))
        fours = np.ndarray(len(padded) - 3, np.uint64, padded, strides=(2,))  # the four units at each place
        rows, fresh = _find(fours, starts, ends, self.places, self.keys, self.num_rows, self.NUM_PROBES)
        self.num_rows += len(fresh)
        return rows, fresh


@compiled
def _find(
    fours: Any, starts: Numbers, ends: Numbers, places: Numbers, keys: Any, num_rows: int, num_probes: int
) -> Any:
    rows, fresh = np.empty(len(starts), np.int32), np.empty(len(starts), np.int32)
    num_fresh = 0
    num_places = np.uint64(len(places) - num_probes)
    for number in range(len(starts)):
        start, length = starts[number], ends[number] - starts[number]
        row = num_rows + num_fresh
        if length <= LONGEST:
            masks = _MASKS[length]
            a, b = fours[start] & masks[0], fours[start + 4] & masks[1]
            c, d = fours[start + 8] & masks[2], fours[start + 12] & masks[3] | np.uint64(length) << _LAST
            mixed = a * _MIXERS[0]
            mixed = ((mixed ^ mixed >> _HALF) + b) * _MIXERS[1]
            mixed = ((mixed ^ mixed >> _HALF) + c) * _MIXERS[2]
            mixed = ((mixed ^ mixed >> _HALF) + d) * _MIXERS[3]
            first = np.int64((mixed >> _HALF) * num_places >> _HALF)
            for place in range(first, first + num_probes):
                other = places[place]
                if other < 0:
                    places[place] = row
                    keys[row, 0], keys[row, 1], keys[row, 2], keys[row, 3] = a, b, c, d
                    break
                key = keys[other]
                if key[0] == a and key[1] == b and key[2] == c and key[3] == d:
                    row = other
                    break
        rows[number] = row
        if row == num_rows + num_fresh:
            fresh[num_fresh] = number
            num_fresh += 1
    return rows, fresh[:num_fresh]


class Table:
    """The tokens of the stretches met so far; it starts afresh when it is full.

    A stretch is found by its units and their number. Those that are too long for that are encoded each time.
    """

    def __init__(self, tokenizer: Tokenizer, cutter: Cutter) -> None:
        self.tokenizer = tokenizer
        self.cutter = cutter
        self.plain = PlainWords(tokenizer.backend)
        self.lock = threading.Lock()
        self.pause = 0
        self._clear()

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> Self | None:
        """A table for a tokenizer, if it is known how to cut for it."""
        cutter = Cutter.of(tokenizer)
        return cls(tokenizer, cutter) if cutter is not None else None

    def _clear(self, least: int = 0) -> None:
        self.index = Index(least)
        self.firsts = np.empty(self.index.most, np.int32)  # of the tokens of a row
        self.counts = np.empty(self.index.most, np.int32)
        self.tokens: Numbers = np.empty(0, np.uint32)

    def encode(self, text: Text) -> tuple[Numbers, Numbers] | None:
        """The tokens of all sentences in a row, and how many each has, unless it is better to ask the library."""
        self.pause = max(0, self.pause - 1)
        if self.pause or not self.cutter.suits(text):
            return None
        starts, ends = self.cutter.cut(text)
        with self.lock:
            if not self.index.has_room(len(starts)):
                self._clear(len(starts))
            rows, fresh = self.index.find(text, starts, ends)
            self._learn(text.pieces(starts[fresh], ends[fresh]), rows[fresh])
            if 2 * (ends[fresh] - starts[fresh]).sum() > (ends - starts).sum():
                self.pause = 20  # stretches hardly repeat; tried again after so many batches
            firsts, counts, known = self.firsts, self.counts, self.tokens
        tokens, lengths = _spread(rows, self.cutter.shares(text, starts), firsts, counts, known)
        return tokens, lengths

    def learn(self, words: list[str]) -> None:
        """Give the first rows to these stretches."""
        self._clear(len(words))
        self._learn(words, np.arange(len(words)))

    def spread(self, rows: Numbers, shares: Numbers) -> tuple[Numbers, Numbers]:
        """The tokens of rows that are known already, and how many each sentence has."""
        tokens, lengths = _spread(rows, shares, self.firsts, self.counts, self.tokens)
        return tokens, lengths

    def _learn(self, words: list[str], rows: Numbers) -> None:
        """Find the tokens of new stretches."""
        plain = np.array([self.plain.takes(word) is not None for word in words], np.bool_)
        order = np.argsort(~plain, kind="stable")
        words = [words[number] for number in order.tolist()]
        num_plain = np.count_nonzero(plain)
        tokens, counts = self.plain.encode(words[:num_plain])
        others = self.tokenizer.encode_spaced(words[num_plain:])
        counts = np.concatenate([counts, np.array([len(other) for other in others], np.int64)])
        rows = rows[order]
        self.counts[rows] = counts
        self.firsts[rows] = len(self.tokens) + np.cumsum(counts) - counts
        self.tokens = np.concatenate([self.tokens, tokens, *others])


@compiled
def _spread(rows: Any, shares: Any, firsts: Any, counts: Any, known: Any) -> Any:
    num_tokens = 0
    for row in rows:
        num_tokens += counts[row]
    tokens, lengths = np.empty(num_tokens, np.uint32), np.zeros(len(shares), np.int64)
    place = number = 0
    for sentence in range(len(shares)):
        start = place
        for row in rows[number : number + shares[sentence]]:
            for token in range(firsts[row], firsts[row] + counts[row]):
                tokens[place] = known[token]
                place += 1
        number += shares[sentence]
        lengths[sentence] = place - start
    return tokens, lengths


class PlainWords:
    """Words that reach the model of a tokenizer whole, given to it alone: twice as fast as by way of all stages.

    A model of whole words is looked up here, which is faster still.
    """

    LINE = 256  # words given to the library together, since a call takes as long for one

    def __init__(self, backend: tokenizers.Tokenizer) -> None:
        self.backend = tokenizers.Tokenizer(backend.model)
        self.backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        if isinstance(backend.pre_tokenizer, pre_tokenizers.ByteLevel):
            words, end = rf" ?(?:[A-Za-z{_OLD_IDEOGRAPHS}]+|[0-9]+)", "Ċ"
            self.spell: Callable[[str], str] = _spell_bytes
        elif splits_words(backend.pre_tokenizer):
            words, end = f"[A-Za-z0-9]+|[{_UNIFIED_IDEOGRAPHS}]", "."
            self.spell = str.lower if backend.normalizer.lowercase else str
        else:
            words, end, self.spell = "(?!)", ".", str
        # Behind each word stands a token that no word can give.
        found = self.backend.encode(end, add_special_tokens=False)
        sure = len(found) == 1 and end in found.tokens[0] and end != getattr(backend.model, "unk_token", None)
        self.end = found.ids[0] if sure else None
        self.behind = f" {end} "
        self.takes = re.compile(words if self.end is not None else "(?!)").fullmatch
        whole = isinstance(backend.model, models.WordLevel)
        self.vocab = self.backend.get_vocab() if whole else {}
        self.unknown = self.vocab.get(backend.model.unk_token) if whole else None

    def encode(self, words: list[str]) -> tuple[Numbers, Numbers]:
        """The tokens of words in a row, and how many each has."""
        if self.unknown is not None and words:
            spelled = self.spell("\n".join(words)).split("\n")
            known = map(self.vocab.get, spelled, repeat(self.unknown))
            return np.fromiter(known, np.uint32, len(words)), np.ones(len(words), np.int64)
        groups = [words[place : place + self.LINE] for place in range(0, len(words), self.LINE)]
        lines = [self.spell("\n".join([*group, ""])).replace("\n", self.behind) for group in groups]
        encodings = guarded(self.backend.encode_batch_fast, lines, add_special_tokens=False)
        tokens = np.array([number for encoding in encodings for number in encoding.ids], np.uint32)
        ends = np.flatnonzero(tokens == self.end)
        return np.delete(tokens, ends), np.diff(ends, prepend=-1) - 1


def _spell_bytes(text: str) -> str:
    if text.isascii():
        return text.replace(" ", "Ġ")
    return text.encode().decode("latin-1").translate(dict(enumerate(_BYTE_LETTERS)) | {ord("\n"): "\n"})
