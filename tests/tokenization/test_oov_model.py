"""The OOV model against hand-computed and plainly counted probabilities, and as a distribution."""

import math
from collections import Counter
from fractions import Fraction
from itertools import product

import pytest

from polyseme.tokenization.config import TokenizerConfig
from polyseme.tokenization.oov_model import OovModel
from polyseme.tokenization.tokenizer import Tokenizer

EDGE = 256


def reference(words, word, order=6):
    """The probability of a word, as the definition has it, in fractions."""
    occurrences = Counter()
    for symbols in ([EDGE, *other.encode(), EDGE] for other in words):
        for end in range(2, len(symbols) + 1):
            occurrences.update(tuple(symbols[begin:end]) for begin in range(max(0, end - order), end))
    before = Counter(ngram[1:] for ngram in occurrences)
    counts = {
        ngram: count if len(ngram) == order or (len(ngram) > 1 and ngram[0] == EDGE) else before[ngram]
        for ngram, count in occurrences.items()
    }

    def probability(symbol, context):
        lower = probability(symbol, context[1:]) if context else Fraction(1, 257)
        after = [count for ngram, count in counts.items() if ngram[:-1] == context]
        if not after:
            return lower
        return (counts.get((*context, symbol), 0) + len(after) * lower) / (sum(after) + len(after))

    symbols = [EDGE, *word.encode(), EDGE]
    ends = range(1, len(symbols))
    return math.prod(probability(symbols[end], tuple(symbols[max(0, end - order + 1) : end])) for end in ends)


def test_by_hand():
    # | a b | b |: before a one symbol, before b two, before the end one; four in all, of three types.
    model = OovModel(["ab", "b"])
    a, b, end, x = (1 + 3 / 257) / 7, (2 + 3 / 257) / 7, (1 + 3 / 257) / 7, 3 / 257 / 7
    # The edge begins two words, with two types; b is followed by the end, after the edge and after a; x by nothing.
    first, end_of_b = (1 + 2 * b) / 4, (2 + end) / 3
    assert model.nll("b") == pytest.approx(-math.log(first * (1 + end_of_b) / 2))
    assert model.nll("bx") == pytest.approx(-math.log(first * x / 3 / 2 * end))
    assert model.nll("a") == pytest.approx(-math.log((1 + 2 * a) / 4 * end / 2 / 2))
    assert model.nll("") == 0
    assert model.nll("银") < math.inf and model.nll("\ud800") == model.nll("?")
    assert model.nll("b", "", "bx") == pytest.approx(model.nll("b") + model.nll("bx"))


def test_words_longer_than_the_order():
    words = ["bank", "banker", "bankers", "banana", "abandon", "bankrupt", "苹果"]
    model = OovModel(reversed(words))
    for word in ["bank", "bankruptcy", "bandana", "xbankers", "苹", "n"]:
        assert model.nll(word) == pytest.approx(-math.log(reference(words, word)), rel=1e-12)


@pytest.mark.parametrize("words", [[], ["b"], ["ab", "b", "苹果"], ["aaaaaaaaa", "abababa", "\0", "\x7f"]])
def test_probabilities_sum_to_one(words):
    """Those of all bytes and the end, after beginnings of words, seen and unseen."""
    model = OovModel(words)
    for context in (bytes(context) for length in range(8) for context in product(b"ab", repeat=length)):
        continued = model.probabilities([context + bytes([byte]) for byte in range(256)]).reshape(256, -1)[:, -2]
        end = model.probabilities([context])[-1]
        assert min(*continued, end) > 0 and continued.sum() + end == pytest.approx(1, rel=1e-12)


def test_words_like_those_of_the_vocabulary_are_likelier():
    documents = ["the bank by the river lends money to the farmer"] * 3
    words = TokenizerConfig(kind="word", specials="plain")
    model = Tokenizer.train(words, documents, vocab_size=50).oov_model
    assert model.nll("banker") < model.nll("bkenar") < model.nll("银行银行")


@pytest.mark.parametrize(("kind", "specials"), [("wordpiece", "bert"), ("bpe", "gpt"), ("unigram", "plain")])
def test_subword_markers_are_not_part_of_words(kind, specials):
    documents = ["the bank by the river lends money to the farmer"] * 3
    tokenizer = Tokenizer.train(TokenizerConfig(kind=kind, specials=specials), documents, vocab_size=80)
    marker = {"wordpiece": "##", "bpe": "</w>", "unigram": "▁"}[kind]
    assert any(marker in token for token in tokenizer.backend.get_vocab())
    assert tokenizer.oov_model.nll(marker) > tokenizer.oov_model.nll("bank"[: len(marker.encode())])
