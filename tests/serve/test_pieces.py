"""Tokens become text: whole characters, nothing of a stop, and every character belongs to a token."""

import random

import pytest

import polyseme as ps
from polyseme.serve.pieces import Pieces

NAMES = ["gpt", "gpt2", "elmo", "ulmfit", "nnlm"]
TEXT = "the old bank by the river 杜鹃在杜鹃花旁边唱歌。 a bat 🦇 slept in the barn; " * 4


@pytest.mark.parametrize("name", NAMES)
def test_pieces_are_the_whole(folders, name):
    model = ps.load(folders[name])
    ids = model.tokenizer.encode(TEXT, specials=False).ids
    pieces = Pieces(model.tokenizer, ids[:1])
    given = [piece for id in ids[1:] for piece in pieces.add(id)] + pieces.end()
    start = len(model.tokenizer.decode(ids[:1]))
    assert "".join(piece.text for piece in given) == model.tokenizer.decode(ids)[start:]
    assert len(given) == len(ids) - 1
    place = 0
    for piece in given:
        assert piece.start == place
        place += len(piece.text)


@pytest.mark.parametrize("seed", range(40))
def test_stops_as_the_library_has_them(folders, seed):
    model, chance = ps.load(folders["gpt2"]), random.Random(seed)
    ids = model.tokenizer.encode(TEXT, specials=False).ids
    text = model.tokenizer.decode(ids)
    stops = []
    for _ in range(chance.randint(1, 3)):
        begin = chance.randrange(len(text) - 8)
        stops.append(text[begin : begin + chance.randint(1, 8)])
    pieces = Pieces(model.tokenizer, ids[:1], stops)
    given = []
    for id in ids[1:]:
        given += pieces.add(id)
        if pieces.stopped:
            break
    else:
        given += pieces.end()
    expected = "".join(model._pieces(model.tokenizer, ids[:1], iter(ids[1:]), stops))
    assert "".join(piece.text for piece in given) == expected
    assert [piece.start for piece in given] == [len("".join(p.text for p in given[:n])) for n in range(len(given))]
