"""Pre-token boundaries: offsets at which a text can be split without changing its tokens.

One table has the kind of every code unit, another whether to split between two kinds. Splitting is a compiled loop,
which releases the interpreter lock.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from tokenizers import models, normalizers, pre_tokenizers

from polyseme.arrays import Bytes, CodeUnits, Flags, Integers
from polyseme.corpora.scripts import IDEOGRAPHS, STABLE_IDEOGRAPHS
from polyseme.corpora.utf16_text import NUM_CODE_UNITS, Utf16Text, character_class
from polyseme.system.jit import jit
from polyseme.tokenization.tokenizer import Tokenizer
from polyseme.tokenization.training import byte_alphabet, is_word_splitter

# Kinds of code units. Only characters with the same properties in every version of Unicode have one; all others are
# never split from their neighbours.
_OTHER, _ALPHABETIC, _IDEOGRAPH, _DIGIT, _PUNCTUATION, _APOSTROPHE, _SPACE, _WHITE_SPACE = range(8)
ALPHABETIC = "A-Za-zÀ-ÖØ-öø-ɏΑ-ΡΣ-Ωα-ωЀ-ҁぁ-ゖァ-ヺ가-힣"
PUNCTUATION = r"!-/:-@\[-`{-~，。、；：？！“”‘’（）《》「」『』【】—–…·"
WHITE_SPACE = r"\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"  # as in the tokenizers library
# Between two kinds: never split, always split, ask MergeBoundaries, or split before the last character of white space.
_JOIN, _SPLIT, _MERGE, _LAST_SPACE = range(4)
# Two ideographs, of three bytes each, the first or second of which a token may contain in part.
_PAIR = re.compile(rb"(^[\x80-\xbf]{1,2}|[\xe3-\xe9\xef][\x80-\xbf]{2})(?=([\xe3-\xe9\xef][\x80-\xbf]{0,2}))")


class MergeBoundaries:
    """Which neighbouring ideographs a byte-level BPE may merge: those in one token of its vocabulary.

    Runs of ideographs can be split everywhere else.
    """

    def __init__(self, tokens: Iterable[bytes]) -> None:
        self.left = np.zeros(NUM_CODE_UNITS, np.bool_)  # may merge with anything before
        self.right = np.zeros(NUM_CODE_UNITS, np.bool_)  # may merge with anything after
        self.pairs = np.zeros(1 << 20, np.bool_)  # by hash; colliding pairs count as mergeable
        for first, second in {match.groups() for token in tokens for match in _PAIR.finditer(token)}:
            lowest, highest = (ord(second.ljust(3, filler).decode()) for filler in (b"\x80", b"\xbf"))
            if len(first) < 3:
                self.left[lowest : highest + 1] = True
            elif len(second) < 3:
                self.right[ord(first.decode())] = True
            else:
                self.pairs[_hash_pair(ord(first.decode()), lowest)] = True

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> Self | None:
        """The boundaries of a byte-level BPE, or None if its merges are not plain."""
        model = tokenizer.backend.model
        if not isinstance(model, models.BPE) or model.ignore_merges or model.fuse_unk or model.dropout:
            return None
        if model.continuing_subword_prefix or model.end_of_word_suffix:
            return None
        to_byte = {ord(character): byte for byte, character in enumerate(byte_alphabet())}
        return cls(token.translate(to_byte).encode("latin-1", "replace") for token in tokenizer.backend.get_vocab())


@dataclass(frozen=True, kw_only=True)
class PretokenBoundaries:
    """Where a tokenizer's texts can be split."""

    kinds: Bytes  # of each code unit
    relations: Bytes  # at 8 × the kind before + the kind after
    drops_white_space: bool  # white space gives no tokens
    added: list[str]  # tokens that the library searches for first; a text that contains one is not split
    merges: MergeBoundaries = field(default_factory=lambda: MergeBoundaries([]))

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> Self | None:
        """The boundaries of a tokenizer, or None if its pipeline is not supported."""
        normalizer, pre_tokenizer = tokenizer.backend.normalizer, tokenizer.backend.pre_tokenizer
        tokens = tokenizer.backend.get_added_tokens_decoder().values()
        added = [token.content for token in tokens]
        if isinstance(normalizer, normalizers.BertNormalizer):
            supported = is_word_splitter(pre_tokenizer) or tokenizer.config.kind == "char"
            if not supported or any(token.normalized for token in tokens):  # these match in other spellings, too
                return None
            return cls.of_words(added, IDEOGRAPHS if normalizer.handle_chinese_chars else "")
        if normalizer is not None or not isinstance(pre_tokenizer, pre_tokenizers.ByteLevel):
            return None
        if pre_tokenizer.add_prefix_space or not pre_tokenizer.use_regex:
            return None
        return cls.of_bytes(added, MergeBoundaries.of(tokenizer))

    @classmethod
    def of_words(cls, added: list[str], ideographs: str) -> Self:
        """BERT: white space gives no tokens, punctuation marks and ideographs are tokens of their own."""
        # A word tokenizer does not split new_york.
        kinds = _code_unit_kinds({PUNCTUATION + ideographs: _PUNCTUATION, "_": _OTHER, r" \n": _WHITE_SPACE})
        relations = np.full((8, 8), _SPLIT, np.uint8)
        relations[_OTHER, _OTHER] = relations[_WHITE_SPACE, _WHITE_SPACE] = _JOIN
        return cls(kinds=kinds, relations=relations.ravel(), drops_white_space=True, added=added)

    @classmethod
    def of_bytes(cls, added: list[str], merges: MergeBoundaries | None) -> Self:
        """GPT-2: runs of alphabetic characters, digits or punctuation, each with the space before it."""
        classes = {ALPHABETIC: _ALPHABETIC, STABLE_IDEOGRAPHS: _IDEOGRAPH, "0-9": _DIGIT}
        classes |= {PUNCTUATION: _PUNCTUATION, "'": _APOSTROPHE, WHITE_SPACE: _WHITE_SPACE, " ": _SPACE}
        kinds = _code_unit_kinds(classes)
        relations = np.full((8, 8), _SPLIT, np.uint8)
        words = [_ALPHABETIC, _IDEOGRAPH]
        for group in (words, [_DIGIT], [_PUNCTUATION, _APOSTROPHE]):
            relations[np.ix_(group, group)] = _JOIN
        relations[_APOSTROPHE, words] = _JOIN  # 've
        relations[:_SPACE, _OTHER] = relations[_OTHER, :_SPACE] = relations[_SPACE, :_SPACE] = _JOIN
        relations[_SPACE:, _SPACE:] = _LAST_SPACE
        if merges is not None:
            relations[_IDEOGRAPH, _IDEOGRAPH] = _MERGE
        merges = merges or MergeBoundaries([])
        return cls(kinds=kinds, relations=relations.ravel(), drops_white_space=False, added=added, merges=merges)

    def applies_to(self, text: Utf16Text) -> bool:
        """Whether a text contains no added token."""
        return not any(token in text.characters for token in self.added)

    def same_as(self, other: Self | None) -> bool:
        """Whether other boundaries split every text alike."""
        return other is not None and set(self.added) == set(other.added) and np.array_equal(self.kinds, other.kinds)

    def find(self, text: Utf16Text) -> tuple[Integers, Integers]:
        """The starts and ends of the pre-tokens of a text."""
        merges = (self.merges.left, self.merges.right, self.merges.pairs)
        return _find(text.units, text.bounds, self.kinds, self.relations, self.drops_white_space, *merges)

    @staticmethod
    def per_sentence(text: Utf16Text, starts: Integers) -> Integers:
        """The number of pre-tokens of each sentence."""
        return np.diff(np.searchsorted(starts, text.bounds))


