from hypothesis import given
from hypothesis import strategies as st

from polyseme.text.spacing import Spacing
from polyseme.text.utf16 import Text


def in_pairs():
    """Spacing by a segmenter that takes every two ideographs for a word."""
    spacing = Spacing("jieba")
    spacing.__dict__["_cut"] = lambda run: [run[place : place + 2] for place in range(0, len(run), 2)]
    return spacing


@given(st.lists(st.text(st.sampled_from("aé 。😊中国数学\uf900\ufffd"))))
def test_all_sentences_are_spaced_as_each_is(sentences):
    spacing = in_pairs()
    found, wanted = spacing.space_all(Text.of(sentences)), Text.of(list(map(spacing.space, sentences)))
    assert found.characters == wanted.characters
    for name in ("units", "bounds", "doubles"):
        assert getattr(found, name).tolist() == getattr(wanted, name).tolist()


def test_text_without_ideographs_stays_as_it_is():
    text = Text.of(["No ideographs", " here: é."])
    assert in_pairs().space_all(text) is text
    assert Spacing("none").space_all(Text.of(["中国"])).characters == "中国"
    assert in_pairs().space("a中国数b") == "a 中国 数 b"
