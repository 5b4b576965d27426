"""The TF-IDF baseline as a model: fine-tuned, saved, loaded and used like the others."""

import json
import shutil

import numpy as np
import pytest

import polyseme as ps
from polyseme.errors import CheckpointError, ConfigError, DataError

ROWS = {
    "classify": [
        ("text", "label"),
        ("a steep river", "nature"),
        ("the bank lends money", "bank"),
        ("他在银行", "bank"),
    ],
    "pair": [
        ("text_a", "text_b", "label"),
        ("a dog runs", "a dog runs fast", "same"),
        ("a dog runs", "the cat sleeps", "other"),
        ("the cat sleeps", "a cat sleeps", "same"),
    ],
    "similarity": [
        ("text_a", "text_b", "score"),
        ("a dog runs", "a dog runs fast", "4.5"),
        ("a dog runs", "the cat sleeps", "1"),
        ("the cat sleeps", "a cat sleeps", "4"),
    ],
    "choice": [
        ("context", "choices", "answer"),
        ("The dog ran after", '["the cat", "a number"]', "0"),
        ("The cat sat on", '["blue", "the mat with the cat"]', "1"),
    ],
}


def write(path, kind, repetitions=4):
    header, *rows = ROWS[kind]
    path.write_text("".join("\t".join(row) + "\n" for row in [header, *rows * repetitions]), encoding="utf-8")
    return path


@pytest.fixture
def files(tmp_path):
    return {kind: write(tmp_path / f"{kind}.tsv", kind) for kind in ROWS}


@pytest.fixture
def model(files, tmp_path):
    return ps.finetune("tfidf", train=files["classify"], dev=files["classify"], out=tmp_path / "reviews")


@pytest.mark.parametrize("kind", ROWS)
def test_every_task_predicts_what_it_was_fitted_to(files, tmp_path, kind):
    model = ps.finetune("tfidf", train=files[kind], dev=files[kind], task=kind, out=tmp_path / "out")
    assert [*model.tasks] == [kind] and model.capabilities == {"predict"}
    metric = {"similarity": "spearman"}.get(kind, "accuracy")
    assert model.score_task(files[kind])[metric] > 0.9
    reloaded = ps.load(tmp_path / "out")
    rows = [row[:-1] for row in ROWS[kind][1:]]
    rows = [(context, json.loads(choices)) for context, choices in rows] if kind == "choice" else rows
    rows = [text for (text,) in rows] if kind == "classify" else rows
    assert reloaded.predict(rows) == model.predict(rows)


def test_predictions_of_texts_without_known_terms(model):
    known, unknown, punctuation = model.predict(["a steep river", "quagga zebra", "?!"])
    assert known.label == "nature"
    assert unknown.probabilities == punctuation.probabilities and sum(unknown.probabilities.values()) == pytest.approx(
        1
    )
    assert model.predict([]) == []


def test_similarity_does_not_depend_on_the_order_of_the_texts(files, tmp_path):
    model = ps.finetune("tfidf", train=files["similarity"], out=tmp_path / "out")
    one, other = model.predict([("a dog", "the dog runs"), ("the dog runs", "a dog")])
    assert one.score == pytest.approx(other.score)


def test_the_strength_is_chosen_on_the_dev_set(files, tmp_path, model):
    config = json.loads((model.folder / "config.json").read_text())
    history = [json.loads(line) for line in (model.folder / "history.jsonl").read_text().splitlines()]
    scores = json.loads((model.folder / "scores.json").read_text())
    best = max(history, key=lambda row: row["dev"]["accuracy"])
    assert len(history) > 2 and config["inverse_regularization"] == best["inverse_regularization"]
    assert scores["step"] == best["step"] and scores["dev"]["accuracy"] == best["dev"]["accuracy"]
    setting = ["tfidf.inverse_regularization=0.5", "tfidf.subword_ngrams=0"]
    fixed = ps.finetune("tfidf", train=files["classify"], settings=setting, out=tmp_path / "fixed")
    assert fixed.task.inverse_regularization == 0.5
    assert len(fixed.task.features.terms) < len(model.task.features.terms)


