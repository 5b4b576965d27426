import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import models, trainers

from polyseme.tokenization import document_batches, word_counts
from polyseme.tokenization.config import TokenizerConfig
from polyseme.tokenization.fast_encoder.hash_index import HashIndex
from polyseme.tokenization.training import VocabularyLayout, build_pipeline, build_word_vocabulary
from polyseme.tokenization.word_counts import count_words

TEXTS = [
    "The old BANK, the river; the bank's 3.5 kg!\n\nNaïve café, cafe\u0301. a\tb\u00a0c <unk> </s> [x]_y",
    "用iPhone好😊👍🏽 苹果公司 supercalifragilisticexpialidocious supercalifragilisticexpialidocious ひらカタカナ",
    "",
    " \n ",
]


def library(config, texts, vocab_size):
    """The vocabulary of the library's own trainer."""
    backend = build_pipeline(config, models.WordLevel(unk_token="<unk>"))
    trainer = trainers.WordLevelTrainer(
        vocab_size=vocab_size, special_tokens=["<unk>"], min_frequency=config.min_count, show_progress=False
    )
    backend.train_from_iterator(texts, trainer)
    return backend.get_vocab()


def ours(config, texts, vocab_size):
    counts = count_words(texts, build_pipeline(config, models.WordLevel(unk_token="<unk>")))
    layout = VocabularyLayout(size=vocab_size, leading=["<unk>"], trailing=[], unknown="<unk>")
    vocab = tokenizers.Tokenizer(build_word_vocabulary(config, counts, layout)).get_vocab()
    assert len(vocab) <= vocab_size
    return vocab


@pytest.mark.parametrize("min_count", [1, 2])
@pytest.mark.parametrize("lowercase", [True, False])
@pytest.mark.parametrize("kind", ["word", "char"])
@pytest.mark.parametrize("vocab_size", [12, 1000])
def test_vocabulary_agrees_with_the_library(kind, lowercase, min_count, vocab_size):
    config = TokenizerConfig(kind=kind, specials="plain", lowercase=lowercase, min_count=min_count)
    assert ours(config, TEXTS * 2, vocab_size) == library(config, TEXTS * 2, vocab_size)


@settings(deadline=None)
@given(st.lists(st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=40), max_size=5))
def test_vocabulary_agrees_with_the_library_on_any_text(texts):
    config = TokenizerConfig(kind="word", specials="plain", min_count=1)
    assert ours(config, texts, 10_000) == library(config, texts, 10_000)


def test_batches_and_long_texts_change_nothing(monkeypatch):
    backend = build_pipeline(TokenizerConfig(kind="word", specials="plain"), models.WordLevel(unk_token="<unk>"))
    whole = count_words(TEXTS * 3, backend)
    monkeypatch.setattr(document_batches, "BATCH_LENGTH", 40)
    assert count_words(TEXTS * 3, backend) == whole
    monkeypatch.setattr(HashIndex, "MIN_CAPACITY", 8)
    monkeypatch.setattr(HashIndex, "NUM_PROBES", 1)
    monkeypatch.setattr(word_counts, "_GROUP_SIZE", 2)
    assert count_words(TEXTS * 3, backend) == whole
    assert whole["the"] == 9 and whole["supercalifragilisticexpialidocious"] == 6


def test_rare_pretokens_are_dropped_when_there_are_too_many(monkeypatch):
    backend = build_pipeline(TokenizerConfig(kind="word", specials="plain"), models.WordLevel(unk_token="<unk>"))
    monkeypatch.setattr(document_batches, "BATCH_LENGTH", 10)
    monkeypatch.setattr(word_counts, "_MAX_PRETOKENS", 20)
    monkeypatch.setattr(HashIndex, "MIN_CAPACITY", 8)
    texts = [f"often{' '} rare{number}" for number in range(100)]
    counts = count_words(texts, backend)
    assert counts["often"] == 100 and len(counts) < 30


def test_surrogates_are_replaced():
    backend = build_pipeline(TokenizerConfig(kind="word", specials="plain"), models.WordLevel(unk_token="<unk>"))
    assert count_words(["a \ud800 b"], backend) == {"a": 1, "b": 1}
