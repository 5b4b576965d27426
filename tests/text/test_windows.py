"""Passages in windows: every token is somewhere, and answers keep their characters."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from polyseme.errors import ConfigError
from polyseme.text.tokenizer import Template, Tokenizer
from polyseme.text.vocabulary import TokenizerConfig
from polyseme.text.windows import Answers, Windows

KINDS = ["word", "char", "wordpiece", "bpe", "byte-bpe", "unigram"]
PASSAGE = "The quick brown fox jumps over the lazy dog."
TEXTS = [
    PASSAGE,
    "Café naïve façade: 3.14, 92000 and 1,000,000 bytes! 😊",
    "数学是研究数量、结构、变化以及空间等概念的一门学科。数学家研究数学。",
    "我在银行工作，河岸上有一家银行。Apple 卖苹果手机。",
] * 4


def train(kind, specials="bert"):
    config = TokenizerConfig(kind=kind, specials=specials, min_count=1)
    return Tokenizer.train(config, TEXTS, vocab_size=400)


@pytest.fixture(scope="module", params=KINDS)
def tokenizer(request):
    return train(request.param)


@pytest.fixture(scope="module")
def bert():
    return train("wordpiece")


def cut(tokenizer, question, passage, template=None, **options):
    asked, tokens = tokenizer.encode_batch([question, passage], specials=False)
    return Windows.of(asked, tokens, passage, template or tokenizer.pair_template, **options)


def said(windows, answer):
    """What a model says that is sure of an answer wherever a row has it, and else of nothing much."""
    starts, ends = ([np.zeros(len(row.ids)) for row in windows.rows] for _ in range(2))
    for number, (start, end) in enumerate(windows.places(answer)):
        starts[number][start] += 1
        ends[number][end] += 1
    return windows.answers(starts, ends, max_tokens=1000)


def test_rows(bert):
    windows = cut(bert, "the dog", PASSAGE, max_length=9, stride=2)
    names = [[bert.token(id) for id in row.ids] for row in windows.rows]
    assert names == [
        ["[CLS]", "the", "dog", "[SEP]", *words, "[SEP]"]
        for words in (
            ["the", "quick", "brown", "fox"],
            ["brown", "fox", "jumps", "over"],
            ["jumps", "over", "the", "lazy"],
            ["the", "lazy", "dog", "."],
        )
    ]
    assert all(row.segments == [0, 0, 0, 0, 1, 1, 1, 1, 1] for row in windows.rows)
    assert [list(row.tokens) for row in windows.rows] == [[0, 1, 2, 3], [2, 3, 4, 5], [4, 5, 6, 7], [6, 7, 8, 9]]
    # Each but the outermost has one neighbour at least.
    assert [list(row.own) for row in windows.rows] == [[0, 1, 2], [3, 4], [5, 6], [7, 8, 9]]
    assert windows.places((10, 19)) == [(6, 7), (4, 5), (0, 0), (0, 0)]  # brown fox
    assert windows.places((12, 17)) == windows.places((10, 19))  # own f
    assert windows.places((4, 25)) == windows.places((9, 10)) == windows.places(None) == [(0, 0)] * 4
    assert said(windows, (26, 30)).best[0].text == "over"


def test_tokens_belong_rather_to_the_longer_row(bert):
    first, second = cut(bert, "", "dog " * 330, max_length=253, stride=200).rows
    assert (len(first.tokens), len(second.tokens)) == (250, 130)
    # Token 225 has 24 neighbours on its poorer side in the first row and 25 in the second: 24 + 2.5 > 25 + 1.3.
    assert (first.own, second.own) == (range(226), range(226, 330))


def test_one_row_is_enough(bert):
    windows = cut(bert, "the dog", PASSAGE, max_length=64, stride=2)
    assert [row.ids for row in windows.rows] == [bert.encode("the dog", PASSAGE).ids]
    assert [row.segments for row in windows.rows] == [bert.encode("the dog", PASSAGE).segments]
    assert list(windows.rows[0].own) == list(windows.rows[0].tokens) == list(range(10))


def test_frames_of_other_families(bert):
    roberta = train("byte-bpe", "roberta")
    (row,) = cut(roberta, "数学", "The dog", max_length=64, stride=2).rows
    assert row.ids == roberta.encode("数学", "The dog").ids
    assert row.first == len(roberta.encode("数学", "").ids) - 1
    assert row.segments == [0] * len(row.ids)
    # GPT: what reads from left to right knows at the end whether there is an answer.
    template = Template([[(1, 0)], [(2, 0)], [(3, 0)]], [0, 0])
    first, second = cut(bert, "fox", "the lazy dog", template, max_length=6, stride=1, null=-1).rows
    assert (first.ids[0], first.ids[2], first.ids[5], first.null, first.first) == (1, 2, 3, 5, 3)
    assert list(second.tokens) == [1, 2]
    # Static vectors: nothing stands around the texts.
    (row,) = cut(bert, "fox", "the dog", Template.none(True), max_length=6, stride=1).rows
    assert row.ids == bert.encode("fox the dog", specials=False).ids and (row.null, row.first) == (0, 1)


def test_long_questions_leave_half_of_the_room(bert):
    (row,) = cut(bert, "the dog " * 50, "fox", max_length=13, stride=5).rows
    assert [bert.token(id) for id in row.ids] == ["[CLS]", *["the", "dog"] * 2, "the", "[SEP]", "fox", "[SEP]"]
    (row,) = cut(bert, "the dog " * 50, "fox", max_length=200, stride=5, longest_question=7).rows
    assert row.first == 9
    with pytest.raises(ConfigError, match="max_length: 3 tokens leave no room for a passage; give more"):
        cut(bert, "the dog", "fox", max_length=3, stride=5)


@pytest.mark.parametrize("passage", ["", " \n\t "])
def test_a_passage_with_nothing_in_it(tokenizer, passage):
    template = Template([[(1, 0)], [(2, 0)], [(3, 0)]], [0, 0])
    windows = cut(tokenizer, "the dog", passage, template, max_length=16, stride=5)
    (row,) = windows.rows
    assert windows.places((0, 1)) == [(0, 0)]
    answers = windows.answers([np.ones(len(row.ids))], [np.ones(len(row.ids))])
    assert answers == Answers(best=[], null=2.0)
    assert answers.margin == -math.inf and answers.choose() is None


@pytest.mark.parametrize("kind", KINDS)
def test_answers_have_no_space_around_and_all_their_accents(kind):
    windows = cut(train(kind), "dog", "a  cafe\u0301, 数学 x", max_length=64, stride=8)
    assert said(windows, (3, 8)).best[0].text == "cafe\u0301"
    assert said(windows, (1, 11)).best[0].text in ("cafe\u0301, 数", "cafe\u0301, 数学")
    pieces = [windows.passage[start:end] for start, end in windows.offsets]
    assert [piece.strip() for piece in pieces] == pieces


words = st.sampled_from(
    ["The", "fox", "Café", "cafe\u0301", "数学", "，", "龘", "92000", "ﬁsh", "½", "😊", " ", "\n", "[SEP]"]
)
passages = st.lists(words, max_size=40).map("".join) | st.lists(words, max_size=40).map(" ".join) | st.text(max_size=40)


@settings(max_examples=60)
@given(
    question=passages,
    passage=passages,
    max_length=st.integers(4, 40),
    stride=st.integers(1, 40),
    drawn=st.tuples(st.floats(0, 1), st.floats(0, 1)),
)
def test_answers_come_back(tokenizer, question, passage, max_length, stride, drawn):
    template = Template([[(1, 0)], [(2, 0)], [(3, 0)]], [0, 1])
    asked, tokens = tokenizer.encode_batch([question, passage], specials=False)
    windows = Windows.of(asked, tokens, passage, template, max_length=max_length, stride=stride)

    num_asked = min(len(asked.ids), (max_length - 3) // 2)
    seen = set()
    for row in windows.rows:
        assert len(row.ids) == len(row.segments) <= max_length
        inside = [tokens.ids[number] for number in row.tokens]
        assert row.ids == [1, *asked.ids[:num_asked], 2, *inside, 3]
        assert row.ids[row.first : row.first + len(inside)] == inside and row.ids[row.null] == 1
        seen.update(row.tokens)
    assert seen == set(range(len(tokens.ids)))
    owned = [number for row in windows.rows for number in row.own]
    assert owned == list(range(len(tokens.ids)))
    for number in owned:
        at = [row for row in windows.rows if number in row.tokens]
        context = [min(number - row.tokens.start, row.tokens.stop - 1 - number) + 0.01 * len(row.tokens) for row in at]
        assert number in at[context.index(max(context))].own

    real = [number for number, (start, end) in enumerate(windows.offsets) if start < end]
    assume(real)
    first, last = sorted(real[int(part * (len(real) - 1))] for part in drawn)
    answer = windows.offsets[first][0], windows.offsets[last][1]
    # A character may be several tokens, of which an answer has all.
    first = next(number for number in real if windows.offsets[number][0] == answer[0])
    last = next(number for number in reversed(real) if windows.offsets[number][1] == answer[1])
    places = windows.places(answer)
    for row, (start, end) in zip(windows.rows, places, strict=True):
        if first in row.tokens and last in row.tokens:
            offset = row.tokens.start - row.first
            assert (start + offset, end + offset) == (first, last)
            assert (windows.offsets[start + offset][0], windows.offsets[end + offset][1]) == answer
        else:
            assert start == end == row.null
    room = max_length - 3 - num_asked
    if last - first + 1 <= room - min(stride, room) + 1:
        assert any(place != (row.null, row.null) for row, place in zip(windows.rows, places, strict=True))
    owner = next(row for row in windows.rows if first in row.own)
    if last in owner.tokens:
        best = said(windows, answer).best[0]
        assert (best.start, best.end, best.text, best.score) == (*answer, passage[slice(*answer)], 2)


@settings(max_examples=60)
@given(
    passage=passages,
    max_length=st.integers(5, 20),
    stride=st.integers(1, 12),
    max_tokens=st.integers(1, 8),
    seed=st.integers(0, 99),
)
def test_the_best_answers_are_found(tokenizer, passage, max_length, stride, max_tokens, seed):
    template = Template([[(1, 0)], [], []], [0, 1])
    windows = cut(tokenizer, "", passage, template, max_length=max_length, stride=stride)
    chance = np.random.default_rng(seed)
    starts, ends = ([chance.normal(size=len(row.ids)).astype(np.float32) for row in windows.rows] for _ in range(2))
    found = {}
    for row, start, end in zip(windows.rows, starts, ends, strict=True):
        for first, last in itertools.product(row.own, row.tokens):
            span = windows.offsets[first][0], windows.offsets[last][1]
            empty = any(windows.offsets[number][0] == windows.offsets[number][1] for number in (first, last))
            if first <= last < first + max_tokens and not empty:
                places = first - row.tokens.start + row.first, last - row.tokens.start + row.first
                score = float(start[places[0]]) + float(end[places[1]])
                found[span] = max(score, found.get(span, -math.inf))
    answers = windows.answers(starts, ends, num_best=5, max_tokens=max_tokens)
    expected = sorted(((score, span) for span, score in found.items()), reverse=True)[:5]
    assert [(answer.score, (answer.start, answer.end)) for answer in answers.best] == expected
    assert all(answer.text == passage[answer.start : answer.end] for answer in answers.best)
    assert answers.null == min(float(start[0]) + float(end[0]) for start, end in zip(starts, ends, strict=True))


def test_questions_without_an_answer(bert):
    windows = cut(bert, "dog", "the quick fox jumps", max_length=6, stride=2)
    starts, ends = ([np.zeros(len(row.ids)) for row in windows.rows] for _ in range(2))
    starts[0][0], starts[1][0] = 5.0, 2.0  # the second row saw something
    starts[1][windows.rows[1].first] = ends[1][windows.rows[1].first] = 0.75
    answers = windows.answers(starts, ends)
    assert (answers.best[0].text, answers.null, answers.margin) == ("fox", 2.0, -0.5)
    assert answers.choose() == answers.choose(-0.75) == answers.best[0]
    assert answers.choose(-0.5) is answers.choose(0.0) is None
