"""Where tokens look: of every family that has attention, by piece and by word."""

import functools
import html

import numpy as np
import pytest

from attending import model_of
from polyseme.errors import CheckpointError, ConfigError, DataError
from polyseme.inside.attention import Attention, Line
from polyseme.models import FAMILIES

TEXT = "The old bank by the river lends money to every farmer."
LOOKING = ("bert", "mbert", "roberta", "albert", "ernie", "gpt", "gpt2", "transformer")


@pytest.fixture(scope="module")
def models():
    return functools.cache(model_of)


def check_rows(attention):
    np.testing.assert_allclose(attention.maps.sum(-1), 1, atol=1e-5)
    num_rows, num_columns = attention.maps.shape[2:]
    for line, count in ((attention.line, num_rows), (attention.seen, num_columns)):
        assert len(line.tokens) == len(line.shown) == len(line.marks) == count
        assert [place for first, end in line.words for place in range(first, end)] == list(range(count))
    words = attention.by_word()
    assert words.maps.shape[2:] == (len(attention.line.words), len(attention.seen.words))
    np.testing.assert_allclose(words.maps.sum(-1), 1, atol=1e-5)


@pytest.mark.parametrize("family", LOOKING)
def test_rows_sum_to_one(models, family):
    model = models(family)
    attention = model.attention(TEXT)
    check_rows(attention)
    assert attention.tokens == model.encode([TEXT])[0].tokens
    assert attention.maps.shape[:2] == (2, model.encoder.config.num_heads) and attention.maps.dtype == np.float32
    assert len(attention.heads) == len(attention.table()) == 2 * model.encoder.config.num_heads
    assert not np.allclose(attention.maps[0], attention.maps[1]), "each layer has its own"
    upper = np.triu(attention.maps, 1)
    assert attention.causal == (family in ("gpt", "gpt2")) == (not upper.any())
    assert np.allclose(attention.maps, model.attention(TEXT).maps)


@pytest.mark.parametrize("family", [name for name in FAMILIES if name not in LOOKING and name != "cove"])
def test_without_attention_there_is_nothing_to_show(models, family):
    with pytest.raises(ConfigError, match=f"^{family} has no attention to show; choose"):
        models(family).attention(TEXT)


def test_a_pair_stands_in_the_frame(models):
    attention = models("bert").attention("The old bank.", "A bat slept.")
    marks = [token for token, mark in zip(attention.tokens, attention.line.marks, strict=True) if mark]
    assert marks == ["[CLS]", "[SEP]", "[SEP]"] and attention.tokens[0] == "[CLS]"
    assert attention.texts == ["The old bank.", "A bat slept."]
    check_rows(attention)
    alone = models("bert").attention("The old bank. A bat slept.")
    assert len(attention.tokens) == len(alone.tokens) + 1
    marks = models("roberta").attention("The old bank.", "A bat slept.").line
    assert [token for token, mark in zip(marks.tokens, marks.marks, strict=True) if mark] == ["<s>", *["</s>"] * 3]
    for family in ("gpt2", "transformer"):
        with pytest.raises(ConfigError, match=f"{family} has no frame for two texts"):
            models(family).attention("one", "two")


def test_segments_tell_the_texts_of_a_pair_apart(models):
    model = models("bert")
    before = model.attention("The old bank.", "A bat slept.").maps
    model.encoder.segments.weight.data[1].neg_()
    assert not np.allclose(before, model.attention("The old bank.", "A bat slept.").maps)
    model.encoder.segments.weight.data[1].neg_()


@pytest.mark.parametrize("family", ["transformer", "cove"])
def test_a_translation_looks_at_its_source(models, family):
    model = models(family)
    attention = model.attention(TEXT)
    (alignment,) = model.align([TEXT])
    cross = attention if family == "cove" else attention.cross
    check_rows(cross)
    assert cross.tokens == alignment.target and cross.seen.tokens == alignment.source
    layers, heads = (1, 1) if family == "cove" else (2, model.encoder.config.num_heads)
    assert cross.maps.shape[:2] == (layers, heads) and not cross.causal
    np.testing.assert_allclose(cross.maps[-1].mean(0), alignment.weights, atol=1e-6)
    assert all(row["previous"] is row["distance"] is None and row["first"] >= 0 for row in cross.table())


