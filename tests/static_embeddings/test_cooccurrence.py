from itertools import pairwise

import numpy as np
import pytest

from polyseme.datasets.token_store import TokenStore
from polyseme.static_embeddings import cooccurrence as counts
from polyseme.static_embeddings.cooccurrence import (
    WindowConfig,
    cooccurrence_counts,
    count_cooccurrences,
    window_bounds,
)

WORDS = ["I", "like", "enjoy", "deep", "learning", "NLP", "flying", "."]
TEXT = ["I like deep learning .", "I like NLP .", "I enjoy flying ."]


def textbook():
    rows = [[WORDS.index(word) for word in sentence.split()] for sentence in TEXT]
    return np.concatenate(rows).astype(np.uint16), np.cumsum([0, *map(len, rows)])


def count(folder, tokens, bounds, *, vocab_size, window=1, weighting="flat", **settings):
    include = settings.pop("include", np.ones(vocab_size, bool))
    weights = WindowConfig(window=window, distance_weighting=weighting).weights
    return count_cooccurrences(tokens, bounds, folder, include=include, weights=weights, **settings).toarray()


def reference_counts(tokens, bounds, include, window, weighting, symmetric):
    counts = np.zeros((len(include), len(include)))
    for begin, end in pairwise(bounds):
        words = [word for word in tokens[begin:end].tolist() if include[word]]
        for position, word in enumerate(words):
            for distance in range(1, min(window, position) + 1):
                weight = 1 / distance if weighting == "distance" else 1
                counts[word, words[position - distance]] += weight
                counts[words[position - distance], word] += weight * symmetric
    return counts


def random_text(vocab_size=40, num_tokens=3000):
    rng = np.random.default_rng(0)
    tokens = (rng.zipf(1.5, num_tokens) % vocab_size).astype(np.uint16)
    bounds = np.unique([0, *rng.integers(num_tokens, size=num_tokens // 15), num_tokens])
    return tokens, bounds


def test_textbook_counts(tmp_path):
    counted = count(tmp_path, *textbook(), vocab_size=8)
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
    assert np.array_equal(counted, table)


@pytest.mark.parametrize("weighting", ["distance", "flat"])
@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize(("num_tokens", "chunk"), [(3000, 10_000), (3000, 700), (100, 5)])
def test_chunked_counts_match_a_plain_loop(tmp_path, weighting, symmetric, num_tokens, chunk):
    tokens, bounds = random_text(num_tokens=num_tokens)
    include = np.arange(40) != 2
    settings = {"window": 4, "weighting": weighting, "symmetric": symmetric}
    counted = count(tmp_path, tokens, bounds, vocab_size=40, include=include, chunk=chunk, block=50, **settings)
    np.testing.assert_allclose(counted, reference_counts(tokens, bounds, include, **settings), rtol=1e-5)
    assert {path.name for path in tmp_path.iterdir()} == {"starts", "columns", "values"}, "parts are deleted"


def test_counts_do_not_depend_on_the_number_of_threads(tmp_path):
    tokens, bounds = random_text()
    files = []
    for num_threads in (1, 3):
        folder = tmp_path / str(num_threads)
        count(folder, tokens, bounds, vocab_size=40, window=4, num_threads=num_threads, chunk=999, block=50)
        files.append([(folder / name).read_bytes() for name in ("starts", "columns", "values")])
    assert files[0] == files[1]


def test_windows_skip_excluded_words_but_do_not_cross_bounds(tmp_path):
    tokens, bounds = np.array([0, 1, 2, 0, 2]), np.array([0, 3, 5])
    counted = count(tmp_path, tokens, bounds, vocab_size=3, include=np.array([True, False, True]))
    assert counted.tolist() == [[0, 0, 2], [0, 0, 0], [2, 0, 0]]


@pytest.mark.parametrize("tokens", [[], [0], [1, 1]])
def test_text_without_cooccurrences(tmp_path, tokens):
    include = np.array([True, False])
    counted = count(tmp_path, np.array(tokens, np.uint16), np.array([0, len(tokens)]), vocab_size=2, include=include)
    assert counted.tolist() == [[0, 0], [0, 0]]


def textbook_store():
    tokens, bounds = textbook()
    return TokenStore(
        tokens=tokens,
        sentences=bounds,
        documents=np.array([0, 2, 3]),
        num_characters=0,
        num_words=0,
        num_unknown=0,
        fingerprint="textbook",
    )


def test_counts_of_a_store_are_cached(monkeypatch):
    config, include = WindowConfig(window=1, distance_weighting="flat"), np.ones(8, bool)
    first = cooccurrence_counts(textbook_store(), config, include).toarray()
    other = cooccurrence_counts(textbook_store(), config.replace(within="document"), include).toarray()
    assert first[WORDS.index("."), WORDS.index("I")] == 0
    assert other[WORDS.index("."), WORDS.index("I")] == 1, "sentences of a document share windows"
    monkeypatch.setattr(counts, "count_cooccurrences", None)
    assert np.array_equal(cooccurrence_counts(textbook_store(), config, include).toarray(), first)


def test_truncated_cache_entries_are_recomputed(tmp_path, monkeypatch):
    monkeypatch.setenv("POLYSEME_CACHE", str(tmp_path))
    config, include = WindowConfig(window=1), np.ones(8, bool)
    first = cooccurrence_counts(textbook_store(), config, include).toarray()
    (values,) = tmp_path.glob("pairs/*/values")
    values.write_bytes(values.read_bytes()[:8])
    assert np.array_equal(cooccurrence_counts(textbook_store(), config, include).toarray(), first)


def test_window_bounds_of_sentences_and_documents():
    assert window_bounds(textbook_store(), "sentence").tolist() == [0, 5, 9, 13]
    assert window_bounds(textbook_store(), "document").tolist() == [0, 9, 13]
