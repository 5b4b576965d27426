"""What a text itself can be asked."""

from polyseme.comparison.derived import Lexicon, pseudo_words, word_forms, word_order
from polyseme.text.town import Town


def lexicon(language="en", number=300):
    return Lexicon.of(Town(0).documents(number, language), most_characters=10**9)


def test_words_are_counted_where_they_stand():
    words = Lexicon.of(["The cat sat. A Cat ran!", "No dog here."], most_characters=1000)
    assert words.count("cat") == 2 and words.documents["cat"] == 1 and words.count("bird") == 0
    assert [(one.text, one.word) for one in words.occurrences("cat", most=5)] == [
        ("The cat sat.", "cat"),
        ("A Cat ran!", "Cat"),
    ]
    assert Lexicon.of(["One two.", "Three four.", "Five six."], most_characters=10).num_documents == 2


def test_content_words_are_those_of_some_documents():
    content = lexicon().content_words(least=20, most=1000)
    assert {"bank", "river"} <= {*content}
    assert not {"the", "and", "was"} & {*content} and "bank" not in lexicon().content_words(
        least=20, most=9, bursty=True
    )


def test_pseudo_words_are_two_words_written_as_one():
    words = lexicon()
    found = pseudo_words(words, most=5, seed=0)
    assert len(found) == 5
    for one in found:
        first, second = one.name.split("/")
        for side in (one.known, one.asked):
            senses = [occurrence.sense for occurrence in side]
            assert senses.count(first) == senses.count(second) >= 6
            assert {occurrence.word.lower() for occurrence in side} == {first}
    assert found == pseudo_words(words, most=5, seed=0)


def test_two_neighbours_are_swapped():
    for language in ("en", "zh"):
        pairs = word_order(lexicon(language, 60), most=30, seed=0).pairs
        assert len(pairs) == 30
        for good, bad in pairs:
            assert good != bad and sorted(good) == sorted(bad) and len(good) == len(bad)
            assert good[0] == bad[0] and good[-1] == bad[-1]


def test_forms_with_s():
    text = " ".join(f"One {word} and two {word}s stood there." for word in ("cat", "dog", "tree", "house", "lamp")) * 5
    plain = " ".join("Nobody was there at all." for _ in range(50))
    words = Lexicon.of([text, *[plain] * 30], most_characters=10**9)
    found = word_forms(words, seed=0)
    assert ["cat", "cats", "dog", "dogs"] in found.sections[""] and len(found.sections[""]) == 20
    assert word_forms(Lexicon.of([plain] * 30, most_characters=10**9), seed=0) is None
