"""Words, phrases and entities in text, and their alignment to tokens."""

import itertools
import logging

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import polyseme.tokenization.masking_units as units_module
from polyseme.corpora.sentence_splitting import split_sentences
from polyseme.datasets.token_store import TokenStore
from polyseme.errors import ConfigError, DataError
from polyseme.tokenization import word_segmentation
from polyseme.tokenization.config import TokenizerConfig
from polyseme.tokenization.masking_units import (
    ENTITY,
    PHRASE,
    WORD,
    MaskingUnits,
    MaskingUnitsConfig,
    mark_continuations,
)
from polyseme.tokenization.tokenizer import Tokenizer

SENTENCE = "使用语言模型来预测下一个词的概率。"
TEXTS = [
    "The quick brown fox jumps over the lazy dog in New York. It isn't amused! Is it?\nNew Yorkers, e.g. this one.",
    SENTENCE + "数学是研究数量、结构、变化以及空间等概念的一门学科。数学家研究数学！",
    "我在银行工作，河岸上有一家银行。Apple sells 苹果 phones for $1,000.50 each in 北京大学.",
] * 3
KINDS = [("wordpiece", "bert"), ("word", "bert"), ("char", "bert"), ("bpe", "bert"), ("unigram", "bert")]
KINDS += [("byte-bpe", "roberta")]


def words(text, **config):
    return [text[start:end] for start, end in MaskingUnits(MaskingUnitsConfig(**config)).find(text)[WORD]]


@pytest.fixture
def write_entries(tmp_path):
    """Write a file of entries."""

    def write(*entries):
        path = tmp_path / f"entries-{len(list(tmp_path.iterdir()))}.txt"
        path.write_text("\n".join(entries), encoding="utf-8")
        return str(path)

    return write


@pytest.mark.parametrize("segmenter", ["auto", "rjieba", pytest.param("jieba", marks=pytest.mark.slow)])
def test_chinese_words_come_from_a_segmenter(segmenter):
    pytest.importorskip("rjieba" if segmenter == "auto" else segmenter)
    assert "|".join(words(SENTENCE, segmenter=segmenter)) == "使用|语言|模型|来|预测|下|一个|词|的|概率|。"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The dog's  bone, 3.5 kg!", "The|dog|'|s|bone|,|3|.|5|kg|!"),
        ("naïve cafe\u0301 नमस्ते мир", "naïve|cafe\u0301|नमस्ते|мир"),
        ("ก็ดี ひらカタカナ", "ก็|ดี|ひ|ら|カタカナ"),
        ("用iPhone好😊👍🏽", "用|iPhone|好|😊|👍|🏽"),
        ("a_b\u3000[x]", "a|_|b|[|x|]"),
        ("", ""),
    ],
)
def test_words_of_every_script(text, expected):
    assert "|".join(words(text)) == expected


def test_without_a_segmenter_every_ideograph_is_a_word(monkeypatch, caplog):
    monkeypatch.setattr(word_segmentation, "find_spec", lambda name: None)
    word_segmentation.load_segmenter.cache_clear()
    with caplog.at_level(logging.WARNING):
        assert words("语言 model") == words("语言 model") == ["语", "言", "model"]
        assert words("语言", segmenter="none") == ["语", "言"]
    assert [record.message for record in caplog.records] == [
        "no segmenter is installed, so each ideograph is a word; pip install 'polyseme[chinese]'"
    ]
    with pytest.raises(ConfigError, match=r"data\.segmenter: jieba is not installed"):
        words("语言", segmenter="jieba")


def test_lexicon_overrides_the_segmenter(write_entries):
    lexicon = write_entries("语言模型", "下一个词", "New York", "", "的")
    assert words(SENTENCE, lexicon=lexicon) == ["使用", "语言模型", "来", "预测", "下一个词", "的", "概率", "。"]
    assert words("In New York, new", lexicon=lexicon) == ["In", "New York", ",", "new"]


def test_longest_entity_wins_at_word_boundaries(write_entries):
    config = MaskingUnitsConfig(
        entities=write_entries("New York", "New York City", "Ann", "北京大学", "北京", "J. S. Bach", "x")
    )
    text = "Ann left Annapolis for New York City, not New York-Paris; J. S. Bach学于北京大学，住在北京。New\nYork x"
    found = [text[start:end] for start, end in MaskingUnits(config).find(text)[ENTITY]]
    assert found == ["Ann", "New York City", "New York", "J. S. Bach", "北京大学", "北京"]


def phrases(texts, number):
    return sorted(MaskingUnits(MaskingUnitsConfig(phrases=number), texts).phrases)


