"""From labelled files to models on the command line: alone, by seeds, by numbers of labels, for several tasks."""

import json
import os
import random
import shlex
import signal

import pytest

import polyseme as ps
from polyseme.cli.console import TrainingLine
from polyseme.train.finetuning import SCORES
from polyseme.train.trials import CURVE, SUMMARY

QUICK = ["plan.rate=5e-3", "plan.threads=1", "data.num_rows=8", "tuning.width=16", "model.dropout=0"]
QUICK = [word for setting in QUICK for word in ("--set", setting)]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Texts about rivers and money, and the same words with tags."""
    folder, chance = tmp_path_factory.mktemp("labelled"), random.Random(0)
    for name, number in (("train", 48), ("dev", 24)):
        rows, sentences = ["text\tlabel"], []
        for _ in range(number):
            words = [*chance.choices(["old", "new", "every", "barn", "mill", "year"], k=3), "river"]
            words[3] = chance.choice(["river", "money"])
            rows.append(" ".join(words) + ("\tnature" if words[3] == "river" else "\tbank"))
            sentences.append("\n".join(f"{word}\t{'B-N' if word == 'river' else 'O'}" for word in words))
        (folder / f"{name}.tsv").write_text("\n".join(rows) + "\n")
        (folder / f"{name}.conll").write_text("\n\n".join(sentences) + "\n")
    return folder


@pytest.fixture
def finetune(polyseme, bert, files, tmp_path, monkeypatch):
    """Give the options that are of interest."""
    monkeypatch.chdir(tmp_path)
    both = ["--train", files / "train.tsv", "--dev", files / "dev.tsv"]

    def command(*options, data=both, out="out", budget="12steps"):
        return polyseme("finetune", bert, *data, "--out", out, "--budget", budget, *QUICK, *options)

    return command


def read(path):
    return json.loads(path.read_text())


def test_a_run_and_what_it_is_worth(finetune, polyseme, files, tmp_path):
    ended = finetune(budget="30steps")
    assert ended.code == 0 and ended.out == ""
    scores = read(tmp_path / "out" / SCORES)
    assert scores["dev"]["accuracy"] > 0.9
    assert "out: 48 examples of classify; bert with" in ended.err and "30 steps of 8 examples (30steps)" in ended.err
    assert f"out keeps the weights of step {scores['step']}: dev accuracy" in ended.err
    assert ended.err.endswith("polyseme predict out FILE\n")

    del scores["dev"]["merit"]
    measured = polyseme("evaluate", "out", "--data", files / "dev.tsv", "--json")
    assert measured.code == 0 and json.loads(measured.out) == pytest.approx(scores["dev"])
    shown = polyseme("evaluate", "out", "--data", files / "dev.tsv")
    assert f"macro f1\t{scores['dev']['macro_f1']:.4f}" in shown.out
    told = polyseme("info", "out")
    assert "tasks.classify.kind" in told.out and "tuning.method" in told.out
    wrong = polyseme("evaluate", "out", "--data", files / "dev.tsv", "--column", "text=review")
    assert wrong.code == 2 and "dev.tsv: no column 'review'" in wrong.err and wrong.err.count("\n") == 1


def test_what_layers_are_worth_is_said(finetune, polyseme, tmp_path):
    ended = finetune("--method", "mix")
    shares = read(tmp_path / "out" / SCORES)["layers"]["classify"]
    mix = ps.load(tmp_path / "out").tasks["classify"].features.mix
    assert shares == pytest.approx(mix.shares[0].tolist(), abs=1e-4) and sum(shares) == pytest.approx(1, abs=1e-3)
    assert len(set(shares)) > 1, "they have moved"
    said = ", ".join(map(str, shares))
    assert f"what each layer is worth to classify, from layer 0 upwards: {said}" in ended.err
    assert said in polyseme("info", "out").out and said in (tmp_path / "out" / "README.md").read_text()


def test_seeds_and_numbers_of_labels(finetune, tmp_path):
    options = ["--seeds", 2, "--seed", 3, "--labels", "8, all"]
    ended = finetune(*options)
    assert ended.code == 0, ended.err
    header, *rows = [line.split("\t") for line in ended.out.splitlines()]
    assert header == ["labels", "figure", "mean", "deviation"] and {row[0] for row in rows} == {"8", "all"}
    for number in ("8", "all"):
        folders = [tmp_path / "out" / f"labels-{number}" / f"seed-{seed}" for seed in (3, 4)]
        assert [ps.load(folder).recipe.plan.seed for folder in folders] == [3, 4]
        found = [read(folder / SCORES)["dev"]["accuracy"] for folder in folders]
        (row,) = [
            row
            for row in read(tmp_path / "out" / SUMMARY)
            if (str(row["labels"]), row["figure"]) == (number, "accuracy")
        ]
        assert row["values"] == found and row["mean"] == pytest.approx(sum(found) / 2)
        assert [number, "accuracy", f"{row['mean']:.4f}", f"{row['deviation']:.4f}"] in rows
    assert "out/labels-8/seed-3: 8 examples of classify" in ended.err
    assert (tmp_path / "out" / CURVE).read_text().startswith("<svg")
    # What is there is not trained again.
    (tmp_path / "out" / "labels-all" / "seed-4" / SCORES).unlink()
    again = finetune(*options, "--resume")
    assert again.code == 0 and again.out == ended.out and again.err.count("going on from step") == 1


def test_several_tasks(finetune, polyseme, files):
    named = [("--train", "topic", "train.tsv"), ("--train", "names", "train.conll"), ("--dev", "topic", "dev.tsv")]
    data = [word for option, name, file in named for word in (option, f"{name}={files / file}")]
    ended = finetune(data=data)
    assert ended.code == 0 and "48 examples of topic, 48 examples of names" in ended.err
    assert set(ps.load("out").tasks) == {"topic", "names"}
    which = polyseme("evaluate", "out", "--data", files / "dev.conll", "--json")
    assert which.code == 2 and "name one of topic, names" in which.err
    measured = polyseme("evaluate", "out", "--data", files / "dev.conll", "--task", "names", "--json")
    assert set(json.loads(measured.out)) == {"accuracy", "precision", "recall", "f1"}


def test_interrupted_and_resumed(finetune, polyseme, tmp_path, monkeypatch):
    assert finetune(out="whole").code == 0
    show = TrainingLine.show

    def press(line, progress):
        show(line, progress)
        if progress.step.number == 5:
            os.kill(os.getpid(), signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(TrainingLine, "show", press)
        stopped, of_two = finetune(), finetune("--seeds", 2, out="two")
    assert of_two.code == stopped.code and "by the whole command with --resume" in of_two.err
    assert [path.name for path in (tmp_path / "two").iterdir()] == ["seed-0"]
    assert stopped.code == 128 + signal.SIGINT and "stopped at step 5 and saved; go on with:" in stopped.err
    assert not (tmp_path / "out" / SCORES).exists()
    unfinished = polyseme("evaluate", "out", "--data", "dev.tsv")
    assert unfinished.code == 2 and "finetune --resume" in unfinished.err

    program, *words = shlex.split(stopped.err.splitlines()[-1])
    assert program == "polyseme"
    resumed = polyseme(*words)
    assert resumed.code == 0 and "out: going on from step 5 of 12" in resumed.err
    assert read(tmp_path / "out" / SCORES) == read(tmp_path / "whole" / SCORES)
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("out", "whole")]
    assert weights[0] == weights[1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--train", "none.tsv"], "none.tsv: no such file"),
        ([], "give --train a labelled file"),
        (["--train", "a.tsv", "--train", "b.tsv"], "with several, say NAME=a.tsv"),
        (["--train", "x=a.tsv", "--train", "x=b.tsv"], "the same name is given twice"),
        (["--train", "x=a.tsv", "--train", "y=b.tsv", "--dev", "a.tsv"], "for which of the tasks?"),
        (["--train", "x=a.tsv", "--dev", "z=a.tsv"], "z: there is a file for it, but no such task"),
        (["--train", "a.tsv", "--task", "clasify"], "'clasify' is no task; did you mean classify?"),
        (["--train", "a.tsv", "--task", "pair"], "a.tsv: no column 'text_a'"),
        (["--train", "a.tsv", "--task", "span"], "not JSON"),
        (["--train", "a.tsv", "--method", "half"], "tuning.method"),
        (["--train", "a.tsv", "--method", "cvt"], "cvt is for tags"),
        (["--train", "a.tsv", "--labels", "10,many"], "--labels 'many': say numbers of examples"),
        (["--train", "a.tsv", "--seeds", "0"], "--seeds"),
        (["--train", "a.tsv", "--column", "text"], "--column text: say what is where"),
        (["--train", "a.tsv", "--column", "text=review"], "--task classify --column text=review"),
        (["--train", "a.tsv", "--column", "txet=text"], "txet is nothing that a task needs; did you mean text?"),
        (["--train", "a.tsv", "--set", "plan.ratee=1"], "plan.ratee: no such setting; did you mean plan.rate?"),
        (["--train", "a.tsv", "--set", "model.width=8"], "only its dropout can be changed"),
        (["--train", "a.tsv", "--budget", "soon"], "plan.budget"),
        (["--train", "a.tsv", "--unlabelled", "a.tsv"], "only cvt learns from examples without labels"),
        (["--train", "one.tsv"], "one.tsv: every row has the label 'x'"),
    ],
)
def test_mistakes(polyseme, bert, tmp_path, monkeypatch, options, message):
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        (tmp_path / f"{name}.tsv").write_text("text\tlabel\na river\tx\nmoney\ty\n")
    (tmp_path / "one.tsv").write_text("text\tlabel\na river\tx\nmoney\tx\n")
    ended = polyseme("finetune", bert, *options, "--out", "out")
    assert ended.code == 2 and message in ended.err, ended.err
    assert ended.err.startswith("polyseme: ") and ended.err.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_a_directory_that_is_in_use(finetune, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "notes.txt").write_text("mine")
    ended = finetune()
    assert ended.code == 2 and ended.err.count("\n") == 1 and "out" in ended.err
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["notes.txt"]
