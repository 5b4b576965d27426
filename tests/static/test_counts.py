from itertools import pairwise

import numpy as np
import pytest

from polyseme.errors import DataError
from polyseme.static import counts
from polyseme.static.counts import WindowConfig, bounds_of, count_pairs, near_pairs
from polyseme.text.store import Store

WORDS = ["I", "like", "enjoy", "deep", "learning", "NLP", "flying", "."]
TEXT = ["I like deep learning .", "I like NLP .", "I enjoy flying ."]


def textbook():
    rows = [[WORDS.index(word) for word in sentence.split()] for sentence in TEXT]
    return np.concatenate(rows).astype(np.uint16), np.cumsum([0, *map(len, rows)])


def counted(folder, tokens, bounds, *, vocab_size, window=1, nearness="flat", **settings):
    kept = settings.pop("kept", np.ones(vocab_size, bool))
    weights = WindowConfig(window=window, nearness=nearness).weights
    return count_pairs(tokens, bounds, folder / "pairs", kept=kept, weights=weights, **settings).toarray()


def by_hand(tokens, bounds, kept, window, nearness, symmetric):
    counts = np.zeros((len(kept), len(kept)))
    for begin, end in pairwise(bounds):
        words = [word for word in tokens[begin:end].tolist() if kept[word]]
        for place, word in enumerate(words):
            for distance in range(1, min(window, place) + 1):
                weight = 1 / distance if nearness == "distance" else 1
                counts[word, words[place - distance]] += weight
                counts[words[place - distance], word] += weight * symmetric
    return counts


def some_text(vocab_size=40, num_tokens=3000):
    chance = np.random.default_rng(0)
    tokens = (chance.zipf(1.5, num_tokens) % vocab_size).astype(np.uint16)
    bounds = np.unique([0, *chance.integers(num_tokens, size=num_tokens // 15), num_tokens])
    return tokens, bounds


def test_the_textbook_counts(tmp_path):
    found = counted(tmp_path, *textbook(), vocab_size=8)
    expected = {
        ("I", "like"): 2,
        ("I", "enjoy"): 1,
        ("like", "deep"): 1,
        ("like", "NLP"): 1,
        ("enjoy", "flying"): 1,
        ("deep", "learning"): 1,
        ("learning", "."): 1,
        ("NLP", "."): 1,
        ("flying", "."): 1,
    }
    table = np.zeros((8, 8))
    for (left, right), number in expected.items():
        table[WORDS.index(left), WORDS.index(right)] = table[WORDS.index(right), WORDS.index(left)] = number
    assert np.array_equal(found, table)


@pytest.mark.parametrize("nearness", ["distance", "flat"])
@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize(("num_tokens", "stretch"), [(3000, 10_000), (3000, 700), (100, 5)])
def test_however_it_is_cut_the_counts_are_those_of_a_plain_loop(tmp_path, nearness, symmetric, num_tokens, stretch):
    tokens, bounds = some_text(num_tokens=num_tokens)
    kept = np.arange(40) != 2
    settings = {"window": 4, "nearness": nearness, "symmetric": symmetric}
    found = counted(tmp_path, tokens, bounds, vocab_size=40, kept=kept, stretch=stretch, block=50, **settings)
    np.testing.assert_allclose(found, by_hand(tokens, bounds, kept, **settings), rtol=1e-5)
    assert [path.name for path in tmp_path.iterdir()] == ["pairs"], "what was spilled is gone"
    assert {path.name for path in (tmp_path / "pairs").iterdir()} == {"starts", "columns", "values"}


def test_threads_change_nothing(tmp_path):
    tokens, bounds = some_text()
    files = []
    for num_threads in (1, 3):
        folder = tmp_path / str(num_threads)
        counted(folder, tokens, bounds, vocab_size=40, window=4, num_threads=num_threads, stretch=999, block=50)
        files.append([(folder / "pairs" / name).read_bytes() for name in ("starts", "columns", "values")])
    assert files[0] == files[1]


def test_a_word_left_out_lets_its_neighbours_meet_and_a_bound_does_not(tmp_path):
    tokens, bounds = np.array([0, 1, 2, 0, 2]), np.array([0, 3, 5])
    found = counted(tmp_path, tokens, bounds, vocab_size=3, kept=np.array([True, False, True]))
    assert found.tolist() == [[0, 0, 2], [0, 0, 0], [2, 0, 0]]


@pytest.mark.parametrize("tokens", [[], [0], [1, 1]])
def test_text_with_nothing_near_anything(tmp_path, tokens):
    kept = np.array([True, False])
    found = counted(tmp_path, np.array(tokens, np.uint16), np.array([0, len(tokens)]), vocab_size=2, kept=kept)
    assert found.tolist() == [[0, 0], [0, 0]]


def a_store():
    tokens, bounds = textbook()
    return Store(
        tokens=tokens,
        sentences=bounds,
        documents=np.array([0, 2, 3]),
        num_characters=0,
        num_words=0,
        unknown=0,
        fingerprint="textbook",
    )


def test_counts_of_a_store_are_kept(monkeypatch):
    config, kept = WindowConfig(window=1, nearness="flat"), np.ones(8, bool)
    first = near_pairs(a_store(), config, kept).toarray()
    other = near_pairs(a_store(), config.replace(within="document"), kept).toarray()
    assert first[WORDS.index("."), WORDS.index("I")] == 0
    assert other[WORDS.index("."), WORDS.index("I")] == 1, "the second document begins a new one"
    monkeypatch.setattr(counts, "count_pairs", None)
    assert np.array_equal(near_pairs(a_store(), config, kept).toarray(), first)


def test_counts_that_were_cut_short_are_made_again(tmp_path, monkeypatch):
    monkeypatch.setenv("POLYSEME_CACHE", str(tmp_path))
    config, kept = WindowConfig(window=1), np.ones(8, bool)
    first = near_pairs(a_store(), config, kept).toarray()
    (values,) = tmp_path.glob("pairs/*/values")
    values.write_bytes(values.read_bytes()[:8])
    assert np.array_equal(near_pairs(a_store(), config, kept).toarray(), first)


def test_where_documents_begin():
    assert bounds_of(a_store(), "sentence").tolist() == [0, 5, 9, 13]
    assert bounds_of(a_store(), "document").tolist() == [0, 9, 13]


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="POLYSEME_CACHE"):
        counted(tmp_path / "file", *textbook(), vocab_size=8)
