import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyseme.text import stops
from polyseme.text.sentences import LONGEST, find_sentences, split_sentences
from polyseme.text.utf16 import Text
from polyseme.text.vocabulary import mend

texts = st.text(st.sampled_from("aA1 .!?…。！？\n\t\"'”」)é中文\u3000")) | st.text()


@given(texts)
def test_pieces_join_to_the_document(document):
    pieces = split_sentences(document)
    assert "".join(pieces) == document
    assert all(pieces)


WIDE = "。！？｡…"
STOP = re.compile(rf"[\n.!?{WIDE}](?:(?<=\n)\s*|[.!?{WIDE}]*([\"'”’»)\]}}）］｝」』】》〉〕]*)(\s*))")


def plainly_split(document):
    """The meaning of the compiled loop, by a regular expression."""
    pieces, start = [], 0
    for match in STOP.finditer(document):
        following = match.end()
        if following == len(document):
            break
        marks, end = match.span(1)
        if end < 0:  # a line's end
            end = len(document[: match.start()].rstrip())
            ends = end > 0
        elif document[marks - 1] in WIDE:
            alone = document[match.start() : marks] == "…"  # which may stand in a sentence
            ends = not alone or document[following] >= "⺀"
        elif end == following:
            ends = document[marks - 1] != "." and document[following] >= "⺀"
        else:
            goes_on = document[following].islower()
            goes_on |= document[marks - 1] == "." and abbreviated(document, match.start())
            ends = "\n" in match[2] or not goes_on
        if ends:
            pieces.append(document[start:end])
            start = end
    return [*pieces, document[start:]] if document else []


def abbreviated(document, stop):
    space = document.rfind(" ", max(0, stop - 8), stop)
    if space < 0 and stop > 8:
        return False
    word = document[space + 1 : stop].lstrip("(\"'“‘[")
    initial = word[-2:-1] in ("", ".") and word[-1:].isalpha() and word[-1:] != "I"
    return initial or word.lower() in stops.ABBREVIATIONS


fragments = [
    *"aA1zI .!?…。！？｡\n\t\"'”」)([“‘é中\u3000\x1cªᛮⅷΣ⹿⺀𝐚𝐀𠀀😊\ud800\udc00İK",
    ". ",
    ". ",
    ".) ",
    " Dr",
    " J",
    "U.S",
]
fragments += ["(e.g", "Messrs", "approx", "Ph.D", "等", "a.m", "xapprox", "etc"]


@settings(max_examples=400, deadline=None)
@given(st.lists(st.lists(st.sampled_from(fragments), max_size=30).map("".join) | st.text(), max_size=4))
def test_the_compiled_loop_does_what_it_means(documents):
    assert list(map(split_sentences, documents)) == list(map(plainly_split, documents))
    text, counts = find_sentences(Text.of(documents))
    wanted = [plainly_split(mend(document)) for document in documents]
    assert counts.tolist() == list(map(len, wanted))
    assert text.pieces(text.bounds[:-1], text.bounds[1:]) == [piece for pieces in wanted for piece in pieces]


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
