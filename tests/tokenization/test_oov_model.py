"""The OOV model against hand-computed probabilities, and as a distribution."""

import math
from itertools import product

import pytest

from polyseme.tokenization.config import TokenizerConfig
from polyseme.tokenization.oov_model import OovModel
from polyseme.tokenization.tokenizer import Tokenizer


def test_by_hand():
    # | a b | b |: five symbols, a once, b and the end twice.
    model = OovModel(["ab", "b"])
    unigrams = {"a": 2 / 262, "b": 3 / 262, "|": 3 / 262, "x": 1 / 262}
    # After the edge two symbols of two types; after b the end twice, one type; after x nothing.
    first = (1 + 2 * unigrams["b"]) / 4
    assert model.nll("b") == pytest.approx(-math.log(first * (2 + unigrams["|"]) / 3))
    assert model.nll("bx") == pytest.approx(-math.log(first * unigrams["x"] / 3 * unigrams["|"]))
    assert model.nll("") == 0
    assert model.nll("银") < math.inf and model.nll("\ud800") == model.nll("?")


@pytest.mark.parametrize("words", [[], ["b"], ["ab", "b", "苹果"]])
def test_probabilities_sum_to_one(words):
    model = OovModel(words)
    assert math.e ** -model._nll.min() <= 1
    sums = sum(math.e ** -model._nll[:, symbol] for symbol in range(257))
    assert sums.tolist() == pytest.approx([1] * 257)
    short = [bytes(symbols) for length in (1, 2) for symbols in product(range(128), repeat=length)]
    assert 0 < sum(math.exp(-model.nll(word.decode())) for word in short) < 1


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
