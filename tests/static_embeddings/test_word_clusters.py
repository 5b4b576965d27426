import itertools
import math

import numpy as np
import pytest
from scipy.sparse import csr_array
from tests.static_embeddings.training_inputs import inputs_of, store_of

import polyseme as ps
from polyseme.errors import DataError
from polyseme.static_embeddings.config import WordClusterConfig
from polyseme.static_embeddings.word_clusters import Bigrams, WordClusterTrainer, mutual_information
from polyseme.training.storage.manifest import find_changes


def grammar(num_sentences=200, kinds=(4, 3, 5), seed=0):
    """Sentences of an article, a noun and a verb, twice; word frequencies within a kind are geometric."""
    rng = np.random.default_rng(seed)
    firsts = np.cumsum([0, *kinds])
    return [
        [firsts[kind] + min(rng.geometric(0.4) - 1, number - 1) for kind, number in [*enumerate(kinds)] * 2]
        for _ in range(num_sentences)
    ]


def random_sentences(num_sentences=60, num_words=9, seed=0):
    rng = np.random.default_rng(seed)
    return [list(rng.zipf(1.4, rng.integers(1, 9)) % num_words) for _ in range(num_sentences)]


def trainer(sentences, *, num_classes, vocab_size=None, total=8, **settings):
    vocab_size = vocab_size or 1 + max(map(max, sentences))
    store = store_of(sentences, fingerprint=str(sentences))
    return WordClusterTrainer(
        WordClusterConfig(**settings), inputs_of(store, vocab_size=vocab_size, width=num_classes, total=total)
    )


def likelihood(sentences, classes):
    """The log-likelihood of the second words of all bigrams: log p(class | class before) p(word | class)."""
    pairs = [pair for sentence in sentences for pair in itertools.pairwise(sentence)]
    total = 0.0
    for before, word in pairs:
        first, second = classes[before], classes[word]
        both = sum(classes[a] == first and classes[b] == second for a, b in pairs)
        first_count = sum(classes[a] == first for a, _ in pairs)
        second_count = sum(classes[b] == second for _, b in pairs)
        word_count = sum(b == word for _, b in pairs)
        total += math.log(both / first_count * word_count / second_count)
    return total, len(pairs)


def table_of(sentences, classes, num_classes):
    table = np.zeros((num_classes, num_classes), np.int64)
    for sentence in sentences:
        for before, word in itertools.pairwise(sentence):
            if classes[before] >= 0 and classes[word] >= 0:
                table[classes[before], classes[word]] += 1
    return table


def groups(classes):
    return {frozenset(np.flatnonzero(classes == number).tolist()) for number in set(classes.tolist()) - {-1}}


def test_mutual_information_by_hand():
    assert mutual_information(np.array([[2, 0], [0, 2]])) == pytest.approx(math.log(2))
    assert mutual_information(np.array([[1, 1], [1, 1]])) == pytest.approx(0)
    # p = 1/2, 1/4, 1/4; rows 3/4, 1/4; columns 3/4, 1/4.
    expected = 0.5 * math.log(0.5 / 0.5625) + 2 * 0.25 * math.log(0.25 / 0.1875)
    assert mutual_information(np.array([[2, 1], [1, 0]])) == pytest.approx(expected)


def test_bigrams_by_hand():
    # 0 1 1 0 | 2 0; the repeated 1 1 is counted separately.
    store = [[0, 1, 1, 0], [2, 0]]
    bigrams = trainer(store, num_classes=2).bigrams
    assert bigrams.repeats.tolist() == [0, 1, 0]
    assert bigrams.after.starts.tolist() == [0, 1, 2, 3]
    assert (bigrams.after.words.tolist(), bigrams.after.counts.tolist()) == ([1, 0, 0], [1, 1, 1])
    assert bigrams.second_counts.tolist() == [2, 2, 0]
    assert bigrams.class_counts(np.array([0, 1, 1]), 2).tolist() == [[0, 1], [2, 1]]
    assert bigrams.class_counts(np.array([0, 1, -1]), 2).tolist() == [[0, 1], [1, 1]]


def test_special_tokens_have_no_bigrams():
    counts = csr_array(np.array([[1, 2], [3, 4]], np.float32))
    bigrams = Bigrams.of(counts, np.array([True, False]))
    assert bigrams.class_counts(np.array([0, 1]), 2).tolist() == [[1, 0], [0, 0]]


@pytest.mark.parametrize("method", ["exchange", "brown"])
def test_words_of_a_kind_share_a_class(method):
    classes = trainer(grammar(), num_classes=3, method=method)
    list(classes.steps())
    assert groups(classes.classes) == {frozenset(range(4)), frozenset(range(4, 7)), frozenset(range(7, 12))}
    expected = np.zeros((12, 3))
    expected[np.arange(12), classes.classes] = 1
    assert np.array_equal(classes.inputs.vectors, expected)


@pytest.mark.parametrize("method", ["exchange", "brown"])
def test_loss_is_the_negative_log_likelihood(method):
    sentences = random_sentences(25)
    classes = trainer(sentences, num_classes=3, method=method)
    *_, last = classes.steps()
    total, number = likelihood(sentences, classes.classes)
    assert last.losses["wordclass"] == pytest.approx(-total / number)


def test_exchange_moves_each_word_to_the_most_likely_class():
    sentences = random_sentences(25)
    sweep = trainer(sentences, num_classes=3, total=1)
    classes = sweep.classes.copy()
    for word in sweep.words:
        options = [classes.copy() for _ in range(3)]
        for number, option in enumerate(options):
            option[word] = number
        values = [likelihood(sentences, option)[0] for option in options]
        if max(values) > values[classes[word]] + 1e-6:
            classes = options[int(np.argmax(values))]
    list(sweep.steps())
    assert sweep.classes.tolist() == classes.tolist()


