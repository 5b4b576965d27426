"""Stretches of a text that give the same tokens alone as in their place: words, mostly, which come again and again.

One table says of what kind each unit of a text is, another between which kinds to cut. What lies between two cuts is
looked up among those met before, and only new ones go to the tokenizers library. This is all work on arrays, which
leaves other threads free.
"""

import re
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Self

import numpy as np
import tokenizers
from numpy.typing import NDArray
from tokenizers import models, normalizers, pre_tokenizers

from polyseme.text.tokenizer import Tokenizer
from polyseme.text.utf16 import NUM_UNITS, Flags, Numbers, Text, units_of
from polyseme.text.vocabulary import IDEOGRAPHS, guarded

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

Keys = NDArray[np.uint64]  # (N, 4): the units of a stretch and, in the last, their number
LONGEST = 15  # units of a stretch that has a key
_MASKS = np.tri(LONGEST + 2, LONGEST + 1, -1, "<u2") * np.uint16(0xFFFF)
_MASKS[:, LONGEST] = 0
_LENGTHS = np.zeros_like(_MASKS)
_LENGTHS[:, LONGEST] = range(LONGEST + 2)
_MASKS, _LENGTHS = _MASKS.view("<u8"), _LENGTHS.view("<u8")
_MIXERS = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93], np.uint64)


@dataclass(frozen=True, kw_only=True)
class Cutter:
    """Where texts may be cut without changing their tokens."""

    kinds: NDArray[np.uint8]  # of each unit
    relations: NDArray[np.uint8]  # by eight times the kind before, and the kind behind
    blank: bool  # whether white space gives no tokens
    added: list[str]  # tokens that the library looks for before all else; a text with one is not cut
    joins: "Joins | None" = None

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> Self | None:
        """How to cut for a tokenizer, if that is known."""
        normalizer, splitter = tokenizer.backend.normalizer, tokenizer.backend.pre_tokenizer
        tokens = tokenizer.backend.get_added_tokens_decoder().values()
        added = [token.content for token in tokens]
        if isinstance(normalizer, normalizers.BertNormalizer):
            usual = isinstance(splitter, pre_tokenizers.BertPreTokenizer) or tokenizer.config.kind == "char"
            if not usual or any(token.normalized for token in tokens):  # these are found in other guises too
                return None
            return cls.of_words(added, IDEOGRAPHS if normalizer.handle_chinese_chars else "")
        if normalizer is not None or not isinstance(splitter, pre_tokenizers.ByteLevel):
            return None
        if splitter.add_prefix_space or not splitter.use_regex:
            return None
        return cls._of_bytes(added, Joins.of(tokenizer))

    @classmethod
    def of_words(cls, added: list[str], ideographs: str) -> Self:
        """BERT: white space gives nothing, marks and ideographs stand alone."""
        kinds = np.full(NUM_UNITS, _OTHER, np.uint8)
        kinds[units_of(_MARKS + ideographs)] = _MARK
        kinds[units_of(r" \n")] = _WHITE
        relations = np.full((8, 8), _APART, np.uint8)
        relations[_OTHER, _OTHER] = relations[_WHITE, _WHITE] = _TOGETHER
        return cls(kinds=kinds, relations=relations.ravel(), blank=True, added=added)

    @classmethod
    def _of_bytes(cls, added: list[str], joins: "Joins | None") -> Self:
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
        return cls(kinds=kinds, relations=relations.ravel(), blank=False, added=added, joins=joins)

    def suits(self, text: Text) -> bool:
        """Whether a text has none of the tokens that are looked for before all else."""
        return not any(token in text.characters for token in self.added)

    def cut(self, text: Text) -> tuple[Numbers, Numbers]:
        """Where stretches begin and end."""
        kinds = self.kinds.take(text.units)
        cuts = np.empty(len(kinds) + 1, np.uint8)
        np.take(self.relations, kinds[:-1] << 3 | kinds[1:], out=cuts[1:-1], mode="clip")
        cuts[text.bounds] = _APART
        if self.joins is not None:
            places = np.flatnonzero(cuts == _JOINED)
            cuts[places] = self.joins.apart(text.units[places - 1], text.units[places])
        # Of the white space before a word, the last character is apart from the others.
        places = np.flatnonzero(cuts == _BLANKS)
        inside = np.isin(places + 1, text.bounds, invert=True)
        cuts[places] = inside & (kinds.take(places + 1, mode="clip") < _SPACE)
        places = np.flatnonzero(cuts.view(np.bool_))
        starts, ends = places[:-1], places[1:]
        if self.blank:
            kept = np.flatnonzero(kinds.take(starts) < _SPACE)
            starts, ends = starts.take(kept), ends.take(kept)
        return starts, ends


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
        whole: list[tuple[int, int]] = []
        for first, second in {match.groups() for token in tokens for match in self.SPAN.finditer(token)}:
            least, most = (ord(second.ljust(3, filler).decode()) for filler in (b"\x80", b"\xbf"))
            if len(first) < 3:
                self.left[least : most + 1] = True
            elif len(second) < 3:
                self.right[ord(first.decode())] = True
            else:
                whole.append((ord(first.decode()), least))
        self.pairs[_checksums(*np.array(whole, np.uint16).reshape(-1, 2).T)] = True

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> Self | None:
        model = tokenizer.backend.model
        if not isinstance(model, models.BPE) or model.ignore_merges or model.fuse_unk or model.dropout:
            return None
        if model.continuing_subword_prefix or model.end_of_word_suffix:
            return None
        spelling = {ord(letter): byte for byte, letter in enumerate(_BYTE_LETTERS)}
        return cls(token.translate(spelling).encode("latin-1", "replace") for token in tokenizer.backend.get_vocab())

    def apart(self, firsts: Numbers, seconds: Numbers) -> Flags:
        """Whether ideographs and those behind them may be cut from each other."""
        return ~(self.pairs[_checksums(firsts, seconds)] | self.right[firsts] | self.left[seconds])


