"""The TF-IDF baseline on the command line: fine-tuned, used for prediction, evaluated and described."""

import json

import pytest


@pytest.fixture
def reviews(tmp_path):
    path = tmp_path / "reviews.tsv"
    path.write_text("text\tlabel\n" + "a wonderful film\tgood\na dull film\tbad\n" * 6)
    return path


@pytest.fixture
def model(polyseme, reviews, tmp_path):
    ended = polyseme("finetune", "tfidf", "--train", reviews, "--dev", reviews, "--out", tmp_path / "model")
    assert ended.code == 0, ended.err
    assert "12 examples" in ended.err and "dev accuracy 1" in ended.err and "polyseme predict" in ended.err
    return tmp_path / "model"


def test_prediction(polyseme, model, reviews):
    ended = polyseme("predict", model, "--json", stdin="wonderful\ndull\n")
    assert [json.loads(line)["label"] for line in ended.out.splitlines()] == ["good", "bad"]
    assert "good" in polyseme("predict", model, reviews).out


def test_evaluation(polyseme, model, reviews):
    assert json.loads(polyseme("evaluate", model, "--data", reviews, "--json").out)["accuracy"] == 1


def test_description(polyseme, model):
    facts = json.loads(polyseme("info", model, "--json").out)
    assert facts["family"] == "tfidf" and facts["dev"]["accuracy"] == 1 and facts["terms"] > 10
    assert facts["tasks"]["classify"]["labels"] == ["bad", "good"]


def test_verbs_and_options_of_networks_are_one_line(polyseme, model, reviews, tmp_path):
    for arguments in (
        ["embed", model, "a text"],
        ["score", model, "a text"],
        ["generate", model, "a text"],
        ["finetune", "tfidf", "--train", reviews, "--method", "mix", "--out", tmp_path / "other"],
        ["finetune", "tfidf", "--train", reviews, "--out", model],
        ["evaluate", model, "--suite", "words", "--data", reviews],
    ):
        ended = polyseme(*arguments)
        assert ended.code == 2 and len(ended.err.strip().splitlines()) == 1, (arguments, ended.err)


def test_a_learning_curve(polyseme, reviews, tmp_path):
    options = ["--train", reviews, "--dev", reviews, "--labels", "6,all", "--out", tmp_path / "curve"]
    ended = polyseme("finetune", "tfidf", *options)
    assert ended.code == 0 and "accuracy" in ended.out and (tmp_path / "curve" / "curve.svg").exists()
    assert polyseme("finetune", "tfidf", *options, "--resume").code == 0


def test_comparing_is_refused_before_anything_is_written(polyseme, model, reviews, tmp_path):
    ended = polyseme("compare", model, "--data", reviews, "--out", tmp_path / "report")
    assert ended.code == 2 and "can only predict" in ended.err and not (tmp_path / "report").exists()
