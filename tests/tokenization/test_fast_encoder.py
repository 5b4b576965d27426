from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, models, pre_tokenizers

from polyseme.corpora.scripts import STABLE_IDEOGRAPHS
from polyseme.corpora.utf16_text import Utf16Text, character_class
from polyseme.tokenization.config import TokenizerConfig
from polyseme.tokenization.fast_encoder import boundaries as boundaries_module
from polyseme.tokenization.fast_encoder.boundaries import MergeBoundaries, PretokenBoundaries
from polyseme.tokenization.fast_encoder.hash_index import MAX_KEY_LENGTH, HashIndex
from polyseme.tokenization.fast_encoder.pretoken_cache import PretokenCache
from polyseme.tokenization.tokenizer import Tokenizer
from polyseme.tokenization.training import build_pipeline

TEXTS = [
    "The quick brown fox jumps over the lazy dog. It isn't amused! Is it? We've seen 1,000.50 foxes' tails.",
    "数学是研究数量、结构、变化以及空间等概念的一门学科。数学家研究数学！我在银行工作，河岸上有一家银行。",
    "Le naïve garçon — Straße, ΑΒΓ αβγ, Привет мир, ひらがな カタカナ 한국어",
] * 3


def train(kind, style, vocab_size=700, **options):
    config = TokenizerConfig(kind=kind, specials=style, min_count=1, **options)
    return Tokenizer.train(config, TEXTS, vocab_size=vocab_size)


STYLES = [
    ("wordpiece", "bert"),
    ("word", "plain"),
    ("char", "plain"),
    ("bpe", "gpt"),
    ("byte-bpe", "gpt2"),
    ("byte-bpe", "roberta"),
]


@pytest.fixture(scope="module", params=STYLES, ids="-".join)
def tokenizer(request):
    return train(*request.param)


def ids(tokenizer, text):
    return tokenizer.backend.encode(text, add_special_tokens=False).ids


sentences = st.lists(
    st.text(
        st.sampled_from(" \n\t\u3000\x1c\x85\xa0aZé1½.,'!—_…’中国数学银行我的，。\uf900あア한я😊e\u0301ﬁ\0"), min_size=1
    )
    | st.text(min_size=1),
    min_size=1,
    max_size=4,
)


@settings(max_examples=150)
@given(sentences)
def test_pretokens_encoded_alone_give_the_tokens_of_the_text(tokenizer, texts):
    texts = [text.encode("utf-8", "replace").decode() for text in texts]
    text = Utf16Text.of(texts)
    boundaries = PretokenBoundaries.of(tokenizer)
    assume(boundaries.applies_to(text))
    starts, ends = boundaries.find(text)
    assert np.all(ends > starts) and np.all(starts[1:] >= ends[:-1])
    pretokens = text.substrings(starts, ends)
    firsts = np.searchsorted(starts, text.bounds)
    for number, sentence in enumerate(texts):
        own = pretokens[firsts[number] : firsts[number + 1]]
        assert [token for pretoken in own for token in ids(tokenizer, pretoken)] == ids(tokenizer, sentence)


@settings(max_examples=100)
@given(sentences)
def test_cache_agrees_with_the_library(tokenizer, texts):
    texts = [text.encode("utf-8", "replace").decode() for text in texts]
    cache = PretokenCache.of(tokenizer)
    assume(cache.boundaries.applies_to(Utf16Text.of(texts)))
    for _ in range(2):  # first new, then cached
        cache.pause = 0
        tokens, lengths = cache.encode(Utf16Text.of(texts))
        assert [row.tolist() for row in np.split(tokens, np.cumsum(lengths)[:-1])] == [
            ids(tokenizer, text) for text in texts
        ]


def find_in_python(boundaries, text):
    """A reference implementation of `PretokenBoundaries.find`."""
    kinds, bounds = boundaries.kinds[text.units].tolist(), set(text.bounds.tolist())
    splits = []
    for place in sorted({*range(len(kinds)), *bounds}):
        relation = boundaries_module._SPLIT
        if place not in bounds:
            relation = boundaries.relations[8 * kinds[place - 1] + kinds[place]]
            if relation == boundaries_module._LAST_SPACE:
                relation = place + 1 not in bounds and kinds[place + 1] < boundaries_module._SPACE
            elif relation == boundaries_module._MERGE:
                first, second = text.units[place - 1 : place + 1].tolist()
                merges = boundaries.merges
                pair = merges.pairs[(first << 16 | second) * 0x9E3779B1 % 2**32 >> 12]
                relation = not (pair or merges.right[first] or merges.left[second])
        if relation:
            splits.append(place)
    drops = boundaries.drops_white_space
    return [(a, b) for a, b in pairwise(splits) if not (drops and kinds[a] >= boundaries_module._SPACE)]


@given(sentences)
def test_compiled_loops_agree_with_python(tokenizer, texts):
    text, boundaries = Utf16Text.of(texts), PretokenBoundaries.of(tokenizer)
    starts, ends = boundaries.find(text)
    assert list(zip(starts.tolist(), ends.tolist(), strict=True)) == find_in_python(boundaries, text)
    index, known = HashIndex(), {}
    for _ in range(2):
        rows, new = index.find_or_add(text, starts, ends)
        expected_rows, expected_new = [], []
        for number, pretoken in enumerate(text.substrings(starts, ends)):
            short = len(pretoken.encode("utf-16-le")) <= 2 * MAX_KEY_LENGTH
            if not short or pretoken not in known:
                known[pretoken if short else len(known)] = len(known)
                expected_new.append(number)
            expected_rows.append(known[pretoken] if short else len(known) - 1)
        assert rows.tolist() == expected_rows and new.tolist() == expected_new
        assert index.num_rows == len(known)


