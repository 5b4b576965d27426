import pytest
from hypothesis import given
from hypothesis import strategies as st

import polyseme.text.spacing as spacing_module
from polyseme.text.spacing import Spacing
from polyseme.text.store import Store
from polyseme.text.tokenizer import Tokenizer
from polyseme.text.utf16 import Text
from polyseme.text.vocabulary import TokenizerConfig


def in_pairs():
    """Spacing by a segmenter that takes every two ideographs for a word."""
    spacing = Spacing("jieba")
    spacing.__dict__["_cut"] = lambda run: [run[place : place + 2] for place in range(0, len(run), 2)]
    return spacing


@given(st.lists(st.text(st.sampled_from("aé 。😊中国数学\uf900\ufffd"))))
def test_all_sentences_are_spaced_as_each_is(sentences):
    spacing = in_pairs()
    found, wanted = spacing.space_all(Text.of(sentences)), Text.of(list(map(spacing.space, sentences)))
    assert found.characters == wanted.characters
    for name in ("units", "bounds", "doubles"):
        assert getattr(found, name).tolist() == getattr(wanted, name).tolist()


def test_text_without_ideographs_stays_as_it_is():
    text = Text.of(["No ideographs", " here: é."])
    assert in_pairs().space_all(text) is text
    assert Spacing("none").space_all(Text.of(["中国"])).characters == "中国"
    assert in_pairs().space("a中国数b") == "a 中国 数 b"


def test_words_are_found_once(monkeypatch):
    """A segmenter that cuts two ideographs apart when they stand alone, and into pairs when there are more."""
    pytest.importorskip("rjieba")  # whose place it takes

    def cut(run):
        return list(run) if len(run) < 3 else [run[place : place + 2] for place in range(0, len(run), 2)]

    monkeypatch.setattr(spacing_module, "load_segmenter", lambda name: cut)
    config = TokenizerConfig(kind="word", specials="plain", min_count=1, segmenter="rjieba")
    texts = ["天地玄黄", "宇宙洪荒", "a天地b"]
    tokenizer = Tokenizer.train(config, texts, vocab_size=50)
    store = Store.from_documents(texts, tokenizer)
    words = " ".join(tokenizer.token(number) for number in store.tokens)
    assert words == "天地 玄黄 </s> 宇宙 洪荒 </s> a 天 地 b </s>"
