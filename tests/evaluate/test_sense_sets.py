"""Senses told by layer: occurrences with senses, and pairs with the same sense or not."""

import math

import numpy as np
import pytest

import polyseme as ps
from polyseme.errors import DataError
from polyseme.evaluate import senses
from polyseme.evaluate.senses import find_sets, tune_threshold
from polyseme.inside.occurrences import Forms, read_occurrences
from polyseme.text.town import write

VECTORS = "bank 1 0\nBank 0 1\nbanks 1 1\nriver 0 1\n"


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "words.txt"
    path.write_text(VECTORS)
    return ps.load(path)


@pytest.fixture
def words(tmp_path):
    """Capitals are rivers, but for one in each file; all springs are the same."""
    folder = tmp_path / "words"
    folder.mkdir()
    (folder / "bank.train.tsv").write_text(
        "index\ttext\tsense\n1\tthe bank x\tmoney\n0\tbank y\tmoney\n1\tthe Bank\triver\n0\tBank z\triver\n"
    )
    (folder / "bank.test.tsv").write_text(
        "index\ttext\tsense\n1\tat bank\tmoney\n1\tto bank\tmoney\n1\tat Bank\triver\n1\tto bank\triver\n"
    )
    for split in ("train", "test"):
        (folder / f"spring.{split}.tsv").write_text(
            "text\tstart\tend\tsense\na spring\t2\t8\twater\nspring b\t0\t6\tseason\nspring c\t0\t6\tseason\n"
        )
    (folder / "README.md").write_text("not a set")
    return folder


def test_words(model, words):
    figures = model.evaluate(words, suite="senses")
    assert [(f.name, f.section) for f in figures] == [
        (name, section) for name in ("bank", "spring", "words") for section in ("static", "layer 0")
    ]
    static, layer, *springs, all_static, all_words = figures
    assert {f.measure for f in figures} == {"balanced 1-NN accuracy"}
    assert (static.value, static.error, static.num_found, static.num_items) == (0.5, None, 4, 4)
    assert layer.value == 0.75 and layer.error == pytest.approx(math.sqrt(0.5 / 2) / 2)  # all money, half of the rivers
    assert [spring.value for spring in springs] == pytest.approx([0.5, 0.5]) and springs[1].error is None
    assert all_static.value == 0.5 and all_words.value == pytest.approx(0.625) and all_words.num_items == 7
    assert all_words.error is None  # one of its words has none
    assert model.evaluate(words, suite="senses", most=2, seed=3) == model.evaluate(
        words, suite="senses", most=2, seed=3
    )


def test_a_column_names_the_word(model, tmp_path):
    folder = tmp_path / "together"
    folder.mkdir()
    rows = "".join(f"{word}\t0\t{end}\t{word}\t{sense}\n" for word, end, sense in [("bank", 4, "a"), ("Bank", 4, "b")])
    for split in ("train", "test"):
        (folder / f"{split}.tsv").write_text("text\tstart\tend\tword\tsense\n" + rows.replace("\tBank\t", "\tbank\t"))
    static, layer = model.evaluate(folder, suite="senses")
    assert (static.name, static.value) == ("bank", 0.5) and layer.value == 1.0


def test_folders_of_folders(model, words, tmp_path):
    assert model.evaluate(tmp_path, suite="senses") == model.evaluate(words, suite="senses")
    assert [found.name for found in find_sets(words)] == ["bank", "spring"]


PAIRS = "word\tindex_a\tindex_b\ttext_a\ttext_b\tlabel\n"


@pytest.fixture
def pairs(tmp_path):
    """The same where the word is written alike: all to learn from, two of three to measure on."""
    folder = tmp_path / "pairs"
    folder.mkdir()
    (folder / "train.tsv").write_text(
        PAIRS + "bank\t0\t1\tbank a\tthe bank\tsame\nbank\t0\t0\tBank\tbank\tdifferent\n"
        "bank\t0\t0\tbanks\tbank\tdifferent\nbank\t0\t0\tbanks\tBank\tdifferent\n"
    )
    (folder / "test.tsv").write_text(
        PAIRS + "bank\t0\t0\tBank\tBank\tT\nbank\t0\t0\tbank\tBank\tF\nbank\t0\t0\tbanks\tbank\tT\n"
    )
    return folder