@pytest.mark.parametrize("vocab_size", [300, 400, 500, 700])
def test_runs_of_ideographs_are_split_where_nothing_merges(vocab_size):
    # A small vocabulary has tokens that end inside a character.
    tokenizer = train("byte-bpe", "gpt2", vocab_size=vocab_size)
    ideographs = sorted({character for character in "".join(TEXTS) if "一" <= character <= "鿿"})
    rng = np.random.default_rng(0)
    characters = "".join(rng.choice([*ideographs, "丁", "鼠"], 3_000))
    text = Utf16Text.of([characters])
    pretokens = text.substrings(*PretokenBoundaries.of(tokenizer).find(text))
    assert len(pretokens) > 100
    assert [token for pretoken in pretokens for token in ids(tokenizer, pretoken)] == ids(tokenizer, characters)


def test_tokens_that_begin_or_end_inside_a_character_merge():
    def pretokens(characters, *tokens):
        text = Utf16Text.of([characters])
        return text.substrings(*PretokenBoundaries.of_bytes([], MergeBoundaries(tokens)).find(text))

    first, second = "中".encode(), "国".encode()
    assert pretokens("中国") == ["中", "国"]
    for token in (first + second, first[1:] + second, first + second[:1], first[2:] + second[:2]):
        assert pretokens("中国", b"a", token) == ["中国"]
    assert pretokens("国中", first + second) == ["国", "中"]


def test_character_classes_are_those_of_the_library():
    split = pre_tokenizers.ByteLevel(add_prefix_space=False).pre_tokenize_str

    def spans(text):
        return [span for _, span in split(text)]

    for unit in np.flatnonzero(character_class(boundaries_module.ALPHABETIC + STABLE_IDEOGRAPHS)):
        assert spans(f"a{chr(unit)}a") == [(0, 3)], hex(unit)
    bert = build_pipeline(TokenizerConfig(), models.WordPiece({"a": 0}, unk_token="a"))
    for unit in np.flatnonzero(character_class(boundaries_module.PUNCTUATION)):
        mark = chr(unit)
        assert spans(f"a{mark}-1") == [(0, 1), (1, 3), (3, 4)], hex(unit)
        assert bert.normalizer.normalize_str(mark) == mark
        assert [piece for piece, _ in bert.pre_tokenizer.pre_tokenize_str(f"a{mark}b")] == ["a", mark, "b"]
    for unit in np.flatnonzero(character_class(boundaries_module.WHITE_SPACE)):
        mark = chr(unit)
        assert spans(f"a{mark}{mark}") == [(0, 1), (1, 3)], hex(unit)
        assert spans(f"a{mark}{mark}b")[:2] == [(0, 1), (1, 2)], hex(unit)


@pytest.mark.parametrize("setting", [("MIN_CAPACITY", 64), ("NUM_PROBES", 1)])
def test_full_indices_and_collisions_change_nothing(tokenizer, monkeypatch, setting):
    monkeypatch.setattr(HashIndex, *setting)
    cache = PretokenCache.of(tokenizer)
    for number in range(60):
        texts = [f"word{number % 7} {number}{'long' * 5} a\0 a", f"数{chr(0x4E00 + number)}学, don't {number % 5}"]
        cache.pause = 0
        tokens, lengths = cache.encode(Utf16Text.of(texts))
        assert tokens.tolist() == [token for text in texts for token in ids(tokenizer, text)]
        assert lengths.tolist() == [len(ids(tokenizer, text)) for text in texts]


def test_keys_distinguish_every_unit_and_length(tokenizer):
    words = ["a" * length for length in range(1, 40)] + [
        "a" * 14 + "b",
        "a" * 15 + "b",
        "a" * 13 + "\0",
        "a\0\0",
        "\0a",
    ]
    cache = PretokenCache.of(tokenizer)
    for texts in (words, words[::-1]):
        tokens, _ = cache.encode(Utf16Text.of(texts))
        assert tokens.tolist() == [token for text in texts for token in ids(tokenizer, text)]
        cache.pause = 0


def test_texts_with_added_tokens_go_to_the_library(tokenizer):
    added = next(iter(tokenizer.backend.get_added_tokens_decoder().values()), None)
    if added is None:
        pytest.skip("this kind has none")
    cache = PretokenCache.of(tokenizer)
    assert cache.encode(Utf16Text.of(["a word"])) is not None
    cache.pause = 0
    assert cache.encode(Utf16Text.of(["a word", f"and{added.content}more"])) is None


def test_normalized_added_tokens_are_not_supported():
    bert = train("wordpiece", "bert")
    assert PretokenCache.of(bert) is not None
    bert.backend.add_tokens([AddedToken("new-york", normalized=True)])
    assert PretokenCache.of(Tokenizer(bert.backend, bert.config, bert.specials)) is None


def test_text_that_never_repeats_goes_to_the_library_temporarily():
    bert = train("wordpiece", "bert")
    cache = PretokenCache.of(bert)
    text = Utf16Text.of([" ".join(f"w{number}x{number * 7919}" for number in range(200))])
    assert cache.encode(text) is not None
    assert [cache.encode(text) is None for _ in range(20)] == [True] * 19 + [False]


def test_unigram_models_are_not_supported():
    assert PretokenCache.of(train("unigram", "bert")) is None