def _code_unit_kinds(classes: Mapping[str, int]) -> Bytes:
    """The kind of every code unit: of the last character class that contains it, if any."""
    kinds = np.full(NUM_CODE_UNITS, _OTHER, np.uint8)
    for characters, kind in classes.items():
        kinds[character_class(characters)] = kind
    return kinds


@jit
def _find(
    units: CodeUnits,
    bounds: Integers,
    kinds: Bytes,
    relations: Bytes,
    drops_white_space: bool,
    left: Flags,
    right: Flags,
    pairs: Flags,
) -> tuple[Integers, Integers]:
    starts, ends = np.empty(len(units), np.int32), np.empty(len(units), np.int32)
    number = 0
    for sentence in range(len(bounds) - 1):
        start, end = bounds[sentence], bounds[sentence + 1]
        kind = kinds[units[start]] if start < end else 0
        for place in range(start + 1, end + 1):
            if place < end:
                before, kind = kind, kinds[units[place]]
                relation = relations[before << 3 | kind]
                if relation == _JOIN:
                    continue
                if relation == _MERGE and _may_merge(units[place - 1], units[place], left, right, pairs):
                    continue
                # The last white space before a word is a pre-token with it, or of its own.
                if relation == _LAST_SPACE and (place + 1 == end or kinds[units[place + 1]] >= _SPACE):
                    continue
            if not drops_white_space or kinds[units[start]] < _SPACE:
                starts[number], ends[number] = start, place
                number += 1
            start = place
    return starts[:number], ends[:number]


@jit
def _may_merge(first: int, second: int, left: Flags, right: Flags, pairs: Flags) -> Any:
    """Whether a token may contain parts of two neighbouring ideographs."""
    return right[first] or left[second] or pairs[_hash_pair(first, second)]


@jit
def _hash_pair(first: int, second: int) -> Any:
    """A 20-bit hash of two code units."""
    return np.uint32(np.uint32(first << 16 | second) * np.uint32(0x9E3779B1)) >> np.uint32(12)
