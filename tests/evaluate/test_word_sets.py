"""Sets of words: read, held against vectors, and counted."""

import numpy as np
import pytest

import polyseme as ps
from polyseme.errors import ConfigError, DataError
from polyseme.evaluate.word_sets import read_sets

PEOPLE = "man 1 1\nwoman 1 -1\nking 3 1\nqueen 3 -1\nboy 1 1.2\nprince 3 1.4\ncat -5 2\n"
ANALOGIES = ": family\nman king woman queen\nman king boy queen\nman king cat dog\n: gram1-plural\ncat cats dog dogs\n"


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "people.txt"
    path.write_text(PEOPLE)
    return ps.load(path)


@pytest.fixture
def sets(tmp_path):
    folder = tmp_path / "sets"
    folder.mkdir()
    # Cosines: man boy .99, king queen .8, king cat -.76; people say boy, cat, queen, so one pair of three is exchanged.
    (folder / "pairs.tsv").write_text(
        "word_a\tword_b\tscore\nman\tboy\t9\nking\tqueen\t2\nKing\tcat\t3.5\nking\tdog\t1\nking\tking\t10\n"
    )
    (folder / "analogies.txt").write_text(ANALOGIES)
    (folder / "README.md").write_text("not a set")
    return folder


def test_words(model, sets):
    analogies, family, plural, pairs = sorted(model.evaluate(sets), key=lambda score: (score.name, score.section))
    assert (pairs.measure, pairs.num_found, pairs.num_items) == ("spearman", 4, 5)
    assert pairs.value == pytest.approx(0.8)  # ranks 1 2 3 4 against 1 3 2 4: 1 - 6 * 2 / (4 * 15)
    assert (family.section, family.num_found, family.num_items) == ("family", 2, 3)
    assert (family.value, family.error) == (0.5, 0.5)  # a boy who is king is a prince; one of two is right
    assert (plural.section, plural.value, plural.num_found, plural.num_items) == ("gram1-plural", None, 0, 1)
    assert (analogies.section, analogies.value, analogies.num_found, analogies.num_items) == ("", 0.5, 2, 4)
    assert model.evaluate(sets / "pairs.tsv") == [pairs]
    assert model.evaluate(sets / "analogies.txt", method="3cosmul")[-1].num_found == 2


def test_many_questions_are_asked_in_parts(model, sets, monkeypatch):
    expected = model.evaluate(sets)
    monkeypatch.setattr("polyseme.evaluate.word_sets._CHUNK", 1)
    assert model.evaluate(sets) == expected


@pytest.mark.parametrize("pairs", ["man\tking\t1\n", "man\tking\t1\nboy\tprince\t1\n", "dog\thorse\t1\n"])
def test_no_order_to_agree_about(model, tmp_path, pairs):
    (tmp_path / "pairs.tsv").write_text(pairs)
    assert model.evaluate(tmp_path / "pairs.tsv")[0].value is None


def test_other_ways_to_write_pairs(tmp_path):
    path = tmp_path / "pairs.txt"
    path.write_bytes("\ufeff# from a paper\r\nman boy 9\r\n\r\nnew york\tcity\t2.5\textra\r\n".encode())
    assert read_sets(path)[0].sections == {"": [["man", "boy"], ["new york", "city"]]}
    assert read_sets(path)[0].scores == [9, 2.5]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("", "holds no words; give pairs with a score, or analogies"),
        (": family\n", "holds no words"),
        ("word_a\tword_b\tscore\n", "holds no words"),
        (": family\nman king woman\n", "line 2: an analogy is four words"),
        ("man\tking\t1\nman\tking\n", "line 2: a pair is two words and a score, between tabs"),
        ("man\tking\t1\nman\tking\tmuch\n", "line 2: a pair is two words and a score"),
        ("man\tking\t1\nman\tking\tnan\n", "line 2: a pair is two words and a score"),
        ("man king\n", "line 1: a pair is two words and a score"),
        ("\x00\xff", "line 1: a pair is two words and a score"),
    ],
)
def test_sets_that_are_broken(model, tmp_path, content, why):
    path = tmp_path / "set.tsv"
    path.write_bytes(content.encode("latin-1"))
    with pytest.raises(DataError, match=why):
        model.evaluate(path)


def test_sets_that_are_not_there(model, tmp_path):
    with pytest.raises(DataError, match=r"nowhere cannot be read \(No such file or directory\)"):
        model.evaluate(tmp_path / "nowhere")
    (tmp_path / "folder").mkdir()
    with pytest.raises(DataError, match=r"folder holds no sets of words; give a folder with \.tsv or \.txt files"):
        model.evaluate(tmp_path / "folder")
    with pytest.raises(ConfigError, match="'word' is no suite; did you mean words"):
        model.evaluate(tmp_path, suite="word")


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_gensim_says_the_same(tmp_path):
    models = pytest.importorskip("gensim.models")
    from polyseme.interchange.word_vectors import write_vectors

    chance = np.random.default_rng(0)
    words = [f"word{number}" for number in range(50)]
    # In rows of five that differ by the same, so that some analogies hold.
    vectors = chance.normal(size=(10, 1, 4)) + chance.normal(size=(1, 5, 4)) + 0.5 * chance.normal(size=(10, 5, 4))
    write_vectors(tmp_path / "vectors", words, vectors.reshape(50, 4).astype(np.float32), "word2vec-text")
    pairs = [(words[a], words[b], chance.integers(10)) for a, b in chance.integers(50, size=(40, 2))]
    (tmp_path / "pairs.tsv").write_text("".join(f"{a}\t{b}\t{score}\n" for a, b, score in pairs))
    items = [
        (words[5 * row], words[5 * row + column], words[5 * other], words[5 * other + column])
        for row in range(10)
        for other in range(10)
        for column in range(1, 5)
        if row != other
    ]
    (tmp_path / "analogies.txt").write_text(": all\n" + "".join(" ".join(item) + "\n" for item in items))

    theirs = models.KeyedVectors.load_word2vec_format(tmp_path / "vectors")
    ours = ps.load(tmp_path / "vectors")
    _, spearman, _ = theirs.evaluate_word_pairs(str(tmp_path / "pairs.tsv"))
    accuracy, _ = theirs.evaluate_word_analogies(str(tmp_path / "analogies.txt"))
    assert ours.evaluate(tmp_path / "pairs.tsv")[0].value == pytest.approx(spearman[0], abs=1e-6)
    assert 0 < accuracy < 1 and ours.evaluate(tmp_path / "analogies.txt")[-1].value == pytest.approx(accuracy)
