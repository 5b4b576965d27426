"""Every occurrence of a word in every layer, of models small enough to look at."""

import dataclasses
import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch

import polyseme as ps
from browser import browsing
from polyseme.errors import ConfigError, DataError
from polyseme.inside import senses as inside
from polyseme.inside.occurrences import Occurrence
from polyseme.inside.senses import read_vectors
from polyseme.inside.senses_page import draw_senses
from polyseme.models import FAMILIES
from polyseme.objectives import Together
from polyseme.pretrained import Pretrained
from polyseme.text.tokenizer import Tokenizer
from polyseme.train.recipe import Recipe

SIZES = {"width": 16, "num_layers": 2, "num_heads": 2, "inner_width": 32, "max_length": 16, "dropout": 0.0}
SIZES |= {"cell_width": 16, "character_width": 4, "filters": ((1, 8), (2, 8)), "num_highways": 1}
MONEY = ["The bank lends money.", "She paid the bank back.", "Money lies in the bank."]
RIVER = ["The bank of the river.", "He sat on the bank to fish.", "Bank and river are wet."]
ROWS = [*((text, "money") for text in MONEY), *((text, "river") for text in RIVER)]
HOSTILE = "</script><img src=x onerror=alert(1)>&\u2028\"' \U0001f600 bank \U0001f600"


def tiny(family, texts=(*MONEY, *RIVER, "他在苹果公司吃苹果。"), **sizes):
    torch.manual_seed(0)
    config = Recipe.preset(family, "tiny").tokenizer.replace(min_count=1)
    tokenizer = Tokenizer.train(config, texts, vocab_size=330)
    kind = FAMILIES[family]
    sizes = {**SIZES, **sizes, "vocab_size": tokenizer.vocab_size}
    encoder = kind(kind.Config(**{name: size for name, size in sizes.items() if name in kind.Config.model_fields}))
    encoder.spell(tokenizer)
    with torch.no_grad():
        for weight in encoder.parameters():
            weight.mul_(3 if weight.dim() > 1 else 1)  # as if it were wider
    return Pretrained(
        folder=Path(family),
        family=family,
        encoder=encoder.eval(),
        objective=Together({}),
        tokenizer=tokenizer,
        recipe=None,
    )


@pytest.fixture(scope="module")
def bert():
    return tiny("bert")


@pytest.fixture(scope="module")
def skipgram():
    return tiny("skipgram")


@pytest.mark.parametrize("family", ["bert", "gpt2", "elmo", "skipgram", "onehot", "ulmfit"])
def test_every_family(family):
    model = tiny(family)
    look = model.senses("bank", ROWS)
    assert look.senses == {"money": 3, "river": 3} and look.name == look.family == family
    assert len(look.layers) == len(model.encoder.widths)
    assert "bank" in "".join(look.spelling).lower() and look.static == (model.encoder.context == "none")
    for layer in look.layers:
        assert layer.vectors.shape[0] == 6 and layer.points.shape == (6, 2) and layer.nearest.shape == (6, 5)
        assert all(number not in row for number, row in enumerate(layer.nearest.tolist()))
        assert layer.told.num_items == 6 and -1 <= layer.silhouette <= 1 and 0 <= layer.spread < 1
    if look.static and family != "onehot":  # which tells Bank from bank
        assert look.layers[0].told.value == pytest.approx(2 / 5)


def test_the_vector_is_the_mean_of_its_pieces(bert):
    text = "He sat by the bank of a strange riverbank."
    (encoding,) = bert.encode([text])
    word = text.index("riverbank")
    pieces = [n for n, (start, end) in enumerate(encoding.offsets) if start >= word and word < end <= word + 9]
    assert len(pieces) > 1
    read = read_vectors(bert, [Occurrence.of(text, word, word + 9), Occurrence.of(text, 14, 18)])
    for layer, expected in zip(read.layers, encoding.layers, strict=True):
        np.testing.assert_allclose(layer[0], expected[pieces].mean(0), atol=1e-6)
        assert not np.allclose(layer[0], layer[1])
    assert read.pieces[0] == tuple(encoding.tokens[n] for n in pieces)
    assert [other.shape for other in read.others] == [(1, width) for width in bert.encoder.widths]


