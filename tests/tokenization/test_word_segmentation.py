import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyseme.corpora.utf16_text import Utf16Text
from polyseme.datasets.token_store import TokenStore
from polyseme.tokenization import word_segmentation
from polyseme.tokenization.config import TokenizerConfig
from polyseme.tokenization.tokenizer import Tokenizer
from polyseme.tokenization.word_segmentation import WordSegmentation


def in_pairs():
    """A segmenter whose words are pairs of ideographs."""
    segmentation = WordSegmentation("jieba")
    segmentation.__dict__["_split_run"] = lambda run: [run[place : place + 2] for place in range(0, len(run), 2)]
    return segmentation


@given(st.lists(st.text(st.sampled_from("aé 。😊中国数学\uf900\ufffd"))))
def test_many_sentences_are_segmented_as_one(sentences):
    segmentation = in_pairs()
    text = segmentation.segment_all(Utf16Text.of(sentences))
    expected = Utf16Text.of(list(map(segmentation.segment, sentences)))
    assert text.characters == expected.characters
    for name in ("units", "bounds", "low_surrogates"):
        assert getattr(text, name).tolist() == getattr(expected, name).tolist()


def test_text_without_ideographs_is_unchanged():
    text = Utf16Text.of(["No ideographs", " here: é."])
    assert in_pairs().segment_all(text) is text
    assert WordSegmentation("none").segment_all(Utf16Text.of(["中国"])).characters == "中国"
    assert in_pairs().segment("a中国数b") == "a 中国 数 b"


def test_words_are_segmented_once(monkeypatch):
    """The segmenter splits a run of two ideographs, and makes pairs of a longer one."""
    pytest.importorskip("rjieba")  # replaced below

    def split(run):
        return list(run) if len(run) < 3 else [run[place : place + 2] for place in range(0, len(run), 2)]

    monkeypatch.setattr(word_segmentation, "load_segmenter", lambda name: split)
    config = TokenizerConfig(kind="word", specials="plain", min_count=1, segmenter="rjieba")
    texts = ["天地玄黄", "宇宙洪荒", "a天地b"]
    tokenizer = Tokenizer.train(config, texts, vocab_size=50)
    store = TokenStore.from_documents(texts, tokenizer)
    words = " ".join(tokenizer.token(number) for number in store.tokens)
    assert words == "天地 玄黄 </s> 宇宙 洪荒 </s> a 天 地 b </s>"
