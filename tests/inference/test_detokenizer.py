"""Streaming detokenization: whole characters, nothing of a stop string, and every character belongs to a token."""

import random

import pytest
from tests.evaluation.random_models import random_model

from polyseme.inference.detokenizer import Detokenizer

FAMILIES = ["gpt", "gpt2", "elmo", "ulmfit", "nnlm"]
TEXT = "the old bank by the river 杜鹃在杜鹃花旁边唱歌。 a bat 🦇 slept in the barn; " * 4


class ByteTokenizer:
    """A token per byte, so that every prefix of a text can be tested."""

    def decode(self, ids):
        return bytes(ids).decode("utf-8", "replace")


def stream(data, *stops):
    pieces = detokenize(Detokenizer(ByteTokenizer(), b"", stops), data)
    return [piece.text for piece in pieces if piece.text]


def detokenize(detokenizer, ids):
    pieces = []
    for id in ids:
        pieces += detokenizer.add(id)
        if detokenizer.stopped:
            return pieces
    return pieces + detokenizer.flush()


@pytest.fixture(scope="module")
def tokenizers(documents):
    return {family: random_model(family, documents).tokenizer for family in FAMILIES}


@pytest.mark.parametrize("family", FAMILIES)
def test_pieces_join_to_the_decoded_text(tokenizers, family):
    tokenizer = tokenizers[family]
    ids = tokenizer.encode(TEXT, specials=False).ids
    pieces = detokenize(Detokenizer(tokenizer, ids[:1]), ids[1:])
    start = len(tokenizer.decode(ids[:1]))
    assert "".join(piece.text for piece in pieces) == tokenizer.decode(ids)[start:]
    assert len(pieces) == len(ids) - 1
    offset = 0
    for piece in pieces:
        assert piece.start == offset
        offset += len(piece.text)


@pytest.mark.parametrize("seed", range(40))
def test_text_ends_before_the_first_stop_string(tokenizers, seed):
    tokenizer, rng = tokenizers["gpt2"], random.Random(seed)
    ids = tokenizer.encode(TEXT, specials=False).ids
    text = tokenizer.decode(ids)
    stops = []
    for _ in range(rng.randint(1, 3)):
        begin = rng.randrange(len(text) - 8)
        stops.append(text[begin : begin + rng.randint(1, 8)])
    pieces = detokenize(Detokenizer(tokenizer, ids[:1], stops), ids[1:])
    # By definition: the text up to the first token with which a stop string is complete, cut where one begins.
    expected = text[len(tokenizer.decode(ids[:1])) :]
    for end in range(2, len(ids) + 1):
        partial = tokenizer.decode(ids[:end])[len(tokenizer.decode(ids[:1])) :]
        cuts = [partial.find(stop) for stop in stops if stop in partial]
        if cuts:
            expected = partial[: min(cuts)]
            break
    assert "".join(piece.text for piece in pieces) == expected
    assert [piece.start for piece in pieces] == [len("".join(p.text for p in pieces[:n])) for n in range(len(pieces))]


def test_a_partial_stop_string_is_held_back():
    assert "".join(stream(b"abc STOP def", "STOP")) == "abc "
    assert not any("S" in piece for piece in stream(b"abc STOP def", "STOP"))
    assert "".join(stream(b"abc STO", "STOP")) == "abc STO", "an incomplete stop string is text"
    assert "".join(stream(b"SSTOP", "STOP")) == "S"
    assert "".join(stream(b"ab ab abc", "abc", "xyz")) == "ab ab "
    assert "".join(stream(b"one\n\ntwo", "\n\n", "two")) == "one"
    assert stream("苹果".encode()) == ["苹", "果"], "characters come whole"
    assert "".join(stream("苹果。".encode(), "果")) == "苹"
    assert "".join(stream("苹".encode()[:2])) == "\ufffd", "incomplete bytes are shown at the end"
