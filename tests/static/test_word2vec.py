"""word2vec: the tree, the drawing, one step by hand of each of its four forms, and whole runs."""

import numpy as np
import pytest

from polyseme.course import Course
from polyseme.errors import DataError, TrainingError
from polyseme.objectives import Source
from polyseme.objectives.vectors import Word2vecConfig
from polyseme.static.drawing import draw_table, keep_chances
from polyseme.static.huffman import huffman
from polyseme.static.learner import Task
from polyseme.static.word2vec import Word2vec, make_room, make_windows, move, shards
from polyseme.text.store import Store

VARIANTS = [(kind, softmax) for kind in ("skipgram", "cbow") for softmax in ("negative", "hierarchical")]


def ways(counts):
    tree = huffman(np.array(counts))
    bounds = zip(tree.starts, tree.starts[1:], strict=False)
    return [(tree.nodes[a:b].tolist(), (1 - tree.answers[a:b]).astype(int).tolist()) for a, b in bounds]


def test_huffman_codes_by_hand():
    # 1 and 1 join to node 0 of 2; 2 and node 0 to node 1 of 4; 4 and node 1 to node 2 of 8. Of two that are as rare the
    # inner node comes first, as in the paper's program.
    assert ways([4, 2, 1, 1]) == [
        ([2], [1]),
        ([2, 1], [0, 1]),
        ([2, 1, 0], [0, 0, 1]),
        ([2, 1, 0], [0, 0, 0]),
    ]


def test_huffman_follows_the_ids_and_leaves_out_what_never_occurs():
    assert ways([0, 1, 0, 5, 3]) == [([], []), ([1, 0], [0, 0]), ([], []), ([1], [1]), ([1, 0], [0, 1])]


def test_huffman_is_the_shortest_code():
    counts = np.random.default_rng(0).zipf(1.5, 500).clip(max=10**6)
    lengths = np.diff(huffman(counts).starts)
    share = counts / counts.sum()
    assert np.sum(0.5**lengths) == pytest.approx(1), "every turn leads somewhere"
    entropy = -(share * np.log2(share)).sum()
    assert entropy <= (share * lengths).sum() < entropy + 1


def test_one_word_needs_no_way():
    assert ways([0, 7]) == [([], []), ([], [])]


def test_frequent_words_are_read_in_part():
    # f = 0.9, 0.09, 0.01 and t = 0.01: sqrt(t / f) + t / f.
    chances = keep_chances(np.array([90, 9, 1, 0]), 0.01)
    assert chances == pytest.approx([np.sqrt(1 / 90) + 1 / 90, np.sqrt(1 / 9) + 1 / 9, 1, 0])
    assert keep_chances(np.array([90, 0]), 0.0).tolist() == [1, 0]


def chances_of(table):
    """How likely each id of a table is drawn."""
    kept = (table >> np.uint64(32)).astype(float) / 2**32
    found = kept.copy()
    np.add.at(found, (table & np.uint64(0xFFFFFFFF)).astype(int), 1 - kept)
    return found / len(table)


def test_words_are_drawn_by_their_weights():
    weights = np.array([0.0, 5.0, 1.0, 3.0, 0.0, 0.5])
    assert chances_of(draw_table(weights)) == pytest.approx(weights / weights.sum(), abs=1e-9)


@pytest.mark.parametrize("smoothing", [0.3, 0.75])
def test_the_weights_are_smoothed_counts(smoothing):
    model = learner(smoothing=smoothing)
    weights = model.task.counts() ** smoothing
    assert chances_of(model.table) == pytest.approx(weights / weights.sum(), abs=1e-9)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


@pytest.mark.parametrize(("kind", "softmax"), VARIANTS)
def test_a_step_by_hand(kind, softmax):
    """Two words of context; against the middle word stand two others, or two turns of its way."""
    chance = np.random.default_rng(1)
    vectors, outputs = (chance.normal(size=(6, 5)).astype(np.float32) for _ in range(2))
    context, rate = [4, 2], 0.1
    if softmax == "negative":
        targets, labels = [3, 5, 1], [1, 0, 0]
    else:
        tree = huffman(np.array([0, 9, 4, 2, 5, 3]))
        way = slice(tree.starts[3], tree.starts[4])
        targets, labels = tree.nodes[way].tolist(), tree.answers[way].tolist()
        assert len(targets) > 1
    new_vectors, new_outputs = vectors.astype(float), outputs.astype(float)
    inputs = vectors[context].astype(float)
    inputs = inputs.mean(0, keepdims=True) if kind == "cbow" else inputs
    loss = 0.0
    for place, x in enumerate(inputs):
        for target, label in zip(targets, labels, strict=True):
            wrong = label - sigmoid(x @ outputs[target])
            loss -= np.log(sigmoid(x @ outputs[target] * (2 * label - 1)))
            new_outputs[target] += rate * wrong * x
            # CBOW: the whole error goes to each word of the context.
            for word in context if kind == "cbow" else context[place : place + 1]:
                new_vectors[word] += rate * wrong * outputs[target]
    for looks in (True, False):
        moved, answered = vectors.copy(), outputs.copy()
        windows = make_windows(2, 5)
        for row, values in zip(windows, (context, len(context), targets, labels, len(targets)), strict=True):
            row[1, ... if np.isscalar(values) else slice(len(values))] = values
        mean, room = kind == "cbow", make_room(4, 5, 5)
        found = move(moved, answered, windows, 1, mean, np.float32(rate), looks, room)
        assert found == (pytest.approx(loss, rel=1e-5) if looks else 0)
        np.testing.assert_allclose(moved, new_vectors, atol=1e-4)
        np.testing.assert_allclose(answered, new_outputs, atol=1e-4)


