"""Attention weights of every family that has them, by token and by word."""

import functools
import html

import numpy as np
import pytest
from tests.attention_models import model_of

from polyseme.analysis.attention import Attention, TokenSequence
from polyseme.errors import CheckpointError, ConfigError, DataError
from polyseme.families import FAMILIES

TEXT = "The old bank by the river lends money to every farmer."
ATTENTION_FAMILIES = ("bert", "mbert", "roberta", "albert", "ernie", "gpt", "gpt2", "transformer")


@pytest.fixture(scope="module")
def models():
    return functools.cache(model_of)


def check_rows(attention):
    np.testing.assert_allclose(attention.weights.sum(-1), 1, atol=1e-5)
    num_rows, num_columns = attention.weights.shape[2:]
    for part, count in ((attention.queries, num_rows), (attention.keys, num_columns)):
        assert len(part.tokens) == len(part.display) == len(part.is_special) == count
        assert [index for first, end in part.word_spans for index in range(first, end)] == list(range(count))
    words = attention.by_word()
    assert words.weights.shape[2:] == (len(attention.queries.word_spans), len(attention.keys.word_spans))
    np.testing.assert_allclose(words.weights.sum(-1), 1, atol=1e-5)


@pytest.mark.parametrize("family", ATTENTION_FAMILIES)
def test_rows_sum_to_one(models, family):
    model = models(family)
    attention = model.attention(TEXT)
    check_rows(attention)
    assert attention.tokens == model.encode([TEXT])[0].tokens
    assert attention.weights.shape[:2] == (2, model.encoder.config.num_heads) and attention.weights.dtype == np.float32
    assert len(attention.heads) == len(attention.table()) == 2 * model.encoder.config.num_heads
    assert not np.allclose(attention.weights[0], attention.weights[1]), "each layer has its own"
    upper = np.triu(attention.weights, 1)
    assert attention.causal == (family in ("gpt", "gpt2")) == (not upper.any())
    assert np.allclose(attention.weights, model.attention(TEXT).weights)


@pytest.mark.parametrize("family", [name for name in FAMILIES if name not in ATTENTION_FAMILIES and name != "cove"])
def test_families_without_attention(models, family):
    with pytest.raises(ConfigError, match=f"^{family} has no attention weights; choose"):
        models(family).attention(TEXT)


def test_pair_of_texts(models):
    attention = models("bert").attention("The old bank.", "A bat slept.")
    special = [
        token for token, is_special in zip(attention.tokens, attention.queries.is_special, strict=True) if is_special
    ]
    assert special == ["[CLS]", "[SEP]", "[SEP]"] and attention.tokens[0] == "[CLS]"
    assert attention.texts == ["The old bank.", "A bat slept."]
    check_rows(attention)
    alone = models("bert").attention("The old bank. A bat slept.")
    assert len(attention.tokens) == len(alone.tokens) + 1
    pair = models("roberta").attention("The old bank.", "A bat slept.").queries
    assert [token for token, is_special in zip(pair.tokens, pair.is_special, strict=True) if is_special] == [
        "<s>",
        *["</s>"] * 3,
    ]
    for family in ("gpt2", "transformer"):
        with pytest.raises(ConfigError, match=f"{family} does not encode text pairs"):
            models(family).attention("one", "two")


def test_attention_depends_on_segments(models):
    model = models("bert")
    before = model.attention("The old bank.", "A bat slept.").weights
    model.encoder.segments.weight.data[1].neg_()
    assert not np.allclose(before, model.attention("The old bank.", "A bat slept.").weights)
    model.encoder.segments.weight.data[1].neg_()


@pytest.mark.parametrize("family", ["transformer", "cove"])
def test_cross_attention_of_translations(models, family):
    model = models(family)
    attention = model.attention(TEXT)
    (alignment,) = model.align([TEXT])
    cross = attention if family == "cove" else attention.cross
    check_rows(cross)
    assert cross.tokens == alignment.target and cross.keys.tokens == alignment.source
    layers, heads = (1, 1) if family == "cove" else (2, model.encoder.config.num_heads)
    assert cross.weights.shape[:2] == (layers, heads) and not cross.causal
    np.testing.assert_allclose(cross.weights[-1].mean(0), alignment.weights, atol=1e-6)
    assert all(row["previous"] is row["distance"] is None and row["first"] >= 0 for row in cross.table())


RARE = "龘"  # whose bytes are separate tokens


@pytest.mark.parametrize("family", ["gpt2", "roberta", "transformer"])
def test_bytes_of_a_character_are_shown_as_bytes(models, family):
    queries = models(family).attention(f"the {RARE} bank").queries
    shown = [text for text, special in zip(queries.display, queries.is_special, strict=True) if not special]
    assert [text for text in shown if text.startswith("<")] == ["<E9>", "<BE>", "<98>"]
    assert RARE in queries.word_texts


