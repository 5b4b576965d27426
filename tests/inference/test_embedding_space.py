"""Neighbours and analogies in tables small enough to compute by hand, with every kind of tokenizer."""

import math

import numpy as np
import pytest
import torch

import polyseme as ps
from polyseme.errors import ConfigError, DataError
from polyseme.inference.embedding_space import EmbeddingSpace, similar_spellings
from polyseme.static_embeddings.onehot import OneHot, OneHotConfig
from polyseme.tokenization.config import TokenizerConfig
from polyseme.tokenization.tokenizer import Tokenizer

# Two axes, of rank and of sex, and a word that is like none.
PEOPLE = {"man": (1, 1), "woman": (1, -1), "king": (3, 1), "queen": (3, -1), "prince": (3, 1.5), "nothing": (0, 0)}


@pytest.fixture
def people(tmp_path):
    path = tmp_path / "people.txt"
    path.write_text("".join(f"{word} {x} {y}\n" for word, (x, y) in PEOPLE.items()))
    return ps.load(path)


def cosine(first, second):
    (a, b), (c, d) = PEOPLE[first], PEOPLE[second]
    return (a * c + b * d) / math.hypot(a, b) / math.hypot(c, d)


def test_neighbours(people):
    found = people.neighbours("king")
    assert [neighbour.word for neighbour in found] == ["prince", "man", "queen", "woman", "nothing"]
    expected = [*(cosine("king", neighbour.word) for neighbour in found[:-1]), 0]
    np.testing.assert_allclose([neighbour.score for neighbour in found], expected, rtol=1e-6)
    assert people.neighbours("king", top=2) == found[:2]
    assert people.neighbours("King") == found
    assert all(neighbour.score == 0 for neighbour in people.neighbours("nothing"))


def test_analogies(people):
    assert people.analogy("man", "king", "woman", top=1)[0].word == "queen"
    first, second, third = (np.array(PEOPLE[word]) / math.hypot(*PEOPLE[word]) for word in ("man", "king", "woman"))
    sought, queen = second - first + third, np.array(PEOPLE["queen"])
    by_sum = sought @ queen / math.hypot(*sought) / math.hypot(*queen)
    assert people.analogy("man", "king", "woman")[0].score == pytest.approx(by_sum, rel=1e-6)
    near = {word: (cosine(word, "queen") + 1) / 2 for word in ("man", "king", "woman")}
    best = people.analogy("man", "king", "woman", method="3cosmul")[0]
    assert best.word == "queen" and best.score == pytest.approx(
        near["king"] * near["woman"] / (near["man"] + 0.001), rel=1e-6
    )
    assert {"man", "king", "woman"}.isdisjoint(answer.word for answer in people.analogy("man", "king", "woman"))
    with pytest.raises(ConfigError, match="did you mean 3cosadd"):
        people.analogy("man", "king", "woman", method="3cosad")


def test_oov_words_get_suggestions(people):
    with pytest.raises(DataError, match="did you mean queen"):
        people.neighbours("quene")
    with pytest.raises(DataError, match="'xyz' is not in the vocabulary"):
        people.analogy("man", "xyz", "woman")
    with pytest.raises(DataError, match="'' is not in the vocabulary"):
        people.neighbours("")


def test_similar_spellings():
    words = ["bank", "banks", "blank", "river", "tank", *(f"word{number}" for number in range(1000))]
    assert similar_spellings("bnak", words)[0] == "bank"
    assert similar_spellings("BANKS", words)[:2] == ["banks", "bank"]
    assert similar_spellings("x" * 100_000, words) == []


def test_one_hot_words_are_equally_distant():
    tokenizer = Tokenizer.train(
        TokenizerConfig(kind="word", specials="plain", min_count=1), ["a b c d e f g h i"], vocab_size=100
    )
    space = EmbeddingSpace(OneHot(OneHotConfig(vocab_size=tokenizer.vocab_size)), tokenizer)
    assert [neighbour.score for neighbour in space.neighbours("a", top=3)] == [0, 0, 0]
    assert space.similarities(torch.tensor([[5, 5], [5, 6]])).tolist() == [1, 0]


TEXT = ["the king met the queen and the king saw the old bank by the river " * 3]


@pytest.mark.parametrize(
    ("kind", "specials", "token"),
    [
        ("word", "plain", "king"),
        ("wordpiece", "bert", "king"),
        ("bpe", "gpt", "king</w>"),
        ("byte-bpe", "gpt2", "Ġking"),
        ("unigram", "roberta", "▁king"),
    ],
)
def test_words_are_found_as_they_occur_in_a_sentence(kind, specials, token):
    config = TokenizerConfig(kind=kind, specials=specials, min_count=1)
    tokenizer = Tokenizer.train(config, TEXT, vocab_size=400)
    encoder = torch.nn.Module()
    encoder.tokens = torch.nn.Embedding(tokenizer.vocab_size + 3, 4)  # more rows than tokens
    space = EmbeddingSpace(encoder, tokenizer)
    assert tokenizer.token(space.find("king")) == token
    assert space.id("king") == space.find("king") and space.find("unheard-of") is None
    found = space.neighbours("king", top=10_000)
    names = {neighbour.word for neighbour in found}
    assert len(found) == len(names) == tokenizer.vocab_size - len(tokenizer.special_ids) - 1
    assert token not in names and names.isdisjoint(map(tokenizer.token, tokenizer.special_ids))


def test_words_of_several_tokens():
    tokenizer = Tokenizer.train(TokenizerConfig(kind="wordpiece", min_count=1), TEXT, vocab_size=400)
    encoder = torch.nn.Module()
    encoder.tokens = torch.nn.Embedding(tokenizer.vocab_size, 4)
    space = EmbeddingSpace(encoder, tokenizer)
    assert space.find("##i") == tokenizer.id("##i")
    with pytest.raises(DataError, match=r"several tokens \(king ##er\)"):
        space.id("kinger")
