"""Evaluation items derived from a text."""

from polyseme.comparison.measure.corpus_items import WordIndex, make_pseudo_words, word_forms, word_order
from polyseme.datasets.town.generator import Town


def town_index(language="en", number=300):
    return WordIndex.of(Town(0).documents(number, language), most_characters=10**9)


def test_word_index():
    index = WordIndex.of(["The cat sat. A Cat ran!", "No dog here."], most_characters=1000)
    assert index.count("cat") == 2 and index.document_frequency["cat"] == 1 and index.count("bird") == 0
    assert [(one.text, one.word) for one in index.occurrences("cat", most=5)] == [
        ("The cat sat.", "cat"),
        ("A Cat ran!", "Cat"),
    ]
    assert WordIndex.of(["One two.", "Three four.", "Five six."], most_characters=10).num_documents == 2


def test_content_words():
    index = town_index()
    content = index.content_words(min_count=20, most=1000)
    assert {"bank", "river"} <= {*content}
    assert not {"the", "and", "was"} & {*content}
    assert "bank" not in index.content_words(min_count=20, most=9, bursty=True)


def test_pseudo_words_are_two_words_written_as_the_first():
    index = town_index()
    pseudo_words = make_pseudo_words(index, most=5, seed=0)
    assert len(pseudo_words) == 5
    for one in pseudo_words:
        first, second = one.name.split("/")
        for split in (one.train, one.test):
            senses = [occurrence.sense for occurrence in split]
            assert senses.count(first) == senses.count(second) >= 6
            assert {occurrence.word.lower() for occurrence in split} == {first}
    assert pseudo_words == make_pseudo_words(index, most=5, seed=0)


def test_word_order_pairs_swap_two_adjacent_words():
    for language in ("en", "zh"):
        pairs = word_order(town_index(language, 60), most=30, seed=0).pairs
        assert len(pairs) == 30
        for good, bad in pairs:
            assert good != bad and sorted(good) == sorted(bad) and len(good) == len(bad)
            assert good[0] == bad[0] and good[-1] == bad[-1]


def test_word_forms():
    text = " ".join(f"One {word} and two {word}s stood there." for word in ("cat", "dog", "tree", "house", "lamp")) * 5
    plain = " ".join("Nobody was there at all." for _ in range(50))
    words = word_forms(WordIndex.of([text, *[plain] * 30], most_characters=10**9), seed=0)
    assert ["cat", "cats", "dog", "dogs"] in words.sections[""] and len(words.sections[""]) == 20
    assert word_forms(WordIndex.of([plain] * 30, most_characters=10**9), seed=0) is None