def test_learning_curves_have_a_model_for_each_number_of_labels(files, tmp_path):
    options = {"train": files["classify"], "dev": files["classify"], "labels": "4,all", "seeds": 2}
    ps.finetune("tfidf", out=tmp_path / "curve", **options)
    summary = json.loads((tmp_path / "curve" / "summary.json").read_text())
    assert {(row["labels"], len(row["values"])) for row in summary} == {(4, 2), ("all", 2)}
    written = (tmp_path / "curve" / "labels-4" / "seed-0" / "model.safetensors").stat().st_mtime_ns
    ps.finetune("tfidf", out=tmp_path / "curve", resume=True, **options)
    assert (tmp_path / "curve" / "labels-4" / "seed-0" / "model.safetensors").stat().st_mtime_ns == written
    with pytest.raises(ConfigError, match="other data or settings"):
        ps.finetune("tfidf", out=tmp_path / "curve", resume=True, **options, settings=["tfidf.word_ngrams=1"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "frozen"}, "--method"),
        ({"budget": "10s"}, "--budget"),
        ({"settings": ["training.learning_rate=1"]}, "training"),
        ({"settings": ["tfidf.word_ngram=1"]}, "did you mean tfidf.word_ngrams"),
        ({"task": "tag"}, "classify, pair, similarity, choice"),
    ],
)
def test_options_that_do_not_apply_are_one_line(files, tmp_path, options, message):
    with pytest.raises(ConfigError, match=message) as error:
        ps.finetune("tfidf", train=files["classify"], out=tmp_path / "out", **options)
    assert "\n" not in str(error.value) and not (tmp_path / "out").exists()


def test_wrong_files_are_one_line(files, tmp_path, model):
    with pytest.raises(CheckpointError, match="not empty"):
        ps.finetune("tfidf", train=files["classify"], out=model.folder)
    (tmp_path / "empty.tsv").write_text("text\tlabel\n?\ta\n!\tb\n")
    with pytest.raises(DataError, match="no words"):
        ps.finetune("tfidf", train=tmp_path / "empty.tsv", out=tmp_path / "out")
    (tmp_path / "unknown.tsv").write_text("text\tlabel\na\tnature\nb\tunknown\n")
    with pytest.raises(DataError, match="'unknown' does not occur"):
        ps.finetune("tfidf", train=files["classify"], dev=tmp_path / "unknown.tsv", out=tmp_path / "out")


def test_verbs_of_other_models_are_one_line(model, tmp_path):
    calls = [
        lambda: model.embed(["a"]),
        lambda: model.fill("[MASK]"),
        lambda: model.generate("a"),
        lambda: model.score(["a"]),
        lambda: model.neighbours("a"),
        lambda: model.attention("a"),
        lambda: model.senses("a", [("a", "a")]),
        lambda: model.save(tmp_path / "copy"),
        lambda: model.export(tmp_path / "copy.txt", to="glove"),
        lambda: ps.load(model.folder, weights="int8"),
        lambda: ps.finetune(model.folder, train=tmp_path / "classify.tsv", out=tmp_path / "again"),
        lambda: ps.adapt(model.folder, corpus=tmp_path / "classify.tsv", out=tmp_path / "again"),
    ]
    for call in calls:
        with pytest.raises(ps.PolysemeError) as error:
            call()
        assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["vocabulary.txt", "model.safetensors", "labels.json", "config.json"])
def test_damaged_files_are_one_line(model, tmp_path, name):
    path = model.folder / name
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(CheckpointError, match=name) as error:
        ps.load(model.folder)
    assert "\n" not in str(error.value)
    (model.folder / "manifest.json").unlink()
    with pytest.raises(CheckpointError, match=name):
        ps.load(model.folder)


def test_files_of_several_models_are_one_line(files, model, tmp_path):
    other = ps.finetune("tfidf", train=files["pair"], out=tmp_path / "other").folder
    (model.folder / "manifest.json").unlink()
    shutil.copy(other / "vocabulary.txt", model.folder)
    with pytest.raises(CheckpointError, match="not of one model"):
        ps.load(model.folder)


def test_nothing_is_pickled(model):
    names = {path.name for path in model.folder.iterdir()}
    text = {"config.json", "vocabulary.txt", "labels.json", "scores.json", "history.jsonl", "README.md"}
    assert names == {*text, "model.safetensors", "manifest.json"}
    assert np.all([(model.folder / name).read_text(encoding="utf-8") for name in text])
    assert "polyseme finetune tfidf --out" in (model.folder / "README.md").read_text()