@pytest.mark.parametrize("family", [*ATTENTION_FAMILIES, "cove"])
def test_tokens_are_shown_truthfully(models, family):
    """Marks of the vocabulary only, and no replacement characters, in texts and in translations of random weights."""
    attention = models(family).attention(f"他在银行上班, unlikely {RARE}!")
    for part in filter(None, (attention, attention.cross)):
        for sequence in (part.queries, part.keys):
            assert all(sequence.display) and not any(
                "\ufffd" in text for text in [*sequence.display, *sequence.word_texts]
            )
            for token, text in zip(sequence.tokens, sequence.display, strict=True):
                assert text.startswith("##") == token.startswith("##")


def test_translations_have_no_replacement_characters(models):
    model = models("transformer")
    texts = ["the old bank", "a bat slept", f"{RARE} 苹果", "day"] * 4
    assert any("\ufffd" in model.tokenizer.decode([id]) for id in range(model.tokenizer.vocab_size))
    translations = model.translate([f"{text} {number}" for number, text in enumerate(texts)])
    assert not any("\ufffd" in text for text in translations)
    assert "\ufffd" not in model.align(["the old bank"])[0].translation


def test_long_texts_are_truncated(models):
    attention = models("bert").attention("river " * 100)
    assert len(attention.tokens) == 64 and attention.num_truncated == 38
    assert models("gpt2").attention("river").num_truncated == 0
    pair = models("bert").attention("river " * 100, "bank")
    assert len(pair.tokens) == 64 and pair.num_truncated == 104 - 64 and pair.tokens[-2] == "bank"


@pytest.mark.parametrize("family, text", [("gpt2", ""), ("bert", ""), ("bert", "  \n "), ("cove", " ")])
def test_empty_text_is_an_error(models, family, text):
    with pytest.raises(DataError, match="the text is empty"):
        models(family).attention(text)


def sequence_of(*words):
    """A sequence from words whose tokens are separated by |."""
    tokens = [piece for word in words for piece in word.split("|")]
    ends = np.cumsum([len(word.split("|")) for word in words]).tolist()
    spans = list(zip([0, *ends[:-1]], ends, strict=True))
    is_special = [token.startswith("[") for token in tokens]
    texts = [word.replace("|##", "") for word in words]
    return TokenSequence(tokens=tokens, display=tokens, word_spans=spans, word_texts=texts, is_special=is_special)


def attention_of(weights, sequence):
    weights = np.array(weights, dtype=np.float32)
    return Attention(model="model", name="", texts=[""], queries=sequence, keys=sequence, weights=weights, causal=False)


def test_word_attention_by_hand():
    sequence = sequence_of("[CLS]", "un|##like|##ly", "end")
    rows = [
        [0.2, 0.1, 0.1, 0.1, 0.5],
        [0.0, 0.5, 0.2, 0.1, 0.2],
        [0.3, 0.2, 0.0, 0.1, 0.4],
        [0.6, 0.1, 0.0, 0.0, 0.3],
        [1.0, 0.0, 0.0, 0.0, 0.0],
    ]
    words = attention_of([[rows]], sequence).by_word()
    assert words.tokens == ["[CLS]", "unlikely", "end"] and words.queries.is_special == [True, False, False]
    np.testing.assert_allclose(words.weights[0, 0], [[0.2, 0.3, 0.5], [0.3, 0.4, 0.3], [1, 0, 0]], atol=1e-6)
    assert words.by_word().tokens == words.tokens and np.array_equal(words.by_word().weights, words.weights)


def test_words_for_every_tokenizer(models):
    text = "Farmers swim, don't they? 苹果。"
    for family in ("bert", "gpt2", "gpt", "albert", "roberta"):
        words = models(family).attention(text).by_word()
        shown = [
            word for word, is_special in zip(words.tokens, words.queries.is_special, strict=True) if not is_special
        ]
        assert shown[:2] == ["Farmers", "swim"], family
        assert "they" in shown and len(words.tokens) < len(models(family).attention(text).tokens)
        if family in ("gpt2", "roberta"):  # characters may be split into several tokens
            assert "".join(shown).replace("␣", "") == text.replace(" ", "")
    assert models("gpt2").attention("a  bank").queries.display[1] == "␣"


def test_notebook_representation(models):
    shown = models("gpt2").attention("bank </iframe><b>\"'")._repr_html_()
    assert shown.startswith('<iframe srcdoc="&lt;!doctype html&gt;') and shown.count("<") == 2
    assert "sandbox" in shown and "&lt;title&gt;Attention in gpt2&lt;/title&gt;" in shown
    assert html.unescape(shown).count("<!doctype html>") == 1


def test_non_finite_weights_are_reported():
    model = model_of("gpt2")
    model.encoder.blocks[1].attention.query_key_value.weight.data.fill_(float("nan"))
    with pytest.raises(CheckpointError, match="not finite"):
        model.attention(TEXT)


def test_lone_surrogates(models):
    page = models("gpt2").attention("bank \ud800 river").page()
    assert page.encode()
