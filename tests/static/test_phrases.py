from itertools import pairwise

import numpy as np
import pytest

from polyseme.static.phrases import join_phrases, score_pairs

WORDS = ["new", "york", "times", "the", "a", "city"]


def ids(*sentences):
    rows = [[WORDS.index(word) for word in sentence.split()] for sentence in sentences]
    return np.concatenate(rows).astype(np.uint16), np.cumsum([0, *map(len, rows)])


def spelled(joined):
    names = joined.names(WORDS)
    words = [names[token] for token in joined.tokens]
    return [" ".join(words[begin:end]) for begin, end in pairwise(joined.bounds)]


ALL = np.ones(6, bool)


def test_the_score_by_hand():
    # new 3, york 2, of 8 words; twice together: (2 - 1) / (3 · 2) · 8.
    tokens, bounds = ids("new york the", "a new york city", "new")
    scores = score_pairs(tokens, bounds, ALL, 1).toarray()
    assert scores[0, 1] == pytest.approx(8 / 6)
    assert np.count_nonzero(scores) == 1, "what is met once is not above the least count"
    scores = score_pairs(tokens, bounds, ALL, 0).toarray()
    assert scores[0, 1] == pytest.approx(2 / 6 * 8)
    assert scores[3, 4] == 0, "they stand in two sentences"
    assert scores[1, 5] == pytest.approx(1 / 2 * 8)


def test_pairs_become_words():
    tokens, bounds = ids("the new york times", "a new york city", "new a york", "york new")
    joined = join_phrases(tokens, bounds, words=ALL, min_count=1, thresholds=[0.5])
    assert spelled(joined) == ["the new_york times", "a new_york city", "new a york", "york new"]
    assert joined.pairs.tolist() == [[0, 1]]


def test_a_second_pass_finds_longer_phrases():
    # new and york: 4 / (5 · 5) · 28; york and times: 2 / (5 · 5) · 28; the and new: 2 / (7 · 5) · 28.
    # Then new_york and times: 2 / (5 · 5) · 23; the and new_york: 2 / (7 · 5) · 23.
    rest = ["the a", "the city", "the a", "times the", "times a"]
    tokens, bounds = ids(*["the new york times"] * 3, *["a new york"] * 2, *rest)
    once = join_phrases(tokens, bounds, words=ALL, min_count=1, thresholds=[3])
    twice = join_phrases(tokens, bounds, words=ALL, min_count=1, thresholds=[3, 1.5])
    assert spelled(once) == ["the new_york times"] * 3 + ["a new_york"] * 2 + rest
    assert spelled(twice) == ["the new_york_times"] * 3 + ["a new_york"] * 2 + rest
    assert twice.names(WORDS)[6:] == ["new_york", "new_york_times"]


def test_the_second_word_of_a_phrase_begins_no_other():
    tokens, bounds = ids(*["new york times city"] * 4)
    joined = join_phrases(tokens, bounds, words=ALL, min_count=0, thresholds=[0])
    assert set(spelled(joined)) == {"new_york times_city"}


def test_what_is_no_word_is_never_joined():
    tokens, bounds = ids(*["new york"] * 4)
    joined = join_phrases(tokens, bounds, words=np.arange(6) != 1, min_count=0, thresholds=[0])
    assert set(spelled(joined)) == {"new york"}


def test_nothing_is_lost():
    chance = np.random.default_rng(0)
    tokens, bounds = chance.zipf(1.5, 2000) % 6, np.array([0, 7, 7, 900, 2000])
    joined = join_phrases(tokens.astype(np.uint16), bounds, words=ALL, min_count=2, thresholds=[0.9, 0.9])
    names = joined.names(WORDS)
    assert len(joined.tokens) < 2000
    assert [WORDS.index(word) for token in joined.tokens for word in names[token].split("_")] == tokens.tolist()
    for place, bound in enumerate(bounds):
        assert sum(len(names[token].split("_")) for token in joined.tokens[: joined.bounds[place]]) == bound
