import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyseme.corpora import sentence_boundaries
from polyseme.corpora.sentence_splitting import MAX_SENTENCE_LENGTH, split_documents, split_sentences
from polyseme.corpora.utf16_text import Utf16Text, replace_surrogates

texts = st.text(st.sampled_from("aA1 .!?…。！？\n\t\"'”」)é中文\u3000")) | st.text()


@given(texts)
def test_sentences_concatenate_to_the_document(document):
    pieces = split_sentences(document)
    assert "".join(pieces) == document
    assert all(pieces)


WIDE = "。！？｡…"
STOP = re.compile(rf"[\n.!?{WIDE}](?:(?<=\n)\s*|[.!?{WIDE}]*([\"'”’»)\]}}）］｝」』】》〉〕]*)(\s*))")


def split_by_pattern(document):
    """A reference implementation with a regular expression."""
    pieces, start = [], 0
    for match in STOP.finditer(document):
        following = match.end()
        if following == len(document):
            break
        marks, end = match.span(1)
        if end < 0:  # the end of a line
            end = len(document[: match.start()].rstrip())
            ends = end > 0
        elif document[marks - 1] in WIDE:
            single = document[match.start() : marks] == "…"  # which may be inside a sentence
            ends = not single or document[following] >= "⺀"
        elif end == following:
            ends = document[marks - 1] != "." and document[following] >= "⺀"
        else:
            continues = document[following].islower()
            continues |= document[marks - 1] == "." and is_abbreviation(document, match.start())
            ends = "\n" in match[2] or not continues
        if ends:
            pieces.append(document[start:end])
            start = end
    return [*pieces, document[start:]] if document else []


def is_abbreviation(document, stop):
    space = document.rfind(" ", max(0, stop - 8), stop)
    if space < 0 and stop > 8:
        return False
    word = document[space + 1 : stop].lstrip("(\"'“‘[")
    initial = word[-2:-1] in ("", ".") and word[-1:].isalpha() and word[-1:] != "I"
    return initial or word.lower() in sentence_boundaries.ABBREVIATIONS


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
def test_compiled_loop_agrees_with_the_pattern(documents):
    assert list(map(split_sentences, documents)) == list(map(split_by_pattern, documents))
    text, counts = split_documents(Utf16Text.of(documents))
    expected = [split_by_pattern(replace_surrogates(document)) for document in documents]
    assert counts.tolist() == list(map(len, expected))
    assert text.substrings(text.bounds[:-1], text.bounds[1:]) == [piece for pieces in expected for piece in pieces]


@given(texts)
def test_no_sentence_is_only_white_space(document):
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


def test_long_sentences_are_split_at_white_space():
    document = "word " * 10_000
    pieces = split_sentences(document)
    assert "".join(pieces) == document
    assert max(map(len, pieces)) <= MAX_SENTENCE_LENGTH
    assert all(piece.strip().startswith("word") and piece.endswith("word") for piece in pieces[:-1])
    assert [len(piece) for piece in split_sentences("中" * 25_000)] == [MAX_SENTENCE_LENGTH, MAX_SENTENCE_LENGTH, 5_000]


@pytest.mark.parametrize(
    "unit", [".", "a.", '"', "'.", " ", "\n", " \n", ". ", '."', "a\n ", "A. ", "…", "。”", "x", "!? ", "(a) "]
)
def test_time_is_linear(unit):
    # Quadratic time would take minutes.
    document = unit * (1_000_000 // len(unit))
    begin = time.process_time()
    pieces = split_sentences(document)
    assert time.process_time() - begin < 8
    assert "".join(pieces) == document
