import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyseme.text.sentences import LONGEST, split_sentences

texts = st.text(st.sampled_from("aA1 .!?…。！？\n\t\"'”」)é中文\u3000")) | st.text()


@given(texts)
def test_pieces_join_to_the_document(document):
    pieces = split_sentences(document)
    assert "".join(pieces) == document
    assert all(pieces)


@given(texts)
def test_no_piece_is_only_white_space_unless_all_is(document):
    if document.strip():
        assert all(piece.strip() for piece in split_sentences(document))
    else:
        assert len(split_sentences(document)) == bool(document)


@pytest.mark.parametrize(
    ("document", "pieces"),
    [
        ("One. Two!  Three?", ["One.", " Two!", "  Three?"]),
        ("Dr. Who met Mr. J. R. Smith. He left.", ["Dr. Who met Mr. J. R. Smith.", " He left."]),
        ("It is 3.14, e.g. pi. So what?", ["It is 3.14, e.g. pi.", " So what?"]),
        ("Wait... and see. Then go.", ["Wait... and see.", " Then go."]),
        ('"Yes." She left. (Really.) Fine.', ['"Yes."', " She left.", " (Really.)", " Fine."]),
        ("It was I. You knew.", ["It was I.", " You knew."]),
        ("你好。他说：“走！”我没走……后来呢？", ["你好。", "他说：“走！”", "我没走……", "后来呢？"]),
        ("I love 苹果。Apple is good! 你呢?我也是", ["I love 苹果。", "Apple is good!", " 你呢?", "我也是"]),
        ("a title\nthe text \n\n more", ["a title", "\nthe text", " \n\n more"]),
        ("the U.S. economy", ["the U.S. economy"]),
        ("cut.\nhere", ["cut.", "\nhere"]),
        ("end.  \n", ["end.  \n"]),
        ("\n begin", ["\n begin"]),
        ("", []),
    ],
)
def test_known_cases(document, pieces):
    assert split_sentences(document) == pieces


def test_what_is_longer_than_a_sentence_is_cut_at_white_space():
    document = "word " * 10_000
    pieces = split_sentences(document)
    assert "".join(pieces) == document
    assert max(map(len, pieces)) <= LONGEST
    assert all(piece.strip().startswith("word") and piece.endswith("word") for piece in pieces[:-1])
    assert [len(piece) for piece in split_sentences("中" * 25_000)] == [LONGEST, LONGEST, 5_000]


@pytest.mark.parametrize(
    "unit", [".", "a.", '"', "'.", " ", "\n", " \n", ". ", '."', "a\n ", "A. ", "…", "。”", "x", "!? ", "(a) "]
)
def test_time_grows_with_length_only(unit):
    # A text ten times as long would take a hundred times as long if anything were looked at twice.
    document = unit * (1_000_000 // len(unit))
    begin = time.process_time()
    pieces = split_sentences(document)
    assert time.process_time() - begin < 8
    assert "".join(pieces) == document