def test_pairs(model, pairs, monkeypatch):
    majority, layer, chosen = model.evaluate(pairs, suite="senses")
    assert (majority.section, majority.value) == ("majority", pytest.approx(1 / 3))
    assert (layer.section, layer.value, layer.num_items) == ("layer 0", pytest.approx(2 / 3), 3)
    assert layer.error == pytest.approx(1 / 3)
    assert chosen.section == "layer 0, chosen on train.tsv" and chosen.value == layer.value
    monkeypatch.setattr(senses, "_PAIRS", 1)
    assert model.evaluate(pairs, suite="senses") == [majority, layer, chosen]


@pytest.mark.parametrize(
    ("cosines", "same", "threshold", "accuracy"),
    [
        ([0.1, 0.2, 0.8, 0.9], [0, 0, 1, 1], 0.5, 1.0),
        ([0.9, 0.1, 0.8, 0.2], [1, 0, 1, 0], 0.5, 1.0),
        ([0.1, 0.5, 0.5, 0.5], [0, 1, 0, 1], 0.3, 0.75),
        ([0.5, 0.5], [1, 1], -math.inf, 1.0),
        ([0.5, 0.5, 0.6], [0, 0, 0], math.inf, 1.0),
        ([0.7], [0], math.inf, 1.0),
    ],
)
def test_thresholds(cosines, same, threshold, accuracy):
    found = tune_threshold(np.array(cosines), np.array(same, dtype=bool))
    assert found == (pytest.approx(threshold), accuracy)


def test_thresholds_are_the_best():
    chance = np.random.default_rng(0)
    for _ in range(50):
        cosines = np.round(chance.normal(size=12), 1)
        same = chance.random(12) < 0.5
        threshold, accuracy = tune_threshold(cosines, same)
        tried = [((cosines >= at) == same).mean() for at in [-9, *cosines, 9]]
        assert ((cosines >= threshold) == same).mean() == pytest.approx(accuracy) == max(tried)


@pytest.mark.parametrize(
    ("train", "test", "why"),
    [
        (
            "text\tindex\tsense\nbank\t0\ta\n",
            "text\tindex\tsense\nbank\t0\ta\n",
            "bank has no two senses that stand in",
        ),
        ("text\tindex\tsense\n", "text\tindex\tsense\nbank\t0\ta\n", r"test\.tsv has no word of"),
        ("text\tsense\nbank\ta\n", "text\tsense\nbank\ta\n", "line 2: it does not say where the word is; give index"),
        ("text\tindex\nbank\t0\n", "text\tindex\nbank\t0\n", "line 2: it has no sense; write it in a column"),
        (PAIRS, PAIRS, r"has no word of|holds no pairs|no column"),
        (PAIRS + "w\t0\t0\ta\tb\tmaybe\n", PAIRS, r"the label is neither same nor different \('maybe'\)"),
        (PAIRS + "w\t0\t\ta\tb\tsame\n", PAIRS, "it does not say where the word is; give index_b, or start_b"),
        (PAIRS + "w\t0\t7\ta\tb\tsame\n", PAIRS, "the text has no such word"),
        (PAIRS + "w\t0\t0\ta\tb\tsame\n", PAIRS, r"test\.tsv holds no pairs"),
    ],
)
def test_sets_that_are_broken(model, tmp_path, train, test, why):
    folder = tmp_path / "broken"
    folder.mkdir()
    (folder / "train.tsv").write_text(train)
    (folder / "test.tsv").write_text(test)
    with pytest.raises(DataError, match=why):
        model.evaluate(folder, suite="senses")


def test_sets_that_are_not_there(model, tmp_path):
    with pytest.raises(DataError, match="is no folder; give one with"):
        model.evaluate(tmp_path / "nowhere", suite="senses")
    (tmp_path / "folder").mkdir()
    with pytest.raises(DataError, match="holds no senses; give a folder with"):
        model.evaluate(tmp_path / "folder", suite="senses")


def test_the_town(model, tmp_path):
    """Its own sets have many words in one file."""
    write(tmp_path, languages=["en"], num_documents=16, num_rows=320)
    found = {occurrence.sense for occurrence in read_occurrences(tmp_path / "senses", Forms("spring"))}
    figures = model.evaluate(tmp_path / "senses", suite="senses")
    springs = [figure for figure in figures if figure.name == "spring"]
    assert springs[0].value == pytest.approx(1 / len(found)) and figures[-1].name == "senses"
