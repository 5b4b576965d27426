"""Windows cover the passage, and answers keep their character offsets."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from polyseme.datasets.qa_windows import PassageWindows, PredictedAnswers
from polyseme.errors import ConfigError
from polyseme.tokenization.config import TokenizerConfig
from polyseme.tokenization.templates import Template
from polyseme.tokenization.tokenizer import Tokenizer

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


def make_windows(tokenizer, question, passage, template=None, **options):
    question_tokens, tokens = tokenizer.encode_batch([question, passage], specials=False)
    return PassageWindows.of(question_tokens, tokens, passage, template or tokenizer.pair_template, **options)


def decode_target(windows, answer):
    """Decode scores that are 1 at the target positions of an answer and 0 elsewhere."""
    starts, ends = ([np.zeros(len(window.ids)) for window in windows.windows] for _ in range(2))
    for number, (start, end) in enumerate(windows.target_positions(answer)):
        starts[number][start] += 1
        ends[number][end] += 1
    return windows.decode(starts, ends, max_tokens=1000)


def test_windows(bert):
    windows = make_windows(bert, "the dog", PASSAGE, max_length=9, stride=2)
    names = [[bert.token(id) for id in window.ids] for window in windows.windows]
    assert names == [
        ["[CLS]", "the", "dog", "[SEP]", *words, "[SEP]"]
        for words in (
            ["the", "quick", "brown", "fox"],
            ["brown", "fox", "jumps", "over"],
            ["jumps", "over", "the", "lazy"],
            ["the", "lazy", "dog", "."],
        )
    ]
    assert all(window.segments == [0, 0, 0, 0, 1, 1, 1, 1, 1] for window in windows.windows)
    assert [list(window.passage_tokens) for window in windows.windows] == [
        [0, 1, 2, 3],
        [2, 3, 4, 5],
        [4, 5, 6, 7],
        [6, 7, 8, 9],
    ]
    # Each token but the outermost has a neighbour on either side.
    assert [list(window.scored_tokens) for window in windows.windows] == [[0, 1, 2], [3, 4], [5, 6], [7, 8, 9]]
    assert windows.target_positions((10, 19)) == [(6, 7), (4, 5), (0, 0), (0, 0)]  # brown fox
    assert windows.target_positions((12, 17)) == windows.target_positions((10, 19))  # within words
    assert (
        windows.target_positions((4, 25))
        == windows.target_positions((9, 10))
        == windows.target_positions(None)
        == [(0, 0)] * 4
    )
    assert decode_target(windows, (26, 30)).best[0].text == "over"


def test_longer_windows_win_ties(bert):
    first, second = make_windows(bert, "", "dog " * 330, max_length=253, stride=200).windows
    assert (len(first.passage_tokens), len(second.passage_tokens)) == (250, 130)
    # Token 225 has 24 neighbours on its shorter side in the first window and 25 in the second: 24 + 2.5 > 25 + 1.3.
    assert (first.scored_tokens, second.scored_tokens) == (range(226), range(226, 330))


def test_short_passages_have_one_window(bert):
    windows = make_windows(bert, "the dog", PASSAGE, max_length=64, stride=2)
    assert [window.ids for window in windows.windows] == [bert.encode("the dog", PASSAGE).ids]
    assert [window.segments for window in windows.windows] == [bert.encode("the dog", PASSAGE).segments]
    assert list(windows.windows[0].scored_tokens) == list(windows.windows[0].passage_tokens) == list(range(10))


def test_templates_of_other_families(bert):
    roberta = train("byte-bpe", "roberta")
    (window,) = make_windows(roberta, "数学", "The dog", max_length=64, stride=2).windows
    assert window.ids == roberta.encode("数学", "The dog").ids
    assert window.passage_start == len(roberta.encode("数学", "").ids) - 1
    assert window.segments == [0] * len(window.ids)
    # GPT: only the last position of a causal model sees the whole input.
    template = Template([[(1, 0)], [(2, 0)], [(3, 0)]], [0, 0])
    first, second = make_windows(
        bert, "fox", "the lazy dog", template, max_length=6, stride=1, null_position=-1
    ).windows
    assert (first.ids[0], first.ids[2], first.ids[5], first.null_position, first.passage_start) == (1, 2, 3, 5, 3)
    assert list(second.passage_tokens) == [1, 2]
    # Static embeddings: no special tokens.
    (window,) = make_windows(bert, "fox", "the dog", Template.none(True), max_length=6, stride=1).windows
    assert window.ids == bert.encode("fox the dog", specials=False).ids and (
        window.null_position,
        window.passage_start,
    ) == (0, 1)


def test_long_questions_are_truncated_to_half_of_the_window(bert):
    (window,) = make_windows(bert, "the dog " * 50, "fox", max_length=13, stride=5).windows
    assert [bert.token(id) for id in window.ids] == ["[CLS]", *["the", "dog"] * 2, "the", "[SEP]", "fox", "[SEP]"]
    (window,) = make_windows(bert, "the dog " * 50, "fox", max_length=200, stride=5, longest_question=7).windows
    assert window.passage_start == 9
    with pytest.raises(ConfigError, match="max_length: 3 tokens leave no room for a passage; give more"):
        make_windows(bert, "the dog", "fox", max_length=3, stride=5)


@pytest.mark.parametrize("passage", ["", " \n\t "])
def test_empty_passages(tokenizer, passage):
    template = Template([[(1, 0)], [(2, 0)], [(3, 0)]], [0, 0])
    windows = make_windows(tokenizer, "the dog", passage, template, max_length=16, stride=5)
    (window,) = windows.windows
    assert windows.target_positions((0, 1)) == [(0, 0)]
    answers = windows.decode([np.ones(len(window.ids))], [np.ones(len(window.ids))])
    assert answers == PredictedAnswers(best=[], null_score=2.0)
    assert answers.margin == -math.inf and answers.choose() is None


@pytest.mark.parametrize("kind", KINDS)
def test_answers_are_trimmed_and_keep_their_accents(kind):
    windows = make_windows(train(kind), "dog", "a  cafe\u0301, 数学 x", max_length=64, stride=8)
    assert decode_target(windows, (3, 8)).best[0].text == "cafe\u0301"
    assert decode_target(windows, (1, 11)).best[0].text in ("cafe\u0301, 数", "cafe\u0301, 数学")
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
    span=st.tuples(st.floats(0, 1), st.floats(0, 1)),
)
def test_answers_round_trip(tokenizer, question, passage, max_length, stride, span):
    template = Template([[(1, 0)], [(2, 0)], [(3, 0)]], [0, 1])
    question_tokens, tokens = tokenizer.encode_batch([question, passage], specials=False)
    windows = PassageWindows.of(question_tokens, tokens, passage, template, max_length=max_length, stride=stride)

    num_question_tokens = min(len(question_tokens.ids), (max_length - 3) // 2)
    seen = set()
    for window in windows.windows:
        assert len(window.ids) == len(window.segments) <= max_length
        inside = [tokens.ids[number] for number in window.passage_tokens]
        assert window.ids == [1, *question_tokens.ids[:num_question_tokens], 2, *inside, 3]
        assert (
            window.ids[window.passage_start : window.passage_start + len(inside)] == inside
            and window.ids[window.null_position] == 1
        )
        seen.update(window.passage_tokens)
    assert seen == set(range(len(tokens.ids)))
    scored = [number for window in windows.windows for number in window.scored_tokens]
    assert scored == list(range(len(tokens.ids)))
    for number in scored:
        at = [window for window in windows.windows if number in window.passage_tokens]
        context = [
            min(number - window.passage_tokens.start, window.passage_tokens.stop - 1 - number)
            + 0.01 * len(window.passage_tokens)
            for window in at
        ]
        assert number in at[context.index(max(context))].scored_tokens

    real = [number for number, (start, end) in enumerate(windows.offsets) if start < end]
    assume(real)
    first, last = sorted(real[int(part * (len(real) - 1))] for part in span)
    answer = windows.offsets[first][0], windows.offsets[last][1]
    # An answer includes all tokens of its first and last character.
    first = next(number for number in real if windows.offsets[number][0] == answer[0])
    last = next(number for number in reversed(real) if windows.offsets[number][1] == answer[1])
    positions = windows.target_positions(answer)
    for window, (start, end) in zip(windows.windows, positions, strict=True):
        if first in window.passage_tokens and last in window.passage_tokens:
            offset = window.passage_tokens.start - window.passage_start
            assert (start + offset, end + offset) == (first, last)
            assert (windows.offsets[start + offset][0], windows.offsets[end + offset][1]) == answer
        else:
            assert start == end == window.null_position
    room = max_length - 3 - num_question_tokens
    if last - first + 1 <= room - min(stride, room) + 1:
        assert any(
            position != (window.null_position, window.null_position)
            for window, position in zip(windows.windows, positions, strict=True)
        )
    best_window = next(window for window in windows.windows if first in window.scored_tokens)
    if last in best_window.passage_tokens:
        best = decode_target(windows, answer).best[0]
        assert (best.start, best.end, best.text, best.score) == (*answer, passage[slice(*answer)], 2)


@settings(max_examples=60)
@given(
    passage=passages,
    max_length=st.integers(5, 20),
    stride=st.integers(1, 12),
    max_tokens=st.integers(1, 8),
    seed=st.integers(0, 99),
)
def test_decoding_finds_the_best_answers(tokenizer, passage, max_length, stride, max_tokens, seed):
    template = Template([[(1, 0)], [], []], [0, 1])
    windows = make_windows(tokenizer, "", passage, template, max_length=max_length, stride=stride)
    rng = np.random.default_rng(seed)
    starts, ends = (
        [rng.normal(size=len(window.ids)).astype(np.float32) for window in windows.windows] for _ in range(2)
    )
    found = {}
    for window, start, end in zip(windows.windows, starts, ends, strict=True):
        for first, last in itertools.product(window.scored_tokens, window.passage_tokens):
            span = windows.offsets[first][0], windows.offsets[last][1]
            empty = any(windows.offsets[number][0] == windows.offsets[number][1] for number in (first, last))
            if first <= last < first + max_tokens and not empty:
                positions = (
                    first - window.passage_tokens.start + window.passage_start,
                    last - window.passage_tokens.start + window.passage_start,
                )
                score = float(start[positions[0]]) + float(end[positions[1]])
                found[span] = max(score, found.get(span, -math.inf))
    answers = windows.decode(starts, ends, num_best=5, max_tokens=max_tokens)
    expected = sorted(((score, span) for span, score in found.items()), reverse=True)[:5]
    assert [(answer.score, (answer.start, answer.end)) for answer in answers.best] == expected
    assert all(answer.text == passage[answer.start : answer.end] for answer in answers.best)
    assert answers.null_score == min(float(start[0]) + float(end[0]) for start, end in zip(starts, ends, strict=True))


def test_questions_without_an_answer(bert):
    windows = make_windows(bert, "dog", "the quick fox jumps", max_length=6, stride=2)
    starts, ends = ([np.zeros(len(window.ids)) for window in windows.windows] for _ in range(2))
    starts[0][0], starts[1][0] = 5.0, 2.0  # the second window is less certain
    starts[1][windows.windows[1].passage_start] = ends[1][windows.windows[1].passage_start] = 0.75
    answers = windows.decode(starts, ends)
    assert (answers.best[0].text, answers.null_score, answers.margin) == ("fox", 2.0, -0.5)
    assert answers.choose() == answers.choose(-0.75) == answers.best[0]
    assert answers.choose(-0.5) is answers.choose(0.0) is None