def test_phrases_have_high_mutual_information():
    filler = [f"the cat {number} of the house {number} saw the dog of the town {number}" for number in range(60)]
    texts = [f"{text}. New York Times of the day" for text in filler[:20]] + filler[20:]
    found = phrases(texts, 10)
    assert {("New", "York"), ("York", "Times")} <= set(found)
    assert ("of", "the") not in found and ("the", "cat") not in found
    assert phrases(texts, 10) == found and len(phrases(texts, 1)) == 1
    units = MaskingUnits(MaskingUnitsConfig(phrases=10), texts)
    text = "The New York Times, New-York"
    assert [text[start:end] for start, end in units.find(text)[PHRASE]] == ["New York Times"]


def test_phrases_are_counted_in_bounded_memory(monkeypatch):
    monkeypatch.setattr(units_module, "_MAX_COUNTED", 50)
    texts = [f"New York {'has the word of the house and ' * 5} number{number}" for number in range(200)]
    assert ("New", "York") in phrases(texts, 5)
    counter = units_module._LossyCounter()
    for number in range(1000):
        counter.add(number)
        assert len(counter.counts) <= 50
    assert counter.total == 1000


def test_fingerprint_depends_on_settings_and_texts(write_entries):
    def fingerprint(texts=(), **config):
        return MaskingUnits(MaskingUnitsConfig(**config), texts).fingerprint

    path = write_entries("ab")
    prints = [fingerprint(), fingerprint(segmenter="none"), fingerprint(lexicon=path), fingerprint(entities=path)]
    prints += [
        fingerprint(["a b"], phrases=1),
        fingerprint(["a c"], phrases=1),
        fingerprint(lexicon=write_entries("abc")),
    ]
    assert len(set(prints)) == len(prints)
    assert fingerprint(lexicon=path) == fingerprint(lexicon=write_entries("ab")) and fingerprint(["a"]) == fingerprint(
        ["b"]
    )


def test_unreadable_files(tmp_path):
    with pytest.raises(DataError, match=r"nothing\.txt cannot be read"):
        MaskingUnits(MaskingUnitsConfig(lexicon=str(tmp_path / "nothing.txt")))
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9\n")
    with pytest.raises(DataError, match="is not UTF-8"):
        MaskingUnits(MaskingUnitsConfig(entities=str(tmp_path / "latin.txt")))


def overlap(one, other):
    return max(one[0], other[0]) < min(one[1], other[1])


def intervals(sizes):
    """Spans from lengths and gaps before them."""
    bounds = np.cumsum([part for gap, size in sizes for part in (gap, size)]).tolist()
    return list(zip(bounds[::2], bounds[1::2], strict=True))


gaps = st.lists(st.tuples(st.integers(0, 2), st.integers(1, 4)), max_size=12)


@given(gaps, gaps)
def test_tokens_that_share_a_span_are_aligned(spans, tokens):
    spans, tokens = intervals(spans), intervals(tokens)
    expected = [
        number > 0 and any(overlap(span, tokens[number - 1]) and overlap(span, token) for span in spans)
        for number, token in enumerate(tokens)
    ]
    starts, ends = np.array(tokens, np.int64).reshape(-1, 2).T
    assert mark_continuations(spans, starts, ends).tolist() == expected


@pytest.fixture(scope="module", params=KINDS, ids="-".join)
def tokenizer(request):
    kind, style = request.param
    return Tokenizer.train(TokenizerConfig(kind=kind, specials=style, min_count=1), TEXTS, vocab_size=400)


parts = "the|Fox|jumps over| |  |\n|. |。|，|数学|使用语言|模型|大学|é|e\u0301|'s|1|½|[MASK]|New York|😊|𠀀|ﬁ|ก็|☃|-|_"
documents = st.lists(st.lists(st.sampled_from(parts.split("|")), max_size=20).map("".join) | st.text(max_size=20))


@pytest.fixture(scope="module")
def entities(tmp_path_factory):
    file = tmp_path_factory.mktemp("entities") / "entities.txt"
    file.write_text("New York\n使用语言\n大学\n", encoding="utf-8")
    return str(file)


@settings(max_examples=25)
@given(documents)
def test_units_are_aligned_to_the_tokens_of_every_kind(tokenizer, entities, texts):
    units = MaskingUnits(MaskingUnitsConfig(entities=entities))
    try:
        store = TokenStore.from_documents(texts, tokenizer, units)
    except DataError:
        return
    assert store.units.shape == store.tokens.shape
    bits = iter(np.split(store.units, store.sentences[1:-1]))
    for text in texts:
        for sentence in split_sentences(text):
            tokens = tokenizer.encode(sentence, specials=False).offsets
            if not tokens:
                continue
            mine = next(bits)
            for level, spans in units.find(sentence).items():
                expected = [
                    any(overlap(span, before) and overlap(span, token) for span in spans)
                    for before, token in itertools.pairwise(tokens)
                ]
                assert (mine[1 : len(tokens)] & level > 0).tolist() == expected
            assert mine[0] == 0 and not mine[len(tokens) :].any()
    assert next(bits, None) is None
