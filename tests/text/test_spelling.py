"""The letters of unknown words: by hand, and as a distribution."""

import math
from itertools import product

import pytest

from polyseme.text.spelling import Spelling
from polyseme.text.tokenizer import Tokenizer
from polyseme.text.vocabulary import TokenizerConfig


def test_by_hand():
    # | a b | b |: five letters and ends in all, a once, b and the end twice.
    spelling = Spelling(["ab", "b"])
    single = {"a": 2 / 262, "b": 3 / 262, "|": 3 / 262, "x": 1 / 262}
    # After the edge two letters of two kinds; after b twice the end, one kind; after x nothing was ever met.
    first = (1 + 2 * single["b"]) / 4
    assert spelling.nats("b") == pytest.approx(-math.log(first * (2 + single["|"]) / 3))
    assert spelling.nats("bx") == pytest.approx(-math.log(first * single["x"] / 3 * single["|"]))
    assert spelling.nats("") == 0
    assert spelling.nats("银") < math.inf and spelling.nats("\ud800") == spelling.nats("?")


@pytest.mark.parametrize("words", [[], ["b"], ["ab", "b", "苹果"]])
def test_all_words_together_are_certain(words):
    """After each letter, all letters and the end; so words up to two letters and whatever goes on behind add up."""
    spelling = Spelling(words)
    assert math.e ** -spelling._nats.min() <= 1
    sums = sum(math.e ** -spelling._nats[:, letter] for letter in range(257))
    assert sums.tolist() == pytest.approx([1] * 257)
    short = [bytes(letters) for number in (1, 2) for letters in product(range(128), repeat=number)]
    assert 0 < sum(math.exp(-spelling.nats(word.decode())) for word in short) < 1


def test_words_of_the_vocabulary_are_cheaper():
    documents = ["the bank by the river lends money to the farmer"] * 3
    words = TokenizerConfig(kind="word", specials="plain")
    spelling = Tokenizer.train(words, documents, vocab_size=50).spelling
    assert spelling.nats("banker") < spelling.nats("bkenar") < spelling.nats("银行银行")


@pytest.mark.parametrize(("kind", "specials"), [("wordpiece", "bert"), ("bpe", "gpt"), ("unigram", "plain")])
def test_marks_of_pieces_are_no_letters(kind, specials):
    documents = ["the bank by the river lends money to the farmer"] * 3
    tokenizer = Tokenizer.train(TokenizerConfig(kind=kind, specials=specials), documents, vocab_size=80)
    marked = {"wordpiece": "##", "bpe": "</w>", "unigram": "▁"}[kind]
    assert any(marked in token for token in tokenizer.backend.get_vocab())
    assert tokenizer.spelling.nats(marked) > tokenizer.spelling.nats("bank"[: len(marked.encode())])
