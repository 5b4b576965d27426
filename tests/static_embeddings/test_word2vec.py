"""word2vec: Huffman tree, sampling, one update by hand of each of the four variants, and whole runs."""

import numpy as np
import pytest

from polyseme.datasets.token_store import TokenStore
from polyseme.errors import DataError, TrainingError
from polyseme.objectives.sources import TokenSource
from polyseme.static_embeddings.base import TrainingInputs
from polyseme.static_embeddings.config import Word2vecConfig
from polyseme.static_embeddings.huffman import build_huffman_tree
from polyseme.static_embeddings.sampling import alias_table, keep_probabilities
from polyseme.static_embeddings.word2vec import Word2vecTrainer, shards
from polyseme.static_embeddings.word2vec_kernels import allocate_scratch, allocate_windows, update_window
from polyseme.step_schedule import StepSchedule

VARIANTS = [(kind, softmax) for kind in ("skipgram", "cbow") for softmax in ("negative", "hierarchical")]


def paths(counts):
    tree = build_huffman_tree(np.array(counts))
    bounds = zip(tree.starts, tree.starts[1:], strict=False)
    return [(tree.nodes[a:b].tolist(), (1 - tree.labels[a:b]).astype(int).tolist()) for a, b in bounds]


def test_huffman_codes_by_hand():
    # 1 and 1 merge into node 0 of 2; 2 and node 0 into node 1 of 4; 4 and node 1 into node 2 of 8. Of two equally rare
    # nodes the inner one comes first, as in the original code.
    assert paths([4, 2, 1, 1]) == [
        ([2], [1]),
        ([2, 1], [0, 1]),
        ([2, 1, 0], [0, 0, 1]),
        ([2, 1, 0], [0, 0, 0]),
    ]


def test_huffman_paths_are_in_id_order_and_empty_for_absent_words():
    assert paths([0, 1, 0, 5, 3]) == [([], []), ([1, 0], [0, 0]), ([], []), ([1], [1]), ([1, 0], [0, 1])]


def test_huffman_code_is_optimal():
    counts = np.random.default_rng(0).zipf(1.5, 500).clip(max=10**6)
    lengths = np.diff(build_huffman_tree(counts).starts)
    probabilities = counts / counts.sum()
    assert np.sum(0.5**lengths) == pytest.approx(1), "the code is complete"
    entropy = -(probabilities * np.log2(probabilities)).sum()
    assert entropy <= (probabilities * lengths).sum() < entropy + 1


def test_single_word_has_an_empty_path():
    assert paths([0, 7]) == [([], []), ([], [])]


def test_frequent_words_are_subsampled():
    # f = 0.9, 0.09, 0.01 and t = 0.01: sqrt(t / f) + t / f.
    probabilities = keep_probabilities(np.array([90, 9, 1, 0]), 0.01)
    assert probabilities == pytest.approx([np.sqrt(1 / 90) + 1 / 90, np.sqrt(1 / 9) + 1 / 9, 1, 0])
    assert keep_probabilities(np.array([90, 0]), 0.0).tolist() == [1, 0]


def probabilities_of(table):
    """The probability of each id of an alias table."""
    keep = (table >> np.uint64(32)).astype(float) / 2**32
    probabilities = keep.copy()
    np.add.at(probabilities, (table & np.uint64(0xFFFFFFFF)).astype(int), 1 - keep)
    return probabilities / len(table)


def test_alias_table_samples_by_weight():
    weights = np.array([0.0, 5.0, 1.0, 3.0, 0.0, 0.5])
    assert probabilities_of(alias_table(weights)) == pytest.approx(weights / weights.sum(), abs=1e-9)


@pytest.mark.parametrize("smoothing", [0.3, 0.75])
def test_negatives_are_sampled_from_smoothed_counts(smoothing):
    model = trainer(smoothing=smoothing)
    weights = model.inputs.word_counts() ** smoothing
    assert probabilities_of(model.negative_table) == pytest.approx(weights / weights.sum(), abs=1e-9)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


