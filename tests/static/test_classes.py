import itertools
import math

import numpy as np
import pytest
from scipy.sparse import csr_array
from word_tasks import store_of, task_of

import polyseme as ps
from polyseme.errors import DataError
from polyseme.models.directory import changed_files
from polyseme.objectives.vectors import ClassesConfig
from polyseme.static.classes import Bigrams, Classes, information


def grammar(num_sentences=200, kinds=(4, 3, 5), seed=0):
    """Sentences of an article, a noun and a verb, twice; words of a kind follow each other in number."""
    chance = np.random.default_rng(seed)
    firsts = np.cumsum([0, *kinds])
    return [
        [firsts[kind] + min(chance.geometric(0.4) - 1, number - 1) for kind, number in [*enumerate(kinds)] * 2]
        for _ in range(num_sentences)
    ]


def noise(num_sentences=60, num_words=9, seed=0):
    chance = np.random.default_rng(seed)
    return [list(chance.zipf(1.4, chance.integers(1, 9)) % num_words) for _ in range(num_sentences)]


def learner(sentences, *, num_classes, vocab_size=None, total=8, **settings):
    vocab_size = vocab_size or 1 + max(map(max, sentences))
    store = store_of(sentences, fingerprint=str(sentences))
    return Classes(ClassesConfig(**settings), task_of(store, vocab_size=vocab_size, width=num_classes, total=total))


def likelihood(sentences, classes):
    """Of the words that follow others, in nats: log p(class | class before) p(word | class)."""
    pairs = [pair for sentence in sentences for pair in itertools.pairwise(sentence)]
    total = 0.0
    for before, word in pairs:
        here, there = classes[word], classes[before]
        both = sum(classes[a] == there and classes[b] == here for a, b in pairs)
        firsts = sum(classes[a] == there for a, _ in pairs)
        seconds = sum(classes[b] == here for _, b in pairs)
        words = sum(b == word for _, b in pairs)
        total += math.log(both / firsts * words / seconds)
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


def test_information_by_hand():
    assert information(np.array([[2, 0], [0, 2]])) == pytest.approx(math.log(2))
    assert information(np.array([[1, 1], [1, 1]])) == pytest.approx(0)
    # p = 1/2, 1/4, 1/4; rows 3/4, 1/4; columns 3/4, 1/4.
    expected = 0.5 * math.log(0.5 / 0.5625) + 2 * 0.25 * math.log(0.25 / 0.1875)
    assert information(np.array([[2, 1], [1, 0]])) == pytest.approx(expected)


def test_bigrams_by_hand():
    # 0 1 1 0 | 2 0: before each word stand …, with 1 1 apart, since both are the same word.
    store = [[0, 1, 1, 0], [2, 0]]
    bigrams = learner(store, num_classes=2).bigrams
    assert bigrams.repeats.tolist() == [0, 1, 0]
    assert bigrams.after.starts.tolist() == [0, 1, 2, 3]
    assert (bigrams.after.words.tolist(), bigrams.after.counts.tolist()) == ([1, 0, 0], [1, 1, 1])
    assert bigrams.seconds.tolist() == [2, 2, 0]
    assert bigrams.tally(np.array([0, 1, 1]), 2).tolist() == [[0, 1], [2, 1]]
    assert bigrams.tally(np.array([0, 1, -1]), 2).tolist() == [[0, 1], [1, 1]]


def test_what_is_no_word_is_beside_nothing():
    counts = csr_array(np.array([[1, 2], [3, 4]], np.float32))
    bigrams = Bigrams.of(counts, np.array([True, False]))
    assert bigrams.tally(np.array([0, 1]), 2).tolist() == [[1, 0], [0, 0]]


@pytest.mark.parametrize("method", ["exchange", "brown"])
def test_words_of_a_kind_come_together(method):
    classes = learner(grammar(), num_classes=3, method=method)
    list(classes.steps())
    assert groups(classes.classes) == {frozenset(range(4)), frozenset(range(4, 7)), frozenset(range(7, 12))}
    expected = np.zeros((12, 3))
    expected[np.arange(12), classes.classes] = 1
    assert np.array_equal(classes.task.vectors, expected)


@pytest.mark.parametrize("method", ["exchange", "brown"])
def test_the_loss_is_that_of_the_text(method):
    sentences = noise(25)
    classes = learner(sentences, num_classes=3, method=method)
    *_, last = classes.steps()
    total, number = likelihood(sentences, classes.classes)
    assert last.losses["wordclass"] == pytest.approx(-total / number)


def test_each_word_moves_to_where_the_text_is_most_likely():
    sentences = noise(25)
    sweep = learner(sentences, num_classes=3, total=1)
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


