"""Which neighbouring ideographs a byte-level BPE may merge; runs of ideographs can be split everywhere else."""

import re
from collections.abc import Iterable
from typing import Any, Self

import numpy as np
from tokenizers import models

from polyseme.arrays import Flags
from polyseme.corpora.utf16_text import NUM_CODE_UNITS
from polyseme.system.jit import jit
from polyseme.tokenization.tokenizer import Tokenizer
from polyseme.tokenization.training import byte_alphabet

# Two ideographs, of three bytes each, the first or second of which a token may contain in part.
_PAIR = re.compile(rb"(^[\x80-\xbf]{1,2}|[\xe3-\xe9\xef][\x80-\xbf]{2})(?=([\xe3-\xe9\xef][\x80-\xbf]{0,2}))")


class MergeBoundaries:
    """Pairs of ideographs in one token of a vocabulary; no merge crosses the boundary of any other pair."""

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
                self.pairs[hash_pair(ord(first.decode()), lowest)] = True

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


@jit
def may_merge(first: int, second: int, left: Flags, right: Flags, pairs: Flags) -> Any:
    """Whether a token may contain parts of two neighbouring ideographs."""
    return right[first] or left[second] or pairs[hash_pair(first, second)]


@jit
def hash_pair(first: int, second: int) -> Any:
    """A 20-bit hash of two code units."""
    return np.uint32(np.uint32(first << 16 | second) * np.uint32(0x9E3779B1)) >> np.uint32(12)
