"""Sense analysis of small models, and its page."""

import dataclasses
import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.browser import browsing

import polyseme as ps
from polyseme.analysis import senses as senses_module
from polyseme.analysis.occurrences import Occurrence
from polyseme.analysis.senses import occurrence_vectors
from polyseme.analysis.senses_page import senses_page
from polyseme.errors import ConfigError, DataError
from polyseme.families import FAMILIES
from polyseme.objectives.joint import JointObjective
from polyseme.pretrained import Pretrained
from polyseme.tokenization.tokenizer import Tokenizer
from polyseme.training.recipes.recipe import Recipe

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
    encoder.set_tokenizer(tokenizer)
    with torch.no_grad():
        for weight in encoder.parameters():
            weight.mul_(3 if weight.dim() > 1 else 1)  # larger weights, as in a wider model
    return Pretrained(
        folder=Path(family),
        family=family,
        encoder=encoder.eval(),
        objective=JointObjective({}),
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
    result = model.senses("bank", ROWS)
    assert result.senses == {"money": 3, "river": 3} and result.name == result.family == family
    assert len(result.layers) == len(model.encoder.widths)
    assert "bank" in "".join(result.tokens).lower() and result.static == (model.encoder.context == "none")
    for layer in result.layers:
        assert layer.vectors.shape[0] == 6 and layer.points.shape == (6, 2) and layer.nearest.shape == (6, 5)
        assert all(number not in row for number, row in enumerate(layer.nearest.tolist()))
        assert 0 <= layer.metrics["accuracy"] <= 1 and -1 <= layer.metrics["silhouette"] <= 1
        assert 0 <= layer.metrics["centroid_distance"] < 1
    if result.static and family != "onehot":  # distinguishes Bank and bank
        assert result.layers[0].metrics["accuracy"] == pytest.approx(2 / 5)


def test_vector_is_the_mean_of_the_tokens(bert):
    text = "He sat by the bank of a strange riverbank."
    (encoding,) = bert.encode([text])
    word = text.index("riverbank")
    tokens = [n for n, (start, end) in enumerate(encoding.offsets) if start >= word and word < end <= word + 9]
    assert len(tokens) > 1
    encoded = occurrence_vectors(bert, [Occurrence.of(text, word, word + 9), Occurrence.of(text, 14, 18)])
    for layer, expected in zip(encoded.layers, encoding.layers, strict=True):
        np.testing.assert_allclose(layer[0], expected[tokens].mean(0), atol=1e-6)
        assert not np.allclose(layer[0], layer[1])
    assert encoded.tokens[0] == tuple(encoding.tokens[n] for n in tokens)
    assert [layer.shape for layer in encoded.random_words] == [(1, width) for width in bert.encoder.widths]


@pytest.mark.parametrize("family", ["bert", "gpt2", "elmo"])
def test_word_beyond_the_maximum_length(family):
    model = tiny(family)
    text = "the river is wet " * 20 + "and the Bank lends"
    result = model.senses("bank", [text, "The bank"])
    (encoding,) = model.encode([text])
    assert len(encoding.tokens) > 16
    position = text.index("Bank")
    tokens = [n for n, (start, end) in enumerate(encoding.offsets) if start < position + 4 and end > position]
    expected = encoding.layers[-1][tokens].mean(0)
    np.testing.assert_allclose(result.layers[-1].vectors[0], expected / np.linalg.norm(expected), atol=1e-5)


def test_chinese(bert):
    result = bert.senses("苹果", [("他在苹果公司吃苹果。", "")])
    assert [(o.start, o.end) for o in result.occurrences] == [(2, 4), (7, 9)] and result.senses == {}
    assert result.layers[-1].metrics["accuracy"] is None and result.layers[-1].metrics["silhouette"] is None
    assert result.layers[-1].metrics["self_similarity"] < 0.999


def test_static_vectors_are_a_single_point(skipgram):
    result = skipgram.senses("bank", ROWS)
    (layer,) = result.layers
    assert result.static and not layer.points.any() and layer.explained == (0, 0)
    assert layer.metrics["self_similarity"] == pytest.approx(1) and layer.metrics["centroid_distance"] == pytest.approx(
        0, abs=1e-6
    )
    assert layer.metrics["silhouette"] == 0 and layer.metrics["random_similarity"] < 0.9
    half = skipgram.senses("bank", ROWS, against=ROWS[1:5])
    assert half.layers[0].metrics["accuracy"] == pytest.approx(1 / 2)  # the majority baseline


def test_oov_word(tmp_path):
    (tmp_path / "words.vec").write_text("bank 1 2\nriver 3 4\n")
    result = ps.load(tmp_path / "words.vec").senses(
        "wug", [("a wug", "x"), ("the wug", "x"), ("wug y", "y"), ("wug", "y")]
    )
    assert result.tokens == ("<unk>",)
    assert (
        result.layers[0].metrics["accuracy"] == pytest.approx(1 / 3) and result.layers[0].metrics["silhouette"] == 0
    )  # zero vectors


def test_senses_predicted_from_the_same_texts(bert):
    """The nearest known occurrence is the same text, so all predictions are correct."""
    result = bert.senses("bank", ROWS, against=ROWS)
    assert result.num_known == 6 and len(result.occurrences) == 12
    assert result.layers[-1].metrics["accuracy"] == 1.0 and result.layers[-1].nearest[6:, 0].tolist() == list(range(6))


def test_batch_size_does_not_matter(bert, monkeypatch):
    before = bert.senses("bank", ROWS)
    monkeypatch.setattr(senses_module, "_BATCH_VALUES", 1)
    after = bert.senses("bank", ROWS)
    for one, other in zip(before.layers, after.layers, strict=True):
        np.testing.assert_allclose(one.vectors, other.vectors, atol=1e-5)
        assert one.metrics["random_similarity"] == pytest.approx(other.metrics["random_similarity"], abs=1e-5)


def test_max_occurrences_and_seed(bert):
    texts = [f"{number} at the bank" for number in range(50)]
    first, again, other = (bert.senses("bank", texts, max_occurrences=10, seed=seed) for seed in (0, 0, 1))
    assert first.occurrences == again.occurrences != other.occurrences and len(first.occurrences) == 10
    assert first.layers[-1].metrics == again.layers[-1].metrics


def test_errors(bert):
    with pytest.raises(DataError, match="spring does not occur in the texts"):
        bert.senses("spring", MONEY)
    with pytest.raises(ConfigError, match=r"unknown setting senses\.case_; did you mean senses\.case"):
        bert.senses("bank", MONEY, case_=3)
    with pytest.raises(ConfigError, match=r"senses\.case: should be 'any' or 'exact'"):
        bert.senses("bank", MONEY, case="none")
    with pytest.raises(DataError, match="no such file"):
        bert.senses("bank", "nowhere.txt")


def test_one_occurrence(bert):
    result = bert.senses("bank", ["the bank"])
    assert result.layers[-1].metrics["self_similarity"] is None and result.layers[-1].nearest.shape == (1, 0)
    assert "<h1>bank: 1 occurrence</h1>" in senses_page([result])


@pytest.fixture(scope="module")
def file(bert, skipgram, tmp_path_factory):
    rows = [*ROWS, (HOSTILE, "<b>odd & sense</b>"), ("The bank has no sense", "")]
    results = [
        dataclasses.replace(model.senses("bank", rows), name=f"<i>{model.family}</i>") for model in (skipgram, bert)
    ]
    path = tmp_path_factory.mktemp("page") / "bank.html"
    path.write_text(senses_page(results), encoding="utf-8")
    return path


def test_page_contains_all_data(file):
    content = file.read_text(encoding="utf-8")
    assert "<img" not in content and "<b>" not in content and "<i>" not in content
    data = json.loads(re.search(r'id="data">(.*?)</script>', content)[1])
    assert [model["name"] for model in data["models"]] == ["<i>skipgram</i>", "<i>bert</i>"]
    assert data["senses"] == [["money", 3], ["river", 3], ["<b>odd & sense</b>", 1]]
    assert "".join(data["occurrences"][6][:3]) == HOSTILE and data["occurrences"][7][3] == -1
    assert [len(model["layers"]) for model in data["models"]] == [1, 3]


def positions(page, model):
    return page.eval_on_selector_all(f".card:nth-child({model}) .point", "all => all.map((p) => p.style.translate)")


def test_page_in_a_browser(file):
    with browsing() as visit:
        page = visit.open(file)
        assert page.locator(".map").count() == 2 and page.locator(".point").count() == 16
        assert len(set(positions(page, 1))) == 1 and len(set(positions(page, 2))) > 3  # static and contextual
        top = positions(page, 2)
        assert "layer 2 of 2" in page.locator(".where").nth(1).inner_text()
        page.focus("#layer")
        page.keyboard.press("ArrowLeft")
        assert "layer 1 of 2" in page.locator(".where").nth(1).inner_text() and positions(page, 2) != top
        assert page.get_attribute("#layer", "aria-valuetext") == "<i>skipgram</i> layer 0, <i>bert</i> layer 1"
        assert page.locator("tr.now").count() == 2
        page.keyboard.press("End")
        assert positions(page, 2) == top

        page.locator(".map").nth(1).focus()
        seen = set()
        for key in ["Home", *["ArrowRight", "ArrowDown", "ArrowLeft", "ArrowUp"] * 3, "End"]:
            page.keyboard.press(key)
            seen.add(page.inner_text("#reading"))
        assert len(seen) > 3 and "The bank has no sense" in page.inner_text("#reading")
        page.locator(".map").first.focus()  # all at one point: arrow keys follow the order
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
def test_page_on_a_phone(file, dark):
    with browsing(width=400, dark=dark) as visit:
        page = visit.open(file)
        assert page.evaluate("document.documentElement.scrollWidth") <= 400
        assert page.locator(".map").first.bounding_box()["width"] > 300
        visit.check()