def test_sweeps_make_the_text_more_likely_until_nothing_moves():
    losses = [step.losses["wordclass"] for step in learner(noise(200), num_classes=4, total=12).steps()]
    assert all(after <= before + 1e-12 for before, after in itertools.pairwise(losses))
    assert losses[0] > losses[-1] == losses[-2]


@pytest.mark.parametrize("total", [1, 3])
def test_brown_joins_what_loses_least(total):
    sentences = noise(150, num_words=14)
    brown = learner(sentences, num_classes=4, total=total, method="brown")
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
            value = information(table)
            if best is None or value > best[0] + 1e-9:
                best = (value, joined)
        found = best[1]
    list(brown.steps())
    assert groups(brown.classes) == set(map(frozenset, found))


def test_the_tree_joins_the_likest_first():
    # Words 0 and 1 are used alike, and so are 2 and 3.
    chance = np.random.default_rng(0)
    sentences = [[chance.integers(2), 2 + chance.integers(2)] * 3 for _ in range(200)]
    brown = learner(sentences, num_classes=4, method="brown")
    list(brown.steps())
    paths = [brown.paths()[number] for number in brown.classes]
    assert sorted(paths) == ["00", "01", "10", "11"]
    assert paths[0][0] == paths[1][0] != paths[2][0] == paths[3][0]


def test_the_tree_has_a_way_of_its_own_for_each_class():
    brown = learner(noise(150, num_words=14), num_classes=9, method="brown")
    list(brown.steps())
    paths = brown.paths()
    assert not any(one != other and other.startswith(one) for one in paths for other in paths)
    assert sum(2.0 ** -len(path) for path in paths) == 1


@pytest.mark.parametrize("method", ["exchange", "brown"])
def test_a_resumed_run_is_the_same(method):
    sentences = noise(200, num_words=30)
    whole, half, again = (learner(sentences, num_classes=5, total=4, method=method) for _ in range(3))
    list(whole.steps())
    steps = half.steps()
    next(steps)
    next(steps)
    again.restore(half.state())
    list(again.steps())
    assert np.array_equal(again.classes, whole.classes)
    assert np.array_equal(again.task.vectors, whole.task.vectors)


@pytest.mark.parametrize("method", ["exchange", "brown"])
def test_the_classes_as_a_file(method):
    sentences = [[3, 1], [3, 2], [3, 2], [3, 1, 3, 2], [3]]
    classes = learner(sentences, num_classes=2, vocab_size=5, method=method)
    list(classes.steps())
    lines = classes.files("abcde".__getitem__)["classes.tsv"].splitlines()
    names = {line.split("\t")[1]: line.split("\t")[0] for line in lines}
    assert [line.split("\t", 1)[1] for line in lines] in (["d\t6", "c\t3", "b\t2"], ["c\t3", "b\t2", "d\t6"])
    assert names["b"] == names["c"] != names["d"] and {*names.values()} == {"0", "1"}
    assert [*names.values()] == sorted(names.values()), "classes stand one after the other"


@pytest.mark.parametrize("method", ["exchange", "brown"])
@pytest.mark.parametrize("sentences", [[[0]], [[0, 0, 0]], [[0], [1]], [[0, 1]]])
def test_fewer_words_than_classes(method, sentences):
    classes = learner(sentences, num_classes=4, vocab_size=3, method=method)
    assert all(math.isfinite(step.losses["wordclass"]) for step in classes.steps())
    assert classes.task.vectors.sum() == len({word for sentence in sentences for word in sentence})
    assert not classes.task.vectors[2].any(), "what does not occur has no class"
    assert len(set(classes.paths())) == 4


def test_no_words_at_all():
    store = store_of([[1]], fingerprint="none")
    with pytest.raises(DataError, match="no word"):
        Classes(ClassesConfig(), task_of(store, vocab_size=2, width=2, specials=1))


def test_the_classes_stand_in_the_model_directory(tmp_path):
    text, out = tmp_path / "text.txt", tmp_path / "run"
    names = "abcdefghijkl"
    text.write_text("\n\n".join(" ".join(names[word] for word in sentence) for sentence in grammar()))
    settings = ["model.vocab_size=40", "model.width=3", "objective.method=brown"]
    for resume in (False, True):
        ps.pretrain("wordclass", corpus=text, out=out, size="tiny", settings=settings, resume=resume)
        rows = [line.split("\t") for line in (out / "classes.tsv").read_text().splitlines()]
        assert sorted({path for path, _, _ in rows}) in (["0", "10", "11"], ["00", "01", "1"])
        assert sum(int(count) for _, _, count in rows) == 1200 and {word for _, word, _ in rows} == set(names)
        assert "classes.tsv" in (out / "manifest.json").read_text() and not changed_files(out)
        (out / "classes.tsv").unlink()