@pytest.mark.parametrize("family", ["bert", "gpt2", "elmo"])
def test_a_word_beyond_what_the_model_reads_at_once(family):
    model = tiny(family)
    text = "the river is wet " * 20 + "and the Bank lends"
    look = model.senses("bank", [text, "The bank"])
    (encoding,) = model.encode([text])
    assert len(encoding.tokens) > 16
    place = text.index("Bank")
    inside = [n for n, (start, end) in enumerate(encoding.offsets) if start < place + 4 and end > place]
    expected = encoding.layers[-1][inside].mean(0)
    np.testing.assert_allclose(look.layers[-1].vectors[0], expected / np.linalg.norm(expected), atol=1e-5)


def test_chinese(bert):
    look = bert.senses("苹果", [("他在苹果公司吃苹果。", "")])
    assert [(o.start, o.end) for o in look.occurrences] == [(2, 4), (7, 9)] and look.senses == {}
    assert look.layers[-1].told is None and look.layers[-1].silhouette is None
    assert look.layers[-1].self_similarity < 0.999


def test_static_vectors_are_one_point(skipgram):
    look = skipgram.senses("bank", ROWS)
    (layer,) = look.layers
    assert look.static and not layer.points.any() and layer.explained == (0, 0)
    assert layer.self_similarity == pytest.approx(1) and layer.spread == pytest.approx(0, abs=1e-6)
    assert layer.silhouette == 0 and layer.other_words < 0.9
    half = skipgram.senses("bank", ROWS, against=ROWS[1:5])
    assert half.layers[0].told.value == pytest.approx(1 / 2)  # exactly chance


def test_a_word_that_a_model_does_not_know(tmp_path):
    (tmp_path / "words.vec").write_text("bank 1 2\nriver 3 4\n")
    look = ps.load(tmp_path / "words.vec").senses(
        "wug", [("a wug", "x"), ("the wug", "x"), ("wug y", "y"), ("wug", "y")]
    )
    assert look.spelling == ("<unk>",)
    assert look.layers[0].told.value == pytest.approx(1 / 3) and look.layers[0].silhouette == 0  # like no other


def test_senses_that_fall_apart(bert):
    """Told by others that are the same texts, all are right; the nearest is the same text."""
    look = bert.senses("bank", ROWS, against=ROWS)
    assert look.num_known == 6 and len(look.occurrences) == 12
    assert look.layers[-1].told.value == 1.0 and look.layers[-1].nearest[6:, 0].tolist() == list(range(6))
    assert look.layers[-1].told.num_items == 6


def test_it_does_not_matter_how_many_are_read_at_once(bert, monkeypatch):
    before = bert.senses("bank", ROWS)
    monkeypatch.setattr(inside, "_HELD", 1)
    after = bert.senses("bank", ROWS)
    for one, other in zip(before.layers, after.layers, strict=True):
        np.testing.assert_allclose(one.vectors, other.vectors, atol=1e-5)
        assert one.other_words == pytest.approx(other.other_words, abs=1e-5)


def test_most_and_seed(bert):
    texts = [f"{number} at the bank" for number in range(50)]
    first, again, other = (bert.senses("bank", texts, most=10, seed=seed) for seed in (0, 0, 1))
    assert first.occurrences == again.occurrences != other.occurrences and len(first.occurrences) == 10
    assert first.layers[-1].figures == again.layers[-1].figures


def test_mistakes(bert):
    with pytest.raises(DataError, match="spring stands nowhere in the texts"):
        bert.senses("spring", MONEY)
    with pytest.raises(ConfigError, match=r"senses\.mots: no such setting; did you mean senses\.most"):
        bert.senses("bank", MONEY, mots=3)
    with pytest.raises(ConfigError, match=r"senses\.case: should be 'any' or 'exact'"):
        bert.senses("bank", MONEY, case="none")
    with pytest.raises(DataError, match="no such file"):
        bert.senses("bank", "nowhere.txt")