def test_shards_cover_a_text_that_is_read_over_and_over():
    sentences = np.array([0, 4000, 9000, 25000, 26000])
    parts = list(shards(sentences, 20_000, 80_000))
    read = [number for _, first, last in parts for number in range(first, last)]
    assert read == [3, *range(4), *range(4), 0]  # what begins in the stretch: of 20,000 to 26,000 only the last
    assert [place for place, _, _ in parts] == [20_000, 26_000, 30_000, 40_000, 50_000, 52_000, 60_000, 70_000, 78_000]


def topics(num_tokens=30_000, num_topics=4, size=8):
    """Sentences of ten words, each of one topic; ids 0 to 3 are special and the last word never occurs."""
    chance = np.random.default_rng(0)
    topic = np.repeat(chance.integers(num_topics, size=num_tokens // 10), 10)
    tokens = (4 + topic * size + chance.integers(size, size=num_tokens)).astype(np.uint16)
    tokens[::97] = 1  # unknown
    sentences = np.arange(0, num_tokens + 1, 10)
    return Store(
        tokens=tokens,
        sentences=sentences,
        documents=np.array([0, len(sentences) - 1]),
        num_characters=num_tokens,
        num_words=num_tokens,
        unknown=0,
        fingerprint="",
    )


def learner(
    kind="skipgram", softmax="negative", *, store=None, total=6, rate=0.05, threads=1, seed=0, width=12, **settings
):
    store = store or topics()
    vocab_size = 37
    words = np.ones(vocab_size, np.bool_)
    words[:4] = False
    vectors = ((np.random.default_rng(seed).random((vocab_size, width)) - 0.5) / width).astype(np.float32)
    task = Task(
        vectors=vectors,
        words=words,
        source=Source(store, 100, 300),
        course=Course(steps=total),
        rate=rate,
        seed=seed,
        threads=threads,
    )
    return Word2vec(Word2vecConfig(kind=kind, softmax=softmax, sample=0, **settings), task)


def near(vectors):
    """How close words of one topic are, and words of different ones."""
    unit = vectors[4:36] / np.linalg.norm(vectors[4:36], axis=1, keepdims=True)
    same = np.arange(32)[:, None] // 8 == np.arange(32) // 8
    close = unit @ unit.T
    return close[same & ~np.eye(32, dtype=bool)].mean(), close[~same].mean()


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("kind", "softmax"), VARIANTS)
def test_words_of_one_company_come_close(kind, softmax, threads):
    learning = learner(kind, softmax, threads=threads)
    before = learning.task.vectors.copy()
    held_out = Source(topics(2_000), 100, 5)
    first = learning.evaluate(held_out, num_batches=4)
    assert np.array_equal(learning.task.vectors, before), "measuring moves nothing"
    steps = list(learning.steps())
    same, other = near(learning.task.vectors)
    assert same > 0.8 and other < 0.4
    assert steps[-1].losses[kind] < steps[0].losses[kind]
    assert learning.evaluate(held_out, num_batches=4)[kind] < first[kind] - 0.2
    untouched = [0, 1, 2, 3, 36]
    assert np.array_equal(learning.task.vectors[untouched], before[untouched]), "what is no word stays"
    assert steps[0].rate == pytest.approx(0.05) and steps[-1].rate == pytest.approx(0.05 / 6)


@pytest.mark.parametrize(("kind", "softmax"), VARIANTS)
def test_one_thread_learns_the_same_again_and_goes_on_exactly(kind, softmax):
    whole, again, resumed = (learner(kind, softmax) for _ in range(3))
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
    other = learner(kind, softmax, seed=1)
    list(other.steps())
    assert not np.array_equal(other.task.vectors, whole.task.vectors)


@pytest.mark.parametrize(("kind", "softmax"), VARIANTS)
def test_a_rate_beyond_reason_ends_in_words(kind, softmax):
    learning = learner(kind, softmax, rate=1e6, total=4)
    try:
        list(learning.steps())
        learning.state()
    except TrainingError as error:
        assert "lower plan.rate than 1e+06" in str(error)
    else:
        assert np.isfinite(learning.task.vectors).all()


def one_word(word):
    return Store(
        tokens=np.full(500, word, np.uint16),
        sentences=np.array([0, 500]),
        documents=np.array([0, 1]),
        num_characters=1,
        num_words=1,
        unknown=0,
        fingerprint="",
    )


@pytest.mark.parametrize(("kind", "softmax"), VARIANTS)
def test_a_text_of_one_word_teaches_nothing_and_harms_nothing(kind, softmax):
    learning = learner(kind, softmax, store=one_word(5))
    list(learning.steps())
    assert np.isfinite(learning.task.vectors).all()


def test_a_text_without_words_is_an_error():
    with pytest.raises(DataError, match=r"lower tokenizer\.min_count"):
        learner(store=one_word(1))


def test_close_to_gensim():
    """The same text, settings and number of passes: neighbours are as clear as the peer's."""
    word2vec = pytest.importorskip("gensim.models").Word2Vec
    store = topics(20_000)
    sentences = [list(map(str, row)) for row in np.split(store.tokens, store.sentences[1:-1])]
    peer = word2vec(
        sentences, vector_size=12, window=5, negative=5, sample=0, epochs=9, sg=1, workers=1, seed=0, alpha=0.05
    )
    theirs = np.zeros((37, 12))
    theirs[4:36] = [peer.wv[str(word)] for word in range(4, 36)]
    ours = learner(store=store, total=6)
    list(ours.steps())
    (same, other), (their_same, their_other) = near(ours.task.vectors), near(theirs)
    assert same - other > 0.9 * (their_same - their_other)
