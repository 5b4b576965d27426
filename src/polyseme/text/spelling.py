"""What the letters of a word cost that a vocabulary lacks, by a small model of the words that it has.

A model of words gives everything that it does not know the chance of one token. To stand on one scale with models that
read every letter it has to say which word it was, as in Brown et al. (1992): byte after byte and then the end, each
given the one before. Pairs of bytes are counted in the words of the vocabulary and in nothing else, and what was never
met borrows from single bytes (Witten and Bell, 1991, method C), none of which is impossible. Known words could be spelt
as well, so that a text costs rather too much than too little.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

_EDGE = 256  # before the first byte and behind the last
_NUM_LETTERS = 257


class Spelling:
    """A model of letters."""

    def __init__(self, words: Iterable[str]) -> None:
        spelt = [word.encode(errors="replace") for word in words]
        ends = np.cumsum([0, *map(len, spelt)])
        letters = np.insert(np.frombuffer(b"".join(spelt), np.uint8).astype(np.int64), ends, _EDGE)
        pairs = np.zeros((_NUM_LETTERS, _NUM_LETTERS))  # the letter before, and a letter
        np.add.at(pairs, (letters[:-1], letters[1:]), 1)
        single = (pairs.sum(0) + 1) / (pairs.sum() + _NUM_LETTERS)
        num_kinds = (pairs > 0).sum(1, keepdims=True)
        num_kinds[num_kinds == 0] = 1  # after a letter that was never met, single ones are all there is
        chances = (pairs + num_kinds * single) / (pairs.sum(1, keepdims=True) + num_kinds)
        self._nats = -np.log(chances)

    def nats(self, word: str) -> float:
        """What a word costs, its end included; nothing costs nothing."""
        letters = np.array([_EDGE, *word.encode(errors="replace"), _EDGE])
        return float(self._nats[letters[:-1], letters[1:]].sum()) if word else 0.0