def test_one_occurrence(bert):
    look = bert.senses("bank", ["the bank"])
    assert look.layers[-1].self_similarity is None and look.layers[-1].nearest.shape == (1, 0)
    assert "<h1>bank: 1 occurrence</h1>" in draw_senses([look])


@pytest.fixture(scope="module")
def file(bert, skipgram, tmp_path_factory):
    rows = [*ROWS, (HOSTILE, "<b>odd & sense</b>"), ("The bank has no sense", "")]
    looks = [
        dataclasses.replace(model.senses("bank", rows), name=f"<i>{model.family}</i>") for model in (skipgram, bert)
    ]
    path = tmp_path_factory.mktemp("page") / "bank.html"
    path.write_text(draw_senses(looks), encoding="utf-8")
    return path


def test_the_page_holds_all(file):
    whole = file.read_text(encoding="utf-8")
    assert "<img" not in whole and "<b>" not in whole and "<i>" not in whole
    held = json.loads(re.search(r'id="data">(.*?)</script>', whole)[1])
    assert [model["name"] for model in held["models"]] == ["<i>skipgram</i>", "<i>bert</i>"]
    assert held["senses"] == [["money", 3], ["river", 3], ["<b>odd & sense</b>", 1]]
    assert "".join(held["occurrences"][6][:3]) == HOSTILE and held["occurrences"][7][3] == -1
    assert [len(model["layers"]) for model in held["models"]] == [1, 3]


def places(page, model):
    return page.eval_on_selector_all(f".card:nth-child({model}) .point", "all => all.map((p) => p.style.translate)")


def test_the_page_in_a_browser(file):
    with browsing() as visit:
        page = visit.open(file)
        assert page.locator(".map").count() == 2 and page.locator(".point").count() == 16
        assert len(set(places(page, 1))) == 1 and len(set(places(page, 2))) > 3  # static beside contextual
        top = places(page, 2)
        assert "layer 2 of 2" in page.locator(".where").nth(1).inner_text()
        page.focus("#layer")
        page.keyboard.press("ArrowLeft")
        assert "layer 1 of 2" in page.locator(".where").nth(1).inner_text() and places(page, 2) != top
        assert page.get_attribute("#layer", "aria-valuetext") == "<i>skipgram</i> layer 0, <i>bert</i> layer 1"
        assert page.locator("tr.now").count() == 2
        page.keyboard.press("End")
        assert places(page, 2) == top

        page.locator(".map").nth(1).focus()
        seen = set()
        for key in ["Home", *["ArrowRight", "ArrowDown", "ArrowLeft", "ArrowUp"] * 3, "End"]:
            page.keyboard.press(key)
            seen.add(page.inner_text("#reading"))
        assert len(seen) > 3 and "The bank has no sense" in page.inner_text("#reading")
        page.locator(".map").first.focus()  # all on one point: on in their order
        page.keyboard.press("ArrowLeft")
        assert HOSTILE[:30] in page.inner_text("#reading") and page.inner_text("#reading mark") == "bank"
        assert page.inner_text("#reading .sense") == "<b>odd & sense</b>"

        page.locator(".card:nth-child(2) .point").nth(2).hover(force=True)
        hovered = page.inner_text("#reading")
        page.mouse.move(5, 5)
        assert HOSTILE[:30] in page.inner_text("#reading") and HOSTILE[:30] not in hovered
        near = page.locator("#lists section").nth(1).locator("button")
        assert near.count() == 5
        expected = near.first.inner_text()
        near.first.click()
        assert expected in page.inner_text("#reading")
        page.locator("#legend button").nth(1).click()
        assert page.locator(".card:nth-child(2) .point:not(.dim)").count() == 3
        page.locator("#legend button").nth(1).click()
        assert page.locator(".point.dim").count() == 0
        assert page.locator("img").count() == 0
        visit.check()


@pytest.mark.parametrize("dark", [False, True])
def test_the_page_on_a_telephone(file, dark):
    with browsing(width=400, dark=dark) as visit:
        page = visit.open(file)
        assert page.evaluate("document.documentElement.scrollWidth") <= 400
        assert page.locator(".map").first.bounding_box()["width"] > 300
        visit.check()