def test_what_does_not_fit_is_left_out(models):
    attention = models("bert").attention("river " * 100)
    assert len(attention.tokens) == 64 and attention.left_out == 38
    assert models("gpt2").attention("river").left_out == 0
    pair = models("bert").attention("river " * 100, "bank")
    assert len(pair.tokens) == 64 and pair.left_out == 104 - 64 and pair.tokens[-2] == "bank"


@pytest.mark.parametrize("family, text", [("gpt2", ""), ("bert", ""), ("bert", "  \n "), ("cove", " ")])
def test_no_text_is_said_so(models, family, text):
    with pytest.raises(DataError, match="no text to look at"):
        models(family).attention(text)


def line_of(*words):
    """Tokens by word: pieces of one are given together."""
    tokens = [piece for word in words for piece in word.split("|")]
    ends = np.cumsum([len(word.split("|")) for word in words]).tolist()
    spans = list(zip([0, *ends[:-1]], ends, strict=True))
    marks = [token.startswith("[") for token in tokens]
    spelt = [word.replace("|##", "") for word in words]
    return Line(tokens=tokens, shown=tokens, words=spans, spelt=spelt, marks=marks)


def made_up(maps, line, **rest):
    maps = np.array(maps, dtype=np.float32)
    return Attention(model="made up", name="", texts=[""], line=line, seen=line, maps=maps, causal=False, **rest)


def test_words_by_hand():
    line = line_of("[CLS]", "un|##like|##ly", "end")
    rows = [
        [0.2, 0.1, 0.1, 0.1, 0.5],
        [0.0, 0.5, 0.2, 0.1, 0.2],
        [0.3, 0.2, 0.0, 0.1, 0.4],
        [0.6, 0.1, 0.0, 0.0, 0.3],
        [1.0, 0.0, 0.0, 0.0, 0.0],
    ]
    words = made_up([[rows]], line).by_word()
    assert words.tokens == ["[CLS]", "unlikely", "end"] and words.line.marks == [True, False, False]
    np.testing.assert_allclose(words.maps[0, 0], [[0.2, 0.3, 0.5], [0.3, 0.4, 0.3], [1, 0, 0]], atol=1e-6)
    assert words.by_word().tokens == words.tokens and np.array_equal(words.by_word().maps, words.maps)


def test_words_are_found_in_every_kind_of_token(models):
    text = "Farmers swim, don't they? 苹果。"
    for family in ("bert", "gpt2", "gpt", "albert", "roberta"):
        words = models(family).attention(text).by_word()
        shown = [word for word, mark in zip(words.tokens, words.line.marks, strict=True) if not mark]
        assert shown[:2] == ["Farmers", "swim"], family
        assert "they" in shown and len(words.tokens) < len(models(family).attention(text).tokens)
        if family in ("gpt2", "roberta"):  # with a character in several tokens
            assert "".join(shown).replace("␣", "") == text.replace(" ", "")
    assert models("gpt2").attention("a  bank").line.shown[1] == "␣"


def test_a_notebook_shows_it(models):
    shown = models("gpt2").attention("bank </iframe><b>\"'")._repr_html_()
    assert shown.startswith('<iframe srcdoc="&lt;!doctype html&gt;') and shown.count("<") == 2
    assert "sandbox" in shown and "&lt;title&gt;Attention in gpt2&lt;/title&gt;" in shown
    assert html.unescape(shown).count("<!doctype html>") == 1


def test_a_broken_model_is_said_so():
    model = model_of("gpt2")
    model.encoder.blocks[1].attention.query_key_value.weight.data.fill_(float("nan"))
    with pytest.raises(CheckpointError, match="gpt2 has weights that are no numbers"):
        model.attention(TEXT)


def test_lone_surrogates_do_no_harm(models):
    page = models("gpt2").attention("bank \ud800 river").page()
    assert page.encode()
