"""Word similarity and analogy sets: parsing, scoring, OOV words."""

import numpy as np
import pytest

import polyseme as ps
from polyseme.errors import ConfigError, DataError
from polyseme.evaluation.word_similarity import read_sets

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
    # Cosines: man boy .99, king queen .8, king cat -.76; the human order is boy, cat, queen: one pair swapped.
    (folder / "pairs.tsv").write_text(
        "word_a\tword_b\tscore\nman\tboy\t9\nking\tqueen\t2\nKing\tcat\t3.5\nking\tdog\t1\nking\tking\t10\n"
    )
    (folder / "analogies.txt").write_text(ANALOGIES)
    (folder / "README.md").write_text("not a set")
    return folder


def test_similarity_and_analogies(model, sets):
    analogies, family, plural, pairs = sorted(model.evaluate(sets), key=lambda score: (score.name, score.section))
    assert (pairs.metric, pairs.num_scored, pairs.num_items) == ("spearman", 4, 5)
    assert pairs.value == pytest.approx(0.8)  # ranks 1 2 3 4 against 1 3 2 4: 1 - 6 * 2 / (4 * 15)
    assert (family.section, family.num_scored, family.num_items) == ("family", 2, 3)
    assert (family.value, family.standard_error) == (0.5, 0.5)  # man:king::boy:prince, so one of two is correct
    assert (plural.section, plural.value, plural.num_scored, plural.num_items) == ("gram1-plural", None, 0, 1)
    assert (analogies.section, analogies.value, analogies.num_scored, analogies.num_items) == ("", 0.5, 2, 4)
    assert model.evaluate(sets / "pairs.tsv") == [pairs]
    assert [outcome is None for outcome in pairs.outcomes] == [False, False, False, True, False]  # no dog
    known = [outcome for outcome in analogies.outcomes if outcome is not None]
    assert sorted(known) == [0, 1] and len(analogies.outcomes) == 4
    assert model.evaluate(sets / "analogies.txt", method="3cosmul")[-1].num_scored == 2


def test_chunked_scoring_gives_the_same_result(model, sets, monkeypatch):
    expected = model.evaluate(sets)
    monkeypatch.setattr("polyseme.evaluation.word_similarity._CHUNK", 1)
    assert model.evaluate(sets) == expected


@pytest.mark.parametrize("pairs", ["man\tking\t1\n", "man\tking\t1\nboy\tprince\t1\n", "dog\thorse\t1\n"])
def test_correlation_is_undefined_without_two_ranks(model, tmp_path, pairs):
    (tmp_path / "pairs.tsv").write_text(pairs)
    assert model.evaluate(tmp_path / "pairs.tsv")[0].value is None


def test_parser_accepts_comments_spaces_and_extra_columns(tmp_path):
    path = tmp_path / "pairs.txt"
    path.write_bytes("\ufeff# from a paper\r\nman boy 9\r\n\r\nnew york\tcity\t2.5\textra\r\n".encode())
    assert read_sets(path)[0].sections == {"": [["man", "boy"], ["new york", "city"]]}
    assert read_sets(path)[0].scores == [9, 2.5]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("", "has no words; give scored word pairs, or analogies"),
        (": family\n", "has no words"),
        ("word_a\tword_b\tscore\n", "has no words"),
        (": family\nman king woman\n", "line 2: an analogy has four words"),
        ("man\tking\t1\nman\tking\n", "line 2: a pair has two words and a score"),
        ("man\tking\t1\nman\tking\tmuch\n", "line 2: a pair has two words and a score"),
        ("man\tking\t1\nman\tking\tnan\n", "line 2: a pair has two words and a score"),
        ("man king\n", "line 1: a pair has two words and a score"),
        ("\x00\xff", "line 1: a pair has two words and a score"),
    ],
)
def test_malformed_set_is_refused(model, tmp_path, content, why):
    path = tmp_path / "set.tsv"
    path.write_bytes(content.encode("latin-1"))
    with pytest.raises(DataError, match=why):
        model.evaluate(path)


def test_missing_set_is_refused(model, tmp_path):
    with pytest.raises(DataError, match=r"nowhere cannot be read \(No such file or directory\)"):
        model.evaluate(tmp_path / "nowhere")
    (tmp_path / "folder").mkdir()
    with pytest.raises(DataError, match=r"folder has no word sets; give a folder with \.tsv or \.txt files"):
        model.evaluate(tmp_path / "folder")
    with pytest.raises(ConfigError, match="unknown suite 'word'; did you mean words"):
        model.evaluate(tmp_path, suite="word")


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_results_equal_gensim(tmp_path):
    models = pytest.importorskip("gensim.models")
    from polyseme.conversion.word_vector_files import write_word_vectors

    rng = np.random.default_rng(0)
    words = [f"word{number}" for number in range(50)]
    # Rows of five with common offsets, so that some analogies hold.
    vectors = rng.normal(size=(10, 1, 4)) + rng.normal(size=(1, 5, 4)) + 0.5 * rng.normal(size=(10, 5, 4))
    write_word_vectors(tmp_path / "vectors", words, vectors.reshape(50, 4).astype(np.float32), "word2vec-text")
    pairs = [(words[a], words[b], rng.integers(10)) for a, b in rng.integers(50, size=(40, 2))]
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
