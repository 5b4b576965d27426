from itertools import pairwise

import numpy as np
import pytest

from polyseme.corpora.corpus import Corpus
from polyseme.datasets.token_store import TokenStore
from polyseme.static_embeddings.phrases import Phrases, merge_phrases, score_bigrams
from polyseme.tokenization.config import TokenizerConfig
from polyseme.tokenization.tokenizer import Tokenizer

WORDS = ["new", "york", "times", "the", "a", "city"]


def ids(*sentences):
    rows = [[WORDS.index(word) for word in sentence.split()] for sentence in sentences]
    return np.concatenate(rows).astype(np.uint16), np.cumsum([0, *map(len, rows)])


def sentences_of(phrased):
    names = phrased.names(WORDS)
    words = [names[token] for token in phrased.tokens]
    return [" ".join(words[begin:end]) for begin, end in pairwise(phrased.bounds)]


ALL = np.ones(6, bool)


def test_score_by_hand():
    # new 3, york 2, of 8 words; twice together: (2 - 1) / (3 · 2) · 8.
    tokens, bounds = ids("new york the", "a new york city", "new")
    scores = score_bigrams(tokens, bounds, ALL, 1).toarray()
    assert scores[0, 1] == pytest.approx(8 / 6)
    assert np.count_nonzero(scores) == 1, "bigrams with at most min_count occurrences have no score"
    scores = score_bigrams(tokens, bounds, ALL, 0).toarray()
    assert scores[0, 1] == pytest.approx(2 / 6 * 8)
    assert scores[3, 4] == 0, "bigrams do not cross sentences"
    assert scores[1, 5] == pytest.approx(1 / 2 * 8)


def test_bigrams_become_phrases():
    tokens, bounds = ids("the new york times", "a new york city", "new a york", "york new")
    phrased = merge_phrases(tokens, bounds, is_word=ALL, min_count=1, thresholds=[0.5])
    assert sentences_of(phrased) == ["the new_york times", "a new_york city", "new a york", "york new"]
    assert phrased.pairs.tolist() == [[0, 1]]


def test_second_pass_finds_longer_phrases():
    # new and york: 4 / (5 · 5) · 28; york and times: 2 / (5 · 5) · 28; the and new: 2 / (7 · 5) · 28.
    # Then new_york and times: 2 / (5 · 5) · 23; the and new_york: 2 / (7 · 5) · 23.
    rest = ["the a", "the city", "the a", "times the", "times a"]
    tokens, bounds = ids(*["the new york times"] * 3, *["a new york"] * 2, *rest)
    once = merge_phrases(tokens, bounds, is_word=ALL, min_count=1, thresholds=[3])
    twice = merge_phrases(tokens, bounds, is_word=ALL, min_count=1, thresholds=[3, 1.5])
    assert sentences_of(once) == ["the new_york times"] * 3 + ["a new_york"] * 2 + rest
    assert sentences_of(twice) == ["the new_york_times"] * 3 + ["a new_york"] * 2 + rest
    assert twice.names(WORDS)[6:] == ["new_york", "new_york_times"]


def test_phrases_do_not_overlap():
    tokens, bounds = ids(*["new york times city"] * 4)
    phrased = merge_phrases(tokens, bounds, is_word=ALL, min_count=0, thresholds=[0])
    assert set(sentences_of(phrased)) == {"new_york times_city"}


def test_special_tokens_are_never_merged():
    tokens, bounds = ids(*["new york"] * 4)
    phrased = merge_phrases(tokens, bounds, is_word=np.arange(6) != 1, min_count=0, thresholds=[0])
    assert set(sentences_of(phrased)) == {"new york"}


