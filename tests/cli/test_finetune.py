"""From labelled files to models on the command line: alone, by seeds, by numbers of labels, for several tasks."""

import json
import random
import sys

import pytest

from polyseme.train.finetuning import SCORES
from polyseme.train.trials import CURVE, SUMMARY

QUICK = ["--set", "plan.threads=1", "--set", "data.num_rows=8", "--set", "plan.rate=5e-3", "--budget", "6steps"]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Texts about rivers and money, and the same with tags."""
    folder, chance = tmp_path_factory.mktemp("labelled"), random.Random(0)
    for name, number in (("train", 40), ("dev", 16)):
        rows, sentences = ["text\tlabel"], []
        for _ in range(number):
            word = chance.choice(["river", "money"])
            words = [*chance.choices(["old", "new", "barn", "mill"], k=3), word]
            rows.append(" ".join(words) + ("\tnature" if word == "river" else "\tbank"))
            sentences.append("\n".join(f"{w} {'B-N' if w == 'river' else 'O'}" for w in words))
        (folder / f"{name}.tsv").write_text("\n".join(rows))
        (folder / f"{name}.conll").write_text("\n\n".join(sentences))
    return folder


def given(files, ending="tsv"):
    return ["--train", files / f"train.{ending}", "--dev", files / f"dev.{ending}", *QUICK]


def test_one_run(polyseme, bert, files, tmp_path):
    done = polyseme("finetune", bert, *given(files), "--out", tmp_path / "out")
    assert done.code == 0
    assert "40 examples of classify; bert with" in done.err and "keeps the weights of step" in done.err
    assert f"next: polyseme predict {tmp_path / 'out'}" in done.err
    scores = json.loads((tmp_path / "out" / SCORES).read_text())["dev"]
    asked = polyseme("evaluate", tmp_path / "out", "--data", files / "dev.tsv", "--json")
    assert json.loads(asked.out)["accuracy"] == pytest.approx(scores["accuracy"])
    shown = polyseme("evaluate", tmp_path / "out", "--data", files / "dev.tsv")
    assert shown.out.splitlines()[0] == "figure\tvalue"
    told = polyseme("info", tmp_path / "out")
    assert "tasks.classify.kind" in told.out and "tuning.method" in told.out


def test_seeds_and_numbers_of_labels(polyseme, bert, files, tmp_path):
    options = [*given(files), "--seeds", 2, "--labels", "8,all", "--out", tmp_path / "out"]
    done = polyseme("finetune", bert, *options)
    assert done.code == 0
    rows = [line.split("\t") for line in done.out.splitlines()]
    assert rows[0] == ["labels", "figure", "mean", "deviation"]
    assert {row[0] for row in rows[1:]} == {"8", "all"}
    assert len(json.loads((tmp_path / "out" / SUMMARY).read_text())[0]["values"]) == 2
    assert (tmp_path / "out" / CURVE).read_text().startswith("<svg")
    # What is there is not trained again.
    (tmp_path / "out" / "labels-all" / "seed-1" / SCORES).unlink()
    again = polyseme("finetune", bert, *options, "--resume")
    assert again.code == 0 and again.err.count("going on from step") == 1
    assert again.out == done.out


def test_several_tasks(polyseme, bert, files, tmp_path):
    trains = ["--train", f"topic={files / 'train.tsv'}", "--train", f"names={files / 'train.conll'}"]
    done = polyseme("finetune", bert, *trains, *QUICK, "--out", tmp_path / "out")
    assert done.code == 0 and "40 examples of topic, 40 examples of names" in done.err
    asked = polyseme("evaluate", tmp_path / "out", "--task", "names", "--data", files / "dev.conll", "--json")
    assert set(json.loads(asked.out)) == {"accuracy", "precision", "recall", "f1"}
    assert "name one of topic, names" in polyseme("evaluate", tmp_path / "out", "--data", files / "dev.tsv").err


def test_an_interruption(polyseme, bert, files, tmp_path, monkeypatch):
    module = sys.modules["polyseme.cli.pretrain"]
    shown = module.TrainingLine.show

    def show(line, progress):
        shown(line, progress)
        if progress.step.number == 3:
            raise_signal()

    import signal

    def raise_signal():
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(module.TrainingLine, "show", show)
    done = polyseme("finetune", bert, *given(files), "--out", tmp_path / "out")
    assert done.code == 130
    assert "stopped at step 3 and saved" in done.err and "--resume" in done.err
    monkeypatch.undo()
    monkeypatch.setenv("POLYSEME_CACHE", str(tmp_path / "cache"))
    again = polyseme("finetune", bert, *given(files), "--out", tmp_path / "out", "--resume")
    assert again.code == 0 and "going on from step 3 of 6" in again.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "give --train a labelled file"),
        (["--train", "nowhere.tsv"], "nowhere.tsv: no such file"),
        (["--train", "a=x.tsv", "--train", "y.tsv"], "say NAME=y.tsv"),
        (["--train", "a=x.tsv", "--train", "a=y.tsv"], "the same name is given twice"),
        (["--train", "TRAIN", "--labels", "some"], "such as 100,300,all"),
        (["--train", "TRAIN", "--method", "half"], "tuning.method"),
        (["--train", "TRAIN", "--set", "model.width=9"], "only its dropout can be changed"),
        (["--train", "TRAIN", "--column", "text"], "say what is where"),
        (["--train", "TRAIN", "--column", "text=review"], "say which it is, and what is where"),
        (["--train", "TRAIN", "--task", "span"], "not JSON"),
        (["--train", "TRAIN", "--budget", "soon"], "is no budget"),
    ],
)
def test_mistakes(polyseme, bert, files, tmp_path, options, message):
    options = [str(files / "train.tsv") if option == "TRAIN" else option for option in options]
    done = polyseme("finetune", bert, *options, "--out", tmp_path / "out")
    assert done.code == 2 and message in done.err and done.err.count("\n") == 1
    assert not (tmp_path / "out").exists()
