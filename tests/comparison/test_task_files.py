"""Labelled sets are found, checked and bounded; what they are learnt from is the same for all families."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from polyseme.comparison import learning, linear
from polyseme.comparison.docstring_tasks import docstring_tasks
from polyseme.comparison.labelled import Task, bounded, find_tasks, label_counts, write_task
from polyseme.comparison.learning import draw, plan_steps, step_seconds
from polyseme.comparison.linear import Vectors, probe
from polyseme.errors import ConfigError, DataError
from polyseme.text.forms import TASKS, ClassifyExample, SimilarityExample, TagExample
from polyseme.text.labelled import read_examples
from polyseme.text.town import Town, write
from polyseme.train.sets import Labelled
from polyseme.train.tuning_recipe import LabelledConfig

SIZES = {"train": 40, "dev": 10, "test": 12}


@pytest.fixture(scope="module")
def town(tmp_path_factory):
    folder = tmp_path_factory.mktemp("town")
    write(folder, languages=["en"], num_documents=40, num_rows=160)
    return folder


def test_a_folder_is_searched(town):
    found = find_tasks(str(town), seed=0)
    assert {task.name: task.kind for task in found.tasks} == {kind: kind for kind in TASKS}
    assert {suite: [path.name for path in paths] for suite, paths in found.suites.items()} == {
        "words": ["words"],
        "minimal-pairs": ["minimal_pairs"],
        "senses": ["senses"],
    }
    metrics = {task.name: task.metric for task in found.tasks}
    assert metrics["tag"] == "f1" and metrics["similarity"] == "spearman" and metrics["span"] == "f1"
    assert 0.2 < next(task for task in found.tasks if task.name == "pair").majority < 0.5


def test_what_is_written_is_read_again(town, tmp_path):
    for task in find_tasks(str(town), seed=0).tasks:
        small = bounded(task, SIZES, seed=0)
        files = write_task(small, tmp_path / task.name)
        for side, path in files.items():
            again = read_examples(path, TASKS[task.kind])
            assert [(one.texts, one.labels) for one in again] == [(one.texts, one.labels) for one in small.sides[side]]
        assert bounded(task, SIZES, seed=0) == small != bounded(task, SIZES, seed=1)
        assert len(small.sides["test"]) == 12 and len(small.sides["train"]) >= 40


def test_a_file_lists_sets(town, tmp_path):
    (tmp_path / "reviews.tsv").write_text("review\tstars\n" + "".join(f"text {n}\t{n % 2}\n" for n in range(40)))
    listing = tmp_path / "tasks.toml"
    files = 'task = "classify"\ntrain = "reviews.tsv"\ntest = "reviews.tsv"\n'
    listing.write_text(f'[stars]\n{files}labels = [5, 10]\ncolumns = {{text = "review", label = "stars"}}\n')
    (task,) = find_tasks(str(listing), seed=0).tasks
    assert task.name == "stars" and len(task.sides["dev"]) == 4 and len(task.sides["train"]) == 36
    assert label_counts(task, (100, 0)) == [5, 10]
    alone = files.replace('test = "reviews.tsv"\n', "")
    listing.write_text(f'[stars]\n{alone}columns = {{text = "review", label = "stars"}}\n')
    (task,) = find_tasks(str(listing), seed=0).tasks
    assert {side: len(examples) for side, examples in task.sides.items()} == {"train": 32, "dev": 4, "test": 4}
    assert len({example.text for examples in task.sides.values() for example in examples}) == 40
    listing.write_text('words = ["a.tsv", "b.tsv"]\nsenses = "c"\n')
    suites = find_tasks(str(listing), seed=0).suites
    assert suites == {"words": [tmp_path / "a.tsv", tmp_path / "b.tsv"], "senses": [tmp_path / "c"]}
    listing.write_text(f'[stars]\n{files}columns = {{text = "reviw", label = "stars"}}\n')
    with pytest.raises(DataError, match="reviw"):
        find_tasks(str(listing), seed=0)
    listing.write_text(f"[stars]\n{files}colums = {{}}\n")
    with pytest.raises(ConfigError, match=r"did you mean stars\.columns"):
        find_tasks(str(listing), seed=0)
    listing.write_text("[stars\n")
    with pytest.raises(DataError, match="not TOML"):
        find_tasks(str(listing), seed=0)
    with pytest.raises(DataError, match="cannot be read"):
        find_tasks(str(tmp_path / "none.toml"), seed=0)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="holds no labelled sets"):
        find_tasks(str(tmp_path / "empty"), seed=0)


def test_no_label_is_lost_by_a_bound(town):
    task = next(task for task in find_tasks(str(town), seed=0).tasks if task.name == "tag")
    tiny = bounded(task, {"train": 2, "dev": 5, "test": 5}, seed=0)
    assert {tag for one in tiny.sides["train"] for tag in one.tags} == {
        tag for one in task.sides["train"] for tag in one.tags
    }


def test_fine_tuning_draws_what_probes_draw(town, tmp_path):
    task = bounded(next(one for one in find_tasks(str(town), seed=0).tasks if one.name == "pair"), SIZES, seed=0)
    files = write_task(task, tmp_path / "pair")
    for seed in (0, 3):
        data = LabelledConfig(train={"pair": str(files["train"])}, num_labels=9)
        theirs = Labelled.read({"pair": "pair"}, data, seed=seed).train["pair"]
        assert [one.texts for one in theirs] == [task.sides["train"][n].texts for n in draw(task, 9, seed)]
    assert draw(task, 9, 0) != draw(task, 9, 3)


def test_steps_of_fine_tunings(town):
    task = bounded(
        next(one for one in find_tasks(str(town), seed=0).tasks if one.name == "pair"),
        {"train": 160, "dev": 9, "test": 9},
        seed=0,
    )
    assert plan_steps(task, (20, 80, 0), seconds=1e9, step_seconds=0.1) == {20: 30, 80: 90, 160: 150}
    assert plan_steps(task, (20, 80, 0), seconds=25, step_seconds=0.1) == {20: 30, 160: 124}
    assert plan_steps(task, (20, 80, 0), seconds=21, step_seconds=1.0) == {160: 40}
    assert plan_steps(task, (20, 80, 0), seconds=1, step_seconds=1.0) == {}
    # Looks at the dev set and answers take time too.
    asked = replace(task, sides={**task.sides, "dev": task.sides["dev"] * 100, "test": task.sides["test"] * 100})
    assert plan_steps(asked, (20, 80, 0), seconds=25, step_seconds=0.1) == {160: 150}
    assert plan_steps(asked, (20, 80, 0), seconds=12.5, step_seconds=0.1) == {160: 78}


def test_what_a_step_of_fine_tuning_takes_is_measured_once_for_a_shape(town, tmp_path, monkeypatch):
    """Whatever the recipes of two runs say of where their text lies and how they were fitted."""
    monkeypatch.setenv("POLYSEME_CACHE", str(tmp_path / "cache"))
    (task, *_) = find_tasks(str(town), seed=0).tasks
    measured, took = [], iter([0.5, 0.7])

    def finetune(folder, *_, beside, **told):
        beside.mkdir()
        seconds = next(took)
        rows = [{"step": n, "tokens": n, "seconds": n, "processor_seconds": seconds * n} for n in (1, 2)]
        (beside / "history.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    monkeypatch.setattr(learning, "_finetune", finetune)
    for name, width in (("a", 8), ("b", 8), ("c", 9)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(f'{{"width": {width}}}')
        (tmp_path / name / "recipe.toml").write_text(f'corpus = "{name}"')
        files = write_task(task, tmp_path / "tasks" / name)
        measured.append(step_seconds(tmp_path / name, task, files, threads=1, beside=tmp_path / "tuning"))
    assert measured == pytest.approx([0.5, 0.5, 0.7])


def separable(kind, number, seed):
    """Examples whose answers are a linear function of the second layer, and of nothing in the first."""
    chance = np.random.default_rng(seed)
    vectors = chance.standard_normal((number, 6)).astype(np.float32)
    noise = chance.standard_normal((number, 6)).astype(np.float32)
    place = {"file": "x", "row": 1}
    if kind == "classify":
        examples = [ClassifyExample(text="", label="ab"[int(row[0] > 0)], **place) for row in vectors]
    elif kind == "similarity":
        examples = [SimilarityExample(text_a="", text_b="", score=float(row[:2].sum()), **place) for row in vectors]
    else:
        examples = [
            TagExample(words=("a", "b"), tags=tuple("O" if row[0] > 0 else "B-X" for row in pair), **place)
            for pair in vectors.reshape(-1, 2, 6)
        ]
    return examples, Vectors(layers=[noise, vectors], places=np.arange(number))


def test_ridge_is_the_same_by_rows_and_by_columns():
    """Its weights solve (X'X + n s I) w = X'y whichever of the two there are more of."""
    for shape in ((40, 7), (7, 40)):
        chance = torch.Generator().manual_seed(0)
        rows, others = (torch.randn(number, shape[1], generator=chance) for number in (shape[0], 5))
        target = torch.randn(shape[0], generator=chance)
        x, y = rows.double(), target.double()
        weights = torch.linalg.solve(x.T @ x + 0.1 * len(x) * torch.eye(shape[1]), x.T @ (y - y.mean()))
        said = linear._fit("similarity", rows, target, 0, 0.1)(others)
        torch.testing.assert_close(said, others.double() @ weights + y.mean())


def test_turned_rows_teach_the_same(monkeypatch):
    chance = torch.Generator().manual_seed(0)
    sides = {side: torch.randn(number, 50, generator=chance) for side, number in (("train", 20), ("test", 9))}
    target = (sides["train"][:, 0] > 0).long()

    def said():
        turned = linear._turned(sides)
        return linear._fit("classify", turned["train"], target, 2, 0.1)(turned["test"]), turned["train"].shape[1]

    narrow = said()
    monkeypatch.setattr(linear, "_MOST_TURNED", 10)
    wide = said()
    assert (narrow[1], wide[1]) == (20, 50) and narrow[0].equal(wide[0])


@pytest.mark.parametrize("kind", ["classify", "similarity", "tag"])
def test_probes_find_the_layer_and_the_answer(kind):
    sides = {side: separable(kind, 200, seed) for seed, side in enumerate(("train", "dev", "test"))}
    task = Task(name="made up", kind=kind, sides={side: examples for side, (examples, _) in sides.items()})
    vectors = {side: found for side, (_, found) in sides.items()}
    found = probe(task, vectors, draw(task, 100, 0))
    assert found.layer == 1 and found.value > 0.9
    assert probe(task, vectors, draw(task, 4, 0)).value < found.value  # fewer rows than columns


def test_words_are_learnt_from_all_sentences_alike(monkeypatch):
    """Of more words than probes bear, some of each sentence; of texts, all."""
    monkeypatch.setattr(linear, "_MOST_WORDS", 30)
    (examples, vectors), (texts, _) = separable("tag", 200, 0), separable("classify", 200, 0)
    task, other = (
        Task(name="made up", kind=kind, sides=dict.fromkeys(("train", "dev", "test"), some))
        for kind, some in (("tag", examples), ("classify", texts))
    )
    few, all_of_them = linear._learnt(task, [3, 1]), linear._learnt(task, range(100))
    assert few.tolist() == [2, 3, 6, 7]
    assert len(all_of_them) == 30 and all_of_them[0] == 0 and np.all(np.diff(all_of_them) // 6 == 1)
    assert len(linear._learnt(other, range(200))) == 200
    some = Vectors(layers=[layer[all_of_them] for layer in vectors.layers], places=all_of_them)
    sides = dict.fromkeys(("dev", "test"), vectors)
    assert probe(task, {**sides, "train": some}, range(100)) == probe(task, {**sides, "train": vectors}, range(100))


def test_a_word_is_the_mean_of_its_pieces():
    layer = np.arange(10, dtype=np.float32).reshape(5, 2)
    found = linear._means(np.array([0, 2, 2, 5]), np.array([1, 2, 5, 5]), 5) @ layer
    assert found.dtype == np.float32 and np.array_equal(found, [layer[0], [0, 0], layer[2:5].mean(0), [0, 0]])


def test_rows_of_zeros_teach_the_same():
    """What only holds the other numbers is read as what holds all."""
    sides = {side: separable("classify", 200, seed) for seed, side in enumerate(("train", "dev", "test"))}
    task = Task(name="made up", kind="classify", sides={side: examples for side, (examples, _) in sides.items()})
    dense = {}
    for side, (_, found) in sides.items():
        layers = [np.pad(layer * (np.abs(layer) > 0.5), ((0, 0), (0, 94))) for layer in found.layers]
        dense[side] = replace(found, layers=layers)
    packed = {
        side: replace(found, layers=[linear._packed(layer) for layer in found.layers]) for side, found in dense.items()
    }
    assert all(layer.nnz < 0.1 * 200 * 100 for found in packed.values() for layer in found.layers)
    stacked = linear._stacked([packed["dev"].layers[0], dense["test"].layers[0]])
    assert np.array_equal(stacked.toarray(), np.concatenate([dense[side].layers[0] for side in ("dev", "test")]))
    found = probe(task, packed, range(200))
    assert found == probe(task, dense, range(200)) and found.value > 0.7


@pytest.mark.slow
def test_sets_of_docstrings():
    from polyseme.text.corpus import Corpus
    from polyseme.text.samples import sample_text

    documents = list(Corpus(*sample_text("docstrings").dev))
    package, together, parameters = docstring_tasks(documents, seed=0)
    assert [task.kind for task in (package, together, parameters)] == ["classify", "pair", "tag"]
    for one in package.sides["test"]:
        assert one.label not in one.text.lower() and any(one.text in document for document in documents)
    lines = [line for document in documents for line in document.split("\n")]
    for one in together.sides["test"][:40]:
        side_by_side = any(one.text_a in line and one.text_b in line.split(one.text_a, 1)[1] for line in lines)
        assert side_by_side == (one.label == "together")
    for one in parameters.sides["test"]:
        assert one.tags[0] == "B-NAME" and "B-TYPE" in one.tags
    for task in (package, together, parameters):
        texts = [{one.texts for one in task.sides[side]} for side in ("train", "dev", "test")]
        assert all(texts) and len(texts[0] & texts[2]) <= 0.02 * len(texts[2]) + 1
    assert json.dumps(package.describe())


def test_town_is_not_derived():
    assert docstring_tasks(Town(0).documents(30), seed=0) == []
