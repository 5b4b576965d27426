"""Word sense disambiguation by layer: sense-labelled occurrences (CoarseWSD) and pairs of contexts (WiC)."""

import math

import numpy as np
import pytest

import polyseme as ps
from polyseme.analysis.occurrences import WordForms, read_occurrences
from polyseme.datasets.town.writers import write_town
from polyseme.errors import DataError
from polyseme.evaluation import word_senses as senses
from polyseme.evaluation.word_senses import find_sets, tune_threshold

VECTORS = "bank 1 0\nBank 0 1\nbanks 1 1\nriver 0 1\n"


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "words.txt"
    path.write_text(VECTORS)
    return ps.load(path)


@pytest.fixture
def words(tmp_path):
    """Capitalised banks are rivers, with one exception per file; all springs have the same vector."""
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
    results = model.evaluate(words, suite="senses")
    assert [(f.name, f.section) for f in results] == [
        (name, section) for name in ("bank", "spring", "words") for section in ("static", "layer 0")
    ]
    static, layer, *springs, all_static, all_words = results
    assert {f.metric for f in results} == {"balanced 1-NN accuracy"}
    assert (static.value, static.standard_error, static.num_scored, static.num_items) == (0.5, None, 4, 4)
    assert layer.value == 0.75 and layer.standard_error == pytest.approx(
        math.sqrt(0.5 / 2) / 2
    )  # all of money, half of river
    assert [spring.value for spring in springs] == pytest.approx([0.5, 0.5]) and springs[1].standard_error is None
    assert all_static.value == 0.5 and all_words.value == pytest.approx(0.625) and all_words.num_items == 7
    assert all_words.standard_error is None  # one word has no standard error
    assert model.evaluate(words, suite="senses", most=2, seed=3) == model.evaluate(
        words, suite="senses", most=2, seed=3
    )


def test_word_column_names_the_word(model, tmp_path):
    folder = tmp_path / "together"
    folder.mkdir()
    rows = "".join(f"{word}\t0\t{end}\t{word}\t{sense}\n" for word, end, sense in [("bank", 4, "a"), ("Bank", 4, "b")])
    for split in ("train", "test"):
        (folder / f"{split}.tsv").write_text("text\tstart\tend\tword\tsense\n" + rows.replace("\tBank\t", "\tbank\t"))
    static, layer = model.evaluate(folder, suite="senses")
    assert (static.name, static.value) == ("bank", 0.5) and layer.value == 1.0


def test_subfolders_are_searched(model, words, tmp_path):
    assert model.evaluate(tmp_path, suite="senses") == model.evaluate(words, suite="senses")
    assert [found.name for found in find_sets(words)] == ["bank", "spring"]


PAIRS = "word\tindex_a\tindex_b\ttext_a\ttext_b\tlabel\n"


@pytest.fixture
def pairs(tmp_path):
    """Same sense if spelled the same: all training pairs, two of three test pairs."""
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
    assert layer.standard_error == pytest.approx(1 / 3)
    assert chosen.section == "layer 0, chosen on train.tsv" and chosen.value == layer.value
    monkeypatch.setattr(senses, "_PAIR_BATCH", 1)
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


def test_threshold_is_optimal():
    rng = np.random.default_rng(0)
    for _ in range(50):
        cosines = np.round(rng.normal(size=12), 1)
        same = rng.random(12) < 0.5
        threshold, accuracy = tune_threshold(cosines, same)
        tried = [((cosines >= at) == same).mean() for at in [-9, *cosines, 9]]
        assert ((cosines >= threshold) == same).mean() == pytest.approx(accuracy) == max(tried)


@pytest.mark.parametrize(
    ("train", "test", "why"),
    [
        (
            "text\tindex\tsense\nbank\t0\ta\n",
            "text\tindex\tsense\nbank\t0\ta\n",
            "bank has fewer than two senses",
        ),
        ("text\tindex\tsense\n", "text\tindex\tsense\nbank\t0\ta\n", r"test\.tsv shares no word with"),
        ("text\tsense\nbank\ta\n", "text\tsense\nbank\ta\n", "line 2: the position of the word is missing; give index"),
        ("text\tindex\nbank\t0\n", "text\tindex\nbank\t0\n", "line 2: the sense is missing; write it in a column"),
        (PAIRS, PAIRS, r"shares no word|has no pairs|no column"),
        (PAIRS + "w\t0\t0\ta\tb\tmaybe\n", PAIRS, r"the label must be same or different \('maybe'\)"),
        (PAIRS + "w\t0\t\ta\tb\tsame\n", PAIRS, "the position of the word is missing; give index_b, or start_b"),
        (PAIRS + "w\t0\t7\ta\tb\tsame\n", PAIRS, "the text has no such word"),
        (PAIRS + "w\t0\t0\ta\tb\tsame\n", PAIRS, r"test\.tsv has no pairs"),
    ],
)
def test_malformed_set_is_refused(model, tmp_path, train, test, why):
    folder = tmp_path / "broken"
    folder.mkdir()
    (folder / "train.tsv").write_text(train)
    (folder / "test.tsv").write_text(test)
    with pytest.raises(DataError, match=why):
        model.evaluate(folder, suite="senses")


def test_missing_set_is_refused(model, tmp_path):
    with pytest.raises(DataError, match="is not a folder; give one with"):
        model.evaluate(tmp_path / "nowhere", suite="senses")
    (tmp_path / "folder").mkdir()
    with pytest.raises(DataError, match="has no sense files; give a folder with"):
        model.evaluate(tmp_path / "folder", suite="senses")


def test_town_sample(model, tmp_path):
    """The sample has many words in one file."""
    write_town(tmp_path, languages=["en"], num_documents=16, num_rows=320)
    found = {occurrence.sense for occurrence in read_occurrences(tmp_path / "senses", WordForms("spring"))}
    results = model.evaluate(tmp_path / "senses", suite="senses")
    springs = [result for result in results if result.name == "spring"]
    assert springs[0].value == pytest.approx(1 / len(found)) and results[-1].name == "senses"
