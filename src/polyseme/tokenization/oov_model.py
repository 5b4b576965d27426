"""Byte-bigram model of out-of-vocabulary (OOV) words.

A word-level model gives every OOV word the probability of one token. To be comparable with models that read every
character, it also has to predict which word it was, as in Brown et al. (1992): byte after byte and then the end, each
given the byte before. Bigrams are counted in the words of the vocabulary only, and interpolated with unigrams by
Witten and Bell (1991, method C), so that no word has probability zero. In-vocabulary words keep some probability as
well, so the negative log-likelihood of a text is too high rather than too low.
"""

from collections.abc import Iterable

import numpy as np

_EDGE = 256  # before the first byte and after the last
_NUM_SYMBOLS = 257


class OovModel:
    """A model of the spelling of words."""

    def __init__(self, words: Iterable[str]) -> None:
        encoded = [word.encode(errors="replace") for word in words]
        ends = np.cumsum([0, *map(len, encoded)])
        symbols = np.insert(np.frombuffer(b"".join(encoded), np.uint8).astype(np.int64), ends, _EDGE)
        bigrams = np.zeros((_NUM_SYMBOLS, _NUM_SYMBOLS))  # the symbol before, and a symbol
        np.add.at(bigrams, (symbols[:-1], symbols[1:]), 1)
        unigrams = (bigrams.sum(0) + 1) / (bigrams.sum() + _NUM_SYMBOLS)
        num_types = (bigrams > 0).sum(1, keepdims=True)
        num_types[num_types == 0] = 1  # after an unseen symbol, unigrams alone
        probabilities = (bigrams + num_types * unigrams) / (bigrams.sum(1, keepdims=True) + num_types)
        self._nll = -np.log(probabilities)

    def nll(self, word: str) -> float:
        """The negative log-likelihood of a word and its end, in nats; 0 for an empty word."""
        symbols = np.array([_EDGE, *word.encode(errors="replace"), _EDGE])
        return float(self._nll[symbols[:-1], symbols[1:]].sum()) if word else 0.0
