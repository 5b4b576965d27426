from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, models, pre_tokenizers

import polyseme.text.stretches as module
from polyseme.text.stretches import Cutter, Index, Joins, Table
from polyseme.text.tokenizer import Tokenizer
from polyseme.text.utf16 import Text, units_of
from polyseme.text.vocabulary import TokenizerConfig, stages

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
def test_stretches_give_the_tokens_of_the_whole(tokenizer, texts):
    texts = [text.encode("utf-8", "replace").decode() for text in texts]
    text = Text.of(texts)
    cutter = Cutter.of(tokenizer)
    assume(cutter.suits(text))
    starts, ends = cutter.cut(text)
    assert np.all(ends > starts) and np.all(starts[1:] >= ends[:-1])
    pieces = text.pieces(starts, ends)
    firsts = np.searchsorted(starts, text.bounds)
    for number, sentence in enumerate(texts):
        own = pieces[firsts[number] : firsts[number + 1]]
        assert [token for piece in own for token in ids(tokenizer, piece)] == ids(tokenizer, sentence)


@settings(max_examples=100)
@given(sentences)
def test_a_table_gives_what_the_library_gives(tokenizer, texts):
    texts = [text.encode("utf-8", "replace").decode() for text in texts]
    table = Table.of(tokenizer)
    assume(table.cutter.suits(Text.of(texts)))
    for _ in range(2):  # once new and once known
        table.pause = 0
        tokens, lengths = table.encode(Text.of(texts))
        assert [row.tolist() for row in np.split(tokens, np.cumsum(lengths)[:-1])] == [
            ids(tokenizer, text) for text in texts
        ]


def plainly_cut(cutter, text):
    """Where a text may be cut, place by place."""
    kinds, bounds = cutter.kinds[text.units].tolist(), set(text.bounds.tolist())
    cuts = []
    for place in sorted({*range(len(kinds)), *bounds}):
        relation = module._APART
        if place not in bounds:
            relation = cutter.relations[8 * kinds[place - 1] + kinds[place]]
            if relation == module._BLANKS:
                relation = place + 1 not in bounds and kinds[place + 1] < module._SPACE
            elif relation == module._JOINED:
                first, second = text.units[place - 1 : place + 1].tolist()
                pair = cutter.joins.pairs[(first << 16 | second) * 0x9E3779B1 % 2**32 >> 12]
                relation = not (pair or cutter.joins.right[first] or cutter.joins.left[second])
        if relation:
            cuts.append(place)
    return [(a, b) for a, b in pairwise(cuts) if not (cutter.blank and kinds[a] >= module._SPACE)]


@given(sentences)
def test_compiled_loops_do_what_they_mean(tokenizer, texts):
    text, cutter = Text.of(texts), Cutter.of(tokenizer)
    starts, ends = cutter.cut(text)
    assert list(zip(starts.tolist(), ends.tolist(), strict=True)) == plainly_cut(cutter, text)
    index, known = Index(), {}
    for _ in range(2):
        rows, fresh = index.find(text, starts, ends)
        wanted, new = [], []
        for number, piece in enumerate(text.pieces(starts, ends)):
            short = len(piece.encode("utf-16-le")) <= 2 * module.LONGEST
            if not short or piece not in known:
                known[piece if short else len(known)] = len(known)
                new.append(number)
            wanted.append(known[piece] if short else len(known) - 1)
        assert rows.tolist() == wanted and fresh.tolist() == new
        assert index.num_rows == len(known)


@pytest.mark.parametrize("vocab_size", [300, 400, 500, 700])
def test_runs_of_ideographs_are_cut_where_no_token_reaches_across(vocab_size):
    # A small vocabulary has tokens that end inside a character.
    tokenizer = train("byte-bpe", "gpt2", vocab_size=vocab_size)
    letters = sorted({letter for letter in "".join(TEXTS) if "一" <= letter <= "鿿"})
    draw = np.random.default_rng(0)
    text = "".join(draw.choice([*letters, "丁", "鼠"], 3_000))
    found = Text.of([text])
    starts, ends = Cutter.of(tokenizer).cut(found)
    assert len(starts) > 100
    assert [token for piece in found.pieces(starts, ends) for token in ids(tokenizer, piece)] == ids(tokenizer, text)