@pytest.mark.parametrize(("kind", "softmax"), VARIANTS)
def test_one_update_by_hand(kind, softmax):
    """Two context words; the targets are the center word and two negatives, or the branches on its path."""
    rng = np.random.default_rng(1)
    vectors, outputs = (rng.normal(size=(6, 5)).astype(np.float32) for _ in range(2))
    context, learning_rate = [4, 2], 0.1
    if softmax == "negative":
        targets, labels = [3, 5, 1], [1, 0, 0]
    else:
        tree = build_huffman_tree(np.array([0, 9, 4, 2, 5, 3]))
        path = slice(tree.starts[3], tree.starts[4])
        targets, labels = tree.nodes[path].tolist(), tree.labels[path].tolist()
        assert len(targets) > 1
    new_vectors, new_outputs = vectors.astype(float), outputs.astype(float)
    inputs = vectors[context].astype(float)
    inputs = inputs.mean(0, keepdims=True) if kind == "cbow" else inputs
    loss = 0.0
    for index, x in enumerate(inputs):
        for target, label in zip(targets, labels, strict=True):
            error = label - sigmoid(x @ outputs[target])
            loss -= np.log(sigmoid(x @ outputs[target] * (2 * label - 1)))
            new_outputs[target] += learning_rate * error * x
            # CBOW: each context word receives the whole update.
            for word in context if kind == "cbow" else context[index : index + 1]:
                new_vectors[word] += learning_rate * error * outputs[target]
    for measure in (True, False):
        vectors_after, outputs_after = vectors.copy(), outputs.copy()
        windows = allocate_windows(2, 5)
        for buffer, values in zip(windows, (context, len(context), targets, labels, len(targets)), strict=True):
            buffer[1, ... if np.isscalar(values) else slice(len(values))] = values
        scratch = allocate_scratch(4, 5, 5)
        measured = update_window(
            vectors_after, outputs_after, windows, 1, kind == "cbow", np.float32(learning_rate), measure, scratch
        )
        assert measured == (pytest.approx(loss, rel=1e-5) if measure else 0)
        np.testing.assert_allclose(vectors_after, new_vectors, atol=1e-4)
        np.testing.assert_allclose(outputs_after, new_outputs, atol=1e-4)


def test_shards_cover_the_repeated_corpus():
    sentences = np.array([0, 4000, 9000, 25000, 26000])
    parts = list(shards(sentences, 20_000, 80_000))
    read = [number for _, first, last in parts for number in range(first, last)]
    assert read == [3, *range(4), *range(4), 0]  # sentences that begin in the span: of 20,000 to 26,000 only the last
    assert [position for position, _, _ in parts] == [
        20_000,
        26_000,
        30_000,
        40_000,
        50_000,
        52_000,
        60_000,
        70_000,
        78_000,
    ]


