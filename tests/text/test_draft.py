import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import polyseme.text.store as store_module
from polyseme.text import passages
from polyseme.text.corpus import Corpus
from polyseme.text.draft import Draft
from polyseme.text.store import build_store
from polyseme.text.stretches import Index
from polyseme.text.tokenizer import Tokenizer
from polyseme.text.vocabulary import TokenizerConfig

WORDS = "The old BANK of the river held two hundred sacks of salt in March"
TEXTS = [
    f"{WORDS}. The bank's 3.5 kg! Naïve café, cafe\u0301.\nDon't new_york",
    "用iPhone好😊👍🏽 苹果公司。 supercalifragilisticexpialidocious ひらカタカナ",
    " \x07 ",
    "the last",
]


def trained(texts, kind="word", specials="plain", **settings):
    draft = Draft()
    config = TokenizerConfig(kind=kind, specials=specials, min_count=1, **settings)
    return Tokenizer.train(config, texts, vocab_size=500, draft=draft), draft


def same(one, other):
    names = ["tokens", "sentences", "documents"]
    values = ["num_characters", "num_words", "unknown", "fingerprint"]
    arrays = all(np.array_equal(getattr(one, name), getattr(other, name)) for name in names)
    return arrays and all(getattr(one, name) == getattr(other, name) for name in values)


@pytest.fixture
def unread(monkeypatch):
    """A store that is made by reading the text fails."""

    def forbid():
        monkeypatch.setattr(passages, "read", lambda *_: pytest.fail("read again"))

    return forbid


@pytest.mark.parametrize("specials", ["plain", "bert", "gpt2"])
@pytest.mark.parametrize("kind", ["word", "char"])
def test_the_store_of_a_draft_is_that_of_its_text(kind, specials, tmp_path, unread, monkeypatch):
    monkeypatch.setattr(passages, "LENGTH", 60)
    tokenizer, draft = trained(TEXTS, kind, specials)
    built = build_store(TEXTS, tokenizer, tmp_path / "read")
    assert draft.suits(tokenizer)
    unread()
    assert same(build_store(TEXTS, tokenizer, tmp_path / "drafted", draft=draft), built)


@given(st.lists(st.text(max_size=40) | st.text(st.sampled_from("ab。 .\n_'é苹<s>/"), max_size=40), max_size=5))
def test_whatever_the_text(tmp_path_factory, texts):
    texts = [*texts, WORDS]
    folder = tmp_path_factory.mktemp("stores")
    tokenizer, draft = trained(texts)
    assert draft.suits(tokenizer) == (not any(mark in text for text in texts for mark in ("<s>", "</s>")))
    one, other = (build_store(texts, tokenizer, folder / str(given), draft=given) for given in (None, draft))
    assert same(one, other)


def test_a_draft_goes_on_when_the_index_is_full(tmp_path, unread, monkeypatch):
    monkeypatch.setattr(passages, "LENGTH", 60)
    monkeypatch.setattr(Index, "NUM_ROWS", 16)
    texts = TEXTS * 3
    tokenizer, draft = trained(texts)
    built = build_store(texts, tokenizer, tmp_path / "read")
    unread()
    assert same(build_store(texts, tokenizer, tmp_path / "drafted", draft=draft), built)


@pytest.mark.parametrize("limit", ["MOST", "MOST_NAMES"])
def test_what_is_too_much_is_not_kept(limit, tmp_path, monkeypatch):
    monkeypatch.setattr(passages, "LENGTH", 60)
    monkeypatch.setattr(Draft, limit, 5)
    tokenizer, draft = trained(TEXTS)
    assert not draft.suits(tokenizer) and not draft.sheets and not draft.names
    one, other = (build_store(TEXTS, tokenizer, tmp_path / str(given), draft=given) for given in (None, draft))
    assert same(one, other)


def test_a_draft_serves_no_other_tokenizer(tmp_path):
    _, draft = trained(TEXTS)
    framed, _ = trained(TEXTS, specials="bert")
    pieces = Tokenizer.train(TokenizerConfig(kind="byte-bpe", specials="gpt2"), TEXTS, vocab_size=500)
    assert not draft.suits(framed) and not draft.suits(pieces)
    assert not Draft().suits(framed)


def test_a_text_of_words_is_read_once(tmp_path, monkeypatch):
    path = tmp_path / "text.txt"
    path.write_text("\n\n".join(TEXTS), encoding="utf-8")
    corpus, readings = Corpus(path), []
    tokenizer, draft = trained(corpus)
    monkeypatch.setattr(Corpus, "__iter__", lambda self: readings.append(self) or iter(()))
    store_module.prepare(corpus, tokenizer, draft=draft)
    assert not readings