def test_exchange_converges():
    losses = [step.losses["wordclass"] for step in trainer(random_sentences(200), num_classes=4, total=12).steps()]
    assert all(after <= before + 1e-12 for before, after in itertools.pairwise(losses))
    assert losses[0] > losses[-1] == losses[-2]


@pytest.mark.parametrize("total", [1, 3])
def test_brown_merges_the_cheapest_pair(total):
    sentences = random_sentences(150, num_words=14)
    brown = trainer(sentences, num_classes=4, total=total, method="brown")
    found = [{int(word)} for word in brown.words[:4]]
    for word in brown.words[4:]:
        found.append({int(word)})
        best = None
        for one, other in itertools.combinations(range(5), 2):
            joined = [group for number, group in enumerate(found) if number not in (one, other)]
            joined.append(found[one] | found[other])
            classes = np.full(14, -1)
            for number, group in enumerate(joined):
                classes[list(group)] = number
            table = table_of(sentences, classes, 4)
            value = mutual_information(table)
            if best is None or value > best[0] + 1e-9:
                best = (value, joined)
        found = best[1]
    list(brown.steps())
    assert groups(brown.classes) == set(map(frozenset, found))


def test_brown_tree_merges_similar_classes_first():
    # Words 0 and 1 have the same distribution, and so do 2 and 3.
    rng = np.random.default_rng(0)
    sentences = [[rng.integers(2), 2 + rng.integers(2)] * 3 for _ in range(200)]
    brown = trainer(sentences, num_classes=4, method="brown")
    list(brown.steps())
    paths = [brown.paths()[number] for number in brown.classes]
    assert sorted(paths) == ["00", "01", "10", "11"]
    assert paths[0][0] == paths[1][0] != paths[2][0] == paths[3][0]


def test_brown_paths_form_a_complete_prefix_code():
    brown = trainer(random_sentences(150, num_words=14), num_classes=9, method="brown")
    list(brown.steps())
    paths = brown.paths()
    assert not any(one != other and other.startswith(one) for one in paths for other in paths)
    assert sum(2.0 ** -len(path) for path in paths) == 1


@pytest.mark.parametrize("method", ["exchange", "brown"])
def test_resume_is_bit_exact(method):
    sentences = random_sentences(200, num_words=30)
    whole, half, again = (trainer(sentences, num_classes=5, total=4, method=method) for _ in range(3))
    list(whole.steps())
    steps = half.steps()
    next(steps)
    next(steps)
    again.restore(half.state())
    list(again.steps())
    assert np.array_equal(again.classes, whole.classes)
    assert np.array_equal(again.inputs.vectors, whole.inputs.vectors)


@pytest.mark.parametrize("method", ["exchange", "brown"])
def test_classes_file(method):
    sentences = [[3, 1], [3, 2], [3, 2], [3, 1, 3, 2], [3]]
    classes = trainer(sentences, num_classes=2, vocab_size=5, method=method)
    list(classes.steps())
    lines = classes.extra_files("abcde".__getitem__)["classes.tsv"].splitlines()
    names = {line.split("\t")[1]: line.split("\t")[0] for line in lines}
    assert [line.split("\t", 1)[1] for line in lines] in (["d\t6", "c\t3", "b\t2"], ["c\t3", "b\t2", "d\t6"])
    assert names["b"] == names["c"] != names["d"] and {*names.values()} == {"0", "1"}
    assert [*names.values()] == sorted(names.values()), "lines are grouped by class"


@pytest.mark.parametrize("method", ["exchange", "brown"])
@pytest.mark.parametrize("sentences", [[[0]], [[0, 0, 0]], [[0], [1]], [[0, 1]]])
def test_fewer_words_than_classes(method, sentences):
    classes = trainer(sentences, num_classes=4, vocab_size=3, method=method)
    assert all(math.isfinite(step.losses["wordclass"]) for step in classes.steps())
    assert classes.inputs.vectors.sum() == len({word for sentence in sentences for word in sentence})
    assert not classes.inputs.vectors[2].any(), "absent words have no class"
    assert len(set(classes.paths())) == 4


def test_corpus_without_words_is_an_error():
    store = store_of([[1]], fingerprint="none")
    with pytest.raises(DataError, match="no word"):
        WordClusterTrainer(WordClusterConfig(), inputs_of(store, vocab_size=2, width=2, specials=1))


def test_classes_file_is_in_the_model_directory(tmp_path):
    text, out = tmp_path / "text.txt", tmp_path / "run"
    names = "abcdefghijkl"
    text.write_text("\n\n".join(" ".join(names[word] for word in sentence) for sentence in grammar()))
    settings = ["model.vocab_size=40", "model.width=3", "objective.method=brown"]
    for resume in (False, True):
        ps.pretrain("wordclass", corpus=text, out=out, size="tiny", settings=settings, resume=resume)
        rows = [line.split("\t") for line in (out / "classes.tsv").read_text().splitlines()]
        assert sorted({path for path, _, _ in rows}) in (["0", "10", "11"], ["00", "01", "1"])
        assert sum(int(count) for _, _, count in rows) == 1200 and {word for _, word, _ in rows} == set(names)
        assert "classes.tsv" in (out / "manifest.json").read_text() and not find_changes(out)
        (out / "classes.tsv").unlink()