class Table:
    """The tokens of the stretches met so far; it starts afresh when it is full.

    A stretch is found by its units and their number. Those that are too long for that are encoded each time.
    """

    NUM_ROWS = 1 << 19  # no batch has more stretches
    NUM_PROBES = 16  # places in which a stretch may be, so that no choice of stretches makes finding slow

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

    def _clear(self) -> None:
        self.num_rows = 0
        self.places = np.full(2 * self.NUM_ROWS + self.NUM_PROBES, -1, np.int32)  # the row of a stretch, or none
        self.keys = np.empty((self.NUM_ROWS, 4), np.uint64)
        self.firsts = np.empty(self.NUM_ROWS, np.int32)  # of its tokens
        self.counts = np.empty(self.NUM_ROWS, np.int32)
        self.tokens: Numbers = np.empty(0, np.uint32)

    def encode(self, text: Text) -> tuple[Numbers, Numbers] | None:
        """The tokens of all sentences in a row, and how many each has, unless it is better to ask the library."""
        self.pause = max(0, self.pause - 1)
        if self.pause or not self.cutter.suits(text):
            return None
        starts, ends = self.cutter.cut(text)
        lengths = ends - starts
        keys = keys_of(text, starts, lengths)
        places = self._places(keys)
        with self.lock:
            if self.num_rows + len(starts) > self.NUM_ROWS:
                self._clear()
            rows = self._find(keys, places)
            unseen = np.flatnonzero(rows < 0)
            if len(unseen):
                fresh, rows[unseen] = self._enter(keys[unseen], places[unseen], lengths[unseen])
                fresh = unseen[fresh]
                self._learn(text.pieces(starts[fresh], ends[fresh]))
                if lengths[fresh].sum() > lengths.sum() / 2:
                    self.pause = 20  # stretches hardly repeat; tried again after so many batches
            firsts, counts, tokens = self.firsts.take(rows), self.counts.take(rows), self.tokens
        totals = np.cumsum(counts, dtype=np.int32)
        # Position j of the result lies as far behind its stretch's first token here as there.
        sources = np.repeat(firsts + counts - totals, counts)
        sources += np.arange(len(sources), dtype=np.int32)
        return tokens.take(sources), np.diff(np.append(0, totals)[np.searchsorted(starts, text.bounds)])

    def _places(self, keys: Keys) -> Numbers:
        """Where each stretch is looked for first."""
        return (mix(keys) >> np.uint64(32) & np.uint64(2 * self.NUM_ROWS - 1)).astype(np.int64)

    def _find(self, keys: Keys, places: Numbers) -> Numbers:
        """The rows of stretches, -1 for those that have none."""
        rows = self.places.take(places)
        left = np.flatnonzero(_differ(self.keys.take(rows, axis=0, mode="wrap"), keys))
        for probe in range(1, self.NUM_PROBES):
            left = left[rows[left] >= 0]
            if not len(left):
                break
            rows[left] = self.places[places[left] + probe]
            left = left[_differ(self.keys[rows[left]], keys[left])]
        rows[left] = -1
        return rows

    def _enter(self, keys: Keys, places: Numbers, lengths: Numbers) -> tuple[Numbers, Numbers]:
        """Give rows to stretches that have none; which of them are the first of their kind, and the rows of all."""
        holders = np.arange(len(keys))  # for each, one that is equal to it
        spots = np.full(len(keys), -1)
        left = np.flatnonzero(lengths <= LONGEST)
        for probe in range(self.NUM_PROBES):
            # All write their number where nobody is, and the last to do so stays, for itself and its equals.
            tried = places[left] + probe
            free = self.places[tried] < 0
            self.places[tried[free]] = self.num_rows + left[free]
            winners = self.places[tried] - self.num_rows
            lost = (winners < 0) | _differ(keys[np.maximum(winners, 0)], keys[left])
            holders[left[~lost]] = winners[~lost]
            spots[winners[~lost]] = tried[~lost]
            left = left[lost]
            if not len(left):
                break
        fresh = np.flatnonzero(holders == np.arange(len(keys)))
        rows = self.num_rows + np.searchsorted(fresh, holders)
        placed = fresh[spots[fresh] >= 0]
        self.places[spots[placed]] = rows[placed]
        self.keys[rows[fresh]] = keys[fresh]
        return fresh, rows

    def _learn(self, words: list[str]) -> None:
        """Find the tokens of new stretches, whose rows are the next."""
        plain = np.array([self.plain.takes(word) is not None for word in words])
        order = np.argsort(~plain, kind="stable")
        words = [words[number] for number in order.tolist()]
        num_plain = np.count_nonzero(plain)
        tokens, counts = self.plain.encode(words[:num_plain])
        others = self.tokenizer.encode_ids(words[num_plain:])
        counts = np.concatenate([counts, np.array([len(other) for other in others], np.int64)])
        rows = self.num_rows + order
        self.counts[rows] = counts
        self.firsts[rows] = len(self.tokens) + np.cumsum(counts) - counts
        self.tokens = np.concatenate([self.tokens, tokens, *others])
        self.num_rows += len(words)


