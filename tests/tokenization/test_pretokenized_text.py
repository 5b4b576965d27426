import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import polyseme.datasets.token_store as store_module
from polyseme.corpora.corpus import Corpus
from polyseme.datasets.token_store import build_store
from polyseme.tokenization import document_batches
from polyseme.tokenization.config import TokenizerConfig
from polyseme.tokenization.fast_encoder.hash_index import HashIndex
from polyseme.tokenization.fast_encoder.pretoken_cache import PretokenizedText
from polyseme.tokenization.tokenizer import Tokenizer

WORDS = "The old BANK of the river held two hundred sacks of salt in March"
TEXTS = [
    f"{WORDS}. The bank's 3.5 kg! Naïve café, cafe\u0301.\nDon't new_york",
    "用iPhone好😊👍🏽 苹果公司。 supercalifragilisticexpialidocious ひらカタカナ",
    " \x07 ",
    "the last",
]


def trained(texts, kind="word", specials="plain", **settings):
    pretokenized = PretokenizedText()
    config = TokenizerConfig(kind=kind, specials=specials, min_count=1, **settings)
    return Tokenizer.train(config, texts, vocab_size=500, pretokenized=pretokenized), pretokenized


def same(one, other):
    names = ["tokens", "sentences", "documents"]
    values = ["num_characters", "num_words", "num_unknown", "fingerprint"]
    arrays = all(np.array_equal(getattr(one, name), getattr(other, name)) for name in names)
    return arrays and all(getattr(one, name) == getattr(other, name) for name in values)


@pytest.fixture
def unread(monkeypatch):
    """Make reading the text fail."""

    def forbid():
        monkeypatch.setattr(store_module, "map_document_batches", lambda *_: pytest.fail("read again"))

    return forbid


@pytest.mark.parametrize("specials", ["plain", "bert", "gpt2"])
@pytest.mark.parametrize("kind", ["word", "char"])
def test_store_of_pretokenized_text_equals_store_of_text(kind, specials, tmp_path, unread, monkeypatch):
    monkeypatch.setattr(document_batches, "BATCH_LENGTH", 60)
    tokenizer, pretokenized = trained(TEXTS, kind, specials)
    built = build_store(TEXTS, tokenizer, tmp_path / "read", fingerprint="-")
    assert pretokenized.matches(tokenizer)
    unread()
    assert same(
        build_store(TEXTS, tokenizer, tmp_path / "pretokenized", fingerprint="-", pretokenized=pretokenized), built
    )


@given(st.lists(st.text(max_size=40) | st.text(st.sampled_from("ab。 .\n_'é苹<s>/"), max_size=40), max_size=5))
def test_stores_are_equal_for_any_text(tmp_path_factory, texts):
    texts = [*texts, WORDS]
    folder = tmp_path_factory.mktemp("stores")
    tokenizer, pretokenized = trained(texts)
    assert pretokenized.matches(tokenizer) == (not any(mark in text for text in texts for mark in ("<s>", "</s>")))
    one, other = (
        build_store(texts, tokenizer, folder / str(given), fingerprint="-", pretokenized=given)
        for given in (None, pretokenized)
    )
    assert same(one, other)


def test_text_is_complete_when_the_index_is_full(tmp_path, unread, monkeypatch):
    monkeypatch.setattr(document_batches, "BATCH_LENGTH", 60)
    monkeypatch.setattr(HashIndex, "MIN_CAPACITY", 16)
    texts = TEXTS * 3
    tokenizer, pretokenized = trained(texts)
    built = build_store(texts, tokenizer, tmp_path / "read", fingerprint="-")
    unread()
    assert same(
        build_store(texts, tokenizer, tmp_path / "pretokenized", fingerprint="-", pretokenized=pretokenized), built
    )


@pytest.mark.parametrize("limit", ["MAX_LENGTH", "MAX_PRETOKENS"])
def test_long_text_is_dropped(limit, tmp_path, monkeypatch):
    monkeypatch.setattr(document_batches, "BATCH_LENGTH", 60)
    monkeypatch.setattr(PretokenizedText, limit, 5)
    tokenizer, pretokenized = trained(TEXTS)
    assert not pretokenized.matches(tokenizer) and not pretokenized.batches and not pretokenized.pretokens
    one, other = (
        build_store(TEXTS, tokenizer, tmp_path / str(given), fingerprint="-", pretokenized=given)
        for given in (None, pretokenized)
    )
    assert same(one, other)


def test_text_matches_only_its_own_tokenizer(tmp_path):
    _, pretokenized = trained(TEXTS)
    bert, _ = trained(TEXTS, specials="bert")
    gpt2 = Tokenizer.train(TokenizerConfig(kind="byte-bpe", specials="gpt2"), TEXTS, vocab_size=500)
    assert not pretokenized.matches(bert) and not pretokenized.matches(gpt2)
    assert not PretokenizedText().matches(bert)


def test_text_is_read_once(tmp_path, monkeypatch):
    path = tmp_path / "text.txt"
    path.write_text("\n\n".join(TEXTS), encoding="utf-8")
    corpus, readings = Corpus(path), []
    tokenizer, pretokenized = trained(corpus)
    monkeypatch.setattr(Corpus, "__iter__", lambda self: readings.append(self) or iter(()))
    store_module.build_or_load_store(corpus, tokenizer, pretokenized=pretokenized)
    assert not readings