def test_joins_know_tokens_that_begin_or_end_inside_a_character():
    def pieces(text, *tokens):
        found = Text.of([text])
        return found.pieces(*Cutter.of_bytes([], Joins(tokens)).cut(found))

    middle, country = "中".encode(), "国".encode()
    assert pieces("中国") == ["中", "国"]
    for token in (middle + country, middle[1:] + country, middle + country[:1], middle[2:] + country[:2]):
        assert pieces("中国", b"a", token) == ["中国"]
    assert pieces("国中", middle + country) == ["国", "中"]


def test_letters_marks_and_white_space_are_those_of_the_library():
    split = pre_tokenizers.ByteLevel(add_prefix_space=False).pre_tokenize_str

    def spans(text):
        return [span for _, span in split(text)]

    for unit in np.flatnonzero(units_of(module._LETTERS + module._OLD_IDEOGRAPHS)):
        assert spans(f"a{chr(unit)}a") == [(0, 3)], hex(unit)
    bert = stages(TokenizerConfig(), models.WordPiece({"a": 0}, unk_token="a"))
    for unit in np.flatnonzero(units_of(module._MARKS)):
        mark = chr(unit)
        assert spans(f"a{mark}-1") == [(0, 1), (1, 3), (3, 4)], hex(unit)
        assert bert.normalizer.normalize_str(mark) == mark
        assert [piece for piece, _ in bert.pre_tokenizer.pre_tokenize_str(f"a{mark}b")] == ["a", mark, "b"]
    for unit in np.flatnonzero(units_of(module._WHITE_SPACE)):
        mark = chr(unit)
        assert spans(f"a{mark}{mark}") == [(0, 1), (1, 3)], hex(unit)
        assert spans(f"a{mark}{mark}b")[:2] == [(0, 1), (1, 2)], hex(unit)


@pytest.mark.parametrize("setting", [("NUM_ROWS", 64), ("NUM_PROBES", 1)])
def test_small_tables_and_crowded_places_do_no_harm(tokenizer, monkeypatch, setting):
    monkeypatch.setattr(Index, *setting)
    table = Table.of(tokenizer)
    for number in range(60):
        texts = [f"word{number % 7} {number}{'long' * 5} a\0 a", f"数{chr(0x4E00 + number)}学, don't {number % 5}"]
        table.pause = 0
        tokens, lengths = table.encode(Text.of(texts))
        assert tokens.tolist() == [token for text in texts for token in ids(tokenizer, text)]
        assert lengths.tolist() == [len(ids(tokenizer, text)) for text in texts]


def test_words_are_told_apart_by_every_unit_and_their_number(tokenizer):
    words = ["a" * length for length in range(1, 40)] + [
        "a" * 14 + "b",
        "a" * 15 + "b",
        "a" * 13 + "\0",
        "a\0\0",
        "\0a",
    ]
    table = Table.of(tokenizer)
    for texts in (words, words[::-1]):
        tokens, _ = table.encode(Text.of(texts))
        assert tokens.tolist() == [token for text in texts for token in ids(tokenizer, text)]
        table.pause = 0


def test_texts_with_added_tokens_are_left_to_the_library(tokenizer):
    added = next(iter(tokenizer.backend.get_added_tokens_decoder().values()), None)
    if added is None:
        pytest.skip("this kind has none")
    table = Table.of(tokenizer)
    assert table.encode(Text.of(["a word"])) is not None
    table.pause = 0
    assert table.encode(Text.of(["a word", f"and{added.content}more"])) is None


def test_added_tokens_that_cannot_be_looked_for_forbid_cutting():
    bert = train("wordpiece", "bert")
    assert Table.of(bert) is not None
    bert.backend.add_tokens([AddedToken("new-york", normalized=True)])
    assert Table.of(Tokenizer(bert.backend, bert.config, bert.specials)) is None


def test_text_that_never_repeats_goes_to_the_library_for_a_while():
    bert = train("wordpiece", "bert")
    table = Table.of(bert)
    fresh = Text.of([" ".join(f"w{number}x{number * 7919}" for number in range(200))])
    assert table.encode(fresh) is not None
    assert [table.encode(fresh) is None for _ in range(20)] == [True] * 19 + [False]


def test_unigrams_are_not_cut():
    assert Table.of(train("unigram", "bert")) is None