class PlainWords:
    """Words that reach the model of a tokenizer whole, given to it alone: twice as fast as by way of all stages."""

    LINE = 256  # words given to the library together, since a call takes as long for one

    def __init__(self, backend: tokenizers.Tokenizer) -> None:
        self.backend = tokenizers.Tokenizer(backend.model)
        self.backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        if isinstance(backend.pre_tokenizer, pre_tokenizers.ByteLevel):
            words, end = rf" ?(?:[A-Za-z{_OLD_IDEOGRAPHS}]+|[0-9]+)", "Ċ"
            self.spell: Callable[[str], str] = _spell_bytes
        elif isinstance(backend.pre_tokenizer, pre_tokenizers.BertPreTokenizer):
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

    def encode(self, words: list[str]) -> tuple[Numbers, Numbers]:
        """The tokens of words in a row, and how many each has."""
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


def keys_of(text: Text, starts: Numbers, lengths: Numbers) -> Keys:
    """The keys of stretches; those of stretches that are too long tell nothing."""
    padded = np.append(text.units, np.zeros(LONGEST + 1, "<u2"))
    windows = np.ndarray(len(text.units), f"V{2 * LONGEST + 2}", padded, strides=(2,))
    sizes = np.minimum(lengths, LONGEST + 1)
    keys: Keys = windows[starts].view("<u8").reshape(-1, 4)
    keys &= _MASKS.take(sizes, axis=0)
    keys |= _LENGTHS.take(sizes, axis=0)
    return keys


def mix(keys: Keys) -> NDArray[np.uint64]:
    """A number for each key; two keys hardly ever have the same."""
    mixed = np.zeros(len(keys), np.uint64)
    for column, mixer in zip(keys.T, _MIXERS, strict=True):
        mixed ^= mixed >> np.uint64(32)
        mixed += column
        mixed *= mixer
    return mixed


def _differ(some: Keys, others: Keys) -> Flags:
    different: Flags = some[:, 0] != others[:, 0]
    for column in (1, 2, 3):
        different |= some[:, column] != others[:, column]
    return different


def _checksums(firsts: Numbers, seconds: Numbers) -> Numbers:
    """Numbers below 2^20 for pairs of units."""
    both = firsts.astype(np.uint32) << np.uint32(16) | seconds.astype(np.uint32)
    return both * np.uint32(0x9E3779B1) >> np.uint32(12)