def test_merging_preserves_all_words():
    rng = np.random.default_rng(0)
    tokens, bounds = rng.zipf(1.5, 2000) % 6, np.array([0, 7, 7, 900, 2000])
    phrased = merge_phrases(tokens.astype(np.uint16), bounds, is_word=ALL, min_count=2, thresholds=[0.9, 0.9])
    names = phrased.names(WORDS)
    assert len(phrased.tokens) < 2000
    assert [WORDS.index(word) for token in phrased.tokens for word in names[token].split("_")] == tokens.tolist()
    for index, bound in enumerate(bounds):
        assert sum(len(names[token].split("_")) for token in phrased.tokens[: phrased.bounds[index]]) == bound


@pytest.fixture
def corpus(tmp_path):
    """Sentences of random words, every third with a name."""
    rng = np.random.default_rng(0)
    documents = []
    for number in range(300):
        words = list(
            rng.choice(["The", "city", "of", "a", "river", "and", "naïve", "old", "small", "bank", "people", "see"], 8)
        )
        if number % 3 == 0:
            words[int(rng.integers(8))] = ["“New York”", "new\nYork", "NEW  York Times"][number // 3 % 3]
        documents.append(" ".join(words) + (" new, York!" if number % 10 == 0 else "."))
    (tmp_path / "text.txt").write_text("\n\n".join(documents))
    return Corpus(tmp_path / "text.txt")


def test_merging_changes_nothing_but_phrases(corpus):
    found = Phrases.detect(corpus, min_count=5, thresholds=[5, 5])
    assert "new_york" in {phrase.name for phrase in found.ranked()}
    before = list(corpus)
    after = ["".join(map(found.merge, corpus.split_document(document))) for document in before]
    # A line break ends a sentence, and phrases do not cross sentences.
    for index, name in enumerate(("“New_York”", "new\nYork", "NEW_York_Times")):
        assert name in after[3 * index]
    for old, new in zip(before, after, strict=True):
        assert new.replace("_", " ").split() == old.split() and "city_" not in new and "new,_York" not in new


def test_merged_phrases_match_their_counts(corpus):
    for thresholds in ([1], [3, 1], [2, 0.5, 0.5]):
        found = Phrases.detect(corpus, min_count=2, thresholds=thresholds)
        phrased = "".join(found.merge(sentence) for document in corpus for sentence in corpus.split_document(document))
        assert phrased.count("_") == sum(phrase.count * phrase.name.count("_") for phrase in found.ranked()) > 100


def test_chinese_words_become_phrases(tmp_path):
    pytest.importorskip("rjieba")
    sentences = ["我们研究人工智能方法。", "他们人工种植水稻。", "智能手机很好。", "人工智能 2020 年很好。"]
    (tmp_path / "text.txt").write_text("\n\n".join(sentences * 10))
    corpus = Corpus(tmp_path / "text.txt")
    found = Phrases.detect(corpus, min_count=1, thresholds=[2])
    phrased = [found.merge(document) for document in corpus][:4]
    assert "_" in "".join(phrased)
    assert ["".join(text.replace("_", "").split()) for text in phrased] == ["".join(text.split()) for text in sentences]
    for text in phrased:
        words = [word for word in text.split() if "_" in word]
        assert set(words) <= set(found.tokenizer.segmentation.segment(text).split()), (
            "a phrase is one word for the tokenizer"
        )


def test_word_tokenizer_keeps_phrases():
    text = "I saw new_york_times, _italics_ and __init__ of a_b__c in 人工_智能, x_! _ New_York."
    words = "i saw new_york_times , _ italics _ and _ _ init _ _ of a_b _ _ c in 人工_智能 , x _ ! _ new_york ."
    for segmenter in ("none", "auto"):
        config = TokenizerConfig(kind="word", specials="plain", min_count=1, segmenter=segmenter)
        expected = words if segmenter == "auto" else words.replace("人工_智能", "人 工 _ 智 能")
        tokenizer = Tokenizer.train(config, [text], vocab_size=100)
        assert tokenizer.encode(text, specials=False).tokens == expected.split()
        store = TokenStore.from_documents([text], tokenizer)
        assert [tokenizer.token(int(id)) for id in store.tokens] == [*expected.split(), "</s>"]