def topics(num_tokens=30_000, num_topics=4, size=8):
    """Sentences of ten words of one topic each; ids 0 to 3 are special and the last word never occurs."""
    rng = np.random.default_rng(0)
    topic = np.repeat(rng.integers(num_topics, size=num_tokens // 10), 10)
    tokens = (4 + topic * size + rng.integers(size, size=num_tokens)).astype(np.uint16)
    tokens[::97] = 1  # unknown
    sentences = np.arange(0, num_tokens + 1, 10)
    return TokenStore(
        tokens=tokens,
        sentences=sentences,
        documents=np.array([0, len(sentences) - 1]),
        num_characters=num_tokens,
        num_words=num_tokens,
        num_unknown=0,
        fingerprint="",
    )


def trainer(
    kind="skipgram",
    softmax="negative",
    *,
    store=None,
    total=6,
    learning_rate=0.05,
    num_threads=1,
    seed=0,
    width=12,
    **settings,
):
    store = store or topics()
    vocab_size = 37
    is_word = np.ones(vocab_size, np.bool_)
    is_word[:4] = False
    vectors = ((np.random.default_rng(seed).random((vocab_size, width)) - 0.5) / width).astype(np.float32)
    inputs = TrainingInputs(
        vectors=vectors,
        is_word=is_word,
        source=TokenSource(store, 100, 300),
        schedule=StepSchedule(steps=total),
        learning_rate=learning_rate,
        seed=seed,
        num_threads=num_threads,
    )
    return Word2vecTrainer(Word2vecConfig(kind=kind, softmax=softmax, subsample=0, **settings), inputs)


def topic_cosines(vectors):
    """The mean cosine within topics and across topics."""
    unit = vectors[4:36] / np.linalg.norm(vectors[4:36], axis=1, keepdims=True)
    same = np.arange(32)[:, None] // 8 == np.arange(32) // 8
    cosines = unit @ unit.T
    return cosines[same & ~np.eye(32, dtype=bool)].mean(), cosines[~same].mean()


@pytest.mark.parametrize("num_threads", [1, 2])
@pytest.mark.parametrize(("kind", "softmax"), VARIANTS)
def test_vectors_separate_topics(kind, softmax, num_threads):
    model = trainer(kind, softmax, num_threads=num_threads)
    before = model.inputs.vectors.copy()
    held_out = TokenSource(topics(2_000), 100, 5)
    first = model.evaluate(held_out, num_batches=4)
    assert np.array_equal(model.inputs.vectors, before), "evaluation changes no vectors"
    steps = list(model.steps())
    same, other = topic_cosines(model.inputs.vectors)
    assert same > 0.8 and other < 0.4
    assert steps[-1].losses[kind] < steps[0].losses[kind]
    assert model.evaluate(held_out, num_batches=4)[kind] < first[kind] - 0.2
    untouched = [0, 1, 2, 3, 36]
    assert np.array_equal(model.inputs.vectors[untouched], before[untouched]), (
        "special tokens and absent words are unchanged"
    )
    assert steps[0].learning_rate == pytest.approx(0.05) and steps[-1].learning_rate == pytest.approx(0.05 / 6)


@pytest.mark.parametrize(("kind", "softmax"), VARIANTS)
def test_one_thread_is_deterministic_and_resumes_bit_exactly(kind, softmax):
    whole, again, resumed = (trainer(kind, softmax) for _ in range(3))
    states = [{name: array.copy() for name, array in whole.arrays.items()} for _ in whole.steps()]
    steps = again.steps()
    for _ in range(2):
        next(steps)
    state = again.state()
    resumed.restore(state)
    list(resumed.steps())
    for name, array in resumed.arrays.items():
        assert np.array_equal(array, states[-1][name])
        assert np.array_equal(again.arrays[name], states[1][name])
    other = trainer(kind, softmax, seed=1)
    list(other.steps())
    assert not np.array_equal(other.inputs.vectors, whole.inputs.vectors)


@pytest.mark.parametrize(("kind", "softmax"), VARIANTS)
def test_excessive_learning_rate_is_reported(kind, softmax):
    model = trainer(kind, softmax, learning_rate=1e6, total=4)
    try:
        list(model.steps())
        model.state()
    except TrainingError as error:
        assert "training.learning_rate below 1e+06" in str(error)
    else:
        assert np.isfinite(model.inputs.vectors).all()


def one_word(word):
    return TokenStore(
        tokens=np.full(500, word, np.uint16),
        sentences=np.array([0, 500]),
        documents=np.array([0, 1]),
        num_characters=1,
        num_words=1,
        num_unknown=0,
        fingerprint="",
    )


@pytest.mark.parametrize(("kind", "softmax"), VARIANTS)
def test_corpus_of_one_word_gives_finite_vectors(kind, softmax):
    model = trainer(kind, softmax, store=one_word(5))
    list(model.steps())
    assert np.isfinite(model.inputs.vectors).all()


def test_corpus_without_words_is_an_error():
    with pytest.raises(DataError, match=r"tokenizer\.min_count"):
        trainer(store=one_word(1))


def test_topic_separation_matches_gensim():
    """With the same text, settings and number of epochs, topics are separated as well as by gensim."""
    word2vec = pytest.importorskip("gensim.models").Word2Vec
    store = topics(20_000)
    sentences = [list(map(str, row)) for row in np.split(store.tokens, store.sentences[1:-1])]
    model = word2vec(
        sentences, vector_size=12, window=5, negative=5, sample=0, epochs=9, sg=1, workers=1, seed=0, alpha=0.05
    )
    theirs = np.zeros((37, 12))
    theirs[4:36] = [model.wv[str(word)] for word in range(4, 36)]
    ours = trainer(store=store, total=6)
    list(ours.steps())
    (same, other), (their_same, their_other) = topic_cosines(ours.inputs.vectors), topic_cosines(theirs)
    assert same - other > 0.9 * (their_same - their_other)
