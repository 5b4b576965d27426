import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import models, trainers

from polyseme.text import counting, passages
from polyseme.text.counting import count_words
from polyseme.text.stretches import Index
from polyseme.text.vocabulary import TokenizerConfig, stages, take_words

TEXTS = [
    "The old BANK, the river; the bank's 3.5 kg!\n\nNaïve café, cafe\u0301. a\tb\u00a0c <unk> </s> [x]_y",
    "用iPhone好😊👍🏽 苹果公司 supercalifragilisticexpialidocious supercalifragilisticexpialidocious ひらカタカナ",
    "",
    " \n ",
]


def library(config, texts, vocab_size):
    """The vocabulary that the library's own trainer learns."""
    backend = stages(config, models.WordLevel(unk_token="<unk>"))
    trainer = trainers.WordLevelTrainer(
        vocab_size=vocab_size, special_tokens=["<unk>"], min_frequency=config.min_count, show_progress=False
    )
    backend.train_from_iterator(texts, trainer)
    return backend.get_vocab()


def ours(config, texts, vocab_size):
    counts = count_words(texts, stages(config, models.WordLevel(unk_token="<unk>")))
    model, number = take_words(config, counts, ["<unk>"], [], "<unk>", vocab_size)
    vocab = tokenizers.Tokenizer(model).get_vocab()
    assert len(vocab) == number
    return vocab


@pytest.mark.parametrize("min_count", [1, 2])
@pytest.mark.parametrize("lowercase", [True, False])
@pytest.mark.parametrize("kind", ["word", "char"])
@pytest.mark.parametrize("vocab_size", [12, 1000])
def test_words_are_those_of_the_library(kind, lowercase, min_count, vocab_size):
    config = TokenizerConfig(kind=kind, specials="plain", lowercase=lowercase, min_count=min_count)
    assert ours(config, TEXTS * 2, vocab_size) == library(config, TEXTS * 2, vocab_size)


@settings(deadline=None)
@given(st.lists(st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=40), max_size=5))
def test_whatever_the_text(texts):
    config = TokenizerConfig(kind="word", specials="plain", min_count=1)
    assert ours(config, texts, 10_000) == library(config, texts, 10_000)


def test_batches_and_long_texts_change_nothing(monkeypatch):
    backend = stages(TokenizerConfig(kind="word", specials="plain"), models.WordLevel(unk_token="<unk>"))
    whole = count_words(TEXTS * 3, backend)
    monkeypatch.setattr(passages, "LENGTH", 40)
    assert count_words(TEXTS * 3, backend) == whole
    monkeypatch.setattr(Index, "NUM_ROWS", 8)
    monkeypatch.setattr(Index, "NUM_PROBES", 1)
    monkeypatch.setattr(counting, "_LINES", 2)
    assert count_words(TEXTS * 3, backend) == whole
    assert whole["the"] == 9 and whole["supercalifragilisticexpialidocious"] == 6


def test_what_is_met_once_is_forgotten_when_there_is_too_much(monkeypatch):
    backend = stages(TokenizerConfig(kind="word", specials="plain"), models.WordLevel(unk_token="<unk>"))
    monkeypatch.setattr(passages, "LENGTH", 10)
    monkeypatch.setattr(counting, "_MOST", 20)
    monkeypatch.setattr(Index, "NUM_ROWS", 8)
    texts = [f"often{' '} rare{number}" for number in range(100)]
    found = count_words(texts, backend)
    assert found["often"] == 100 and len(found) < 30


def test_surrogates_are_mended():
    backend = stages(TokenizerConfig(kind="word", specials="plain"), models.WordLevel(unk_token="<unk>"))
    assert count_words(["a \ud800 b"], backend) == {"a": 1, "b": 1}
