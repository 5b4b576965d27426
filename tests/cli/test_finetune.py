"""From labelled files to models on the command line: alone, by seeds, by numbers of labels, for several tasks."""

import json
import os
import random
import shlex
import signal

import pytest

import polyseme as ps
from polyseme.cli.progress import TrainingBar
from polyseme.training.finetuning import SCORES
from polyseme.training.sweep import CURVE, SUMMARY

QUICK = [
    "training.learning_rate=5e-3",
    "training.threads=1",
    "data.batch_size=8",
    "finetuning.width=16",
    "model.dropout=0",
]
QUICK = [word for setting in QUICK for word in ("--set", setting)]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Texts about rivers and money, and the same words with tags."""
    folder, rng = tmp_path_factory.mktemp("labelled"), random.Random(0)
    for name, number in (("train", 48), ("dev", 24)):
        rows, sentences = ["text\tlabel"], []
        for _ in range(number):
            words = [*rng.choices(["old", "new", "every", "barn", "mill", "year"], k=3), "river"]
            words[3] = rng.choice(["river", "money"])
            rows.append(" ".join(words) + ("\tnature" if words[3] == "river" else "\tbank"))
            sentences.append("\n".join(f"{word}\t{'B-N' if word == 'river' else 'O'}" for word in words))
        (folder / f"{name}.tsv").write_text("\n".join(rows) + "\n")
        (folder / f"{name}.conll").write_text("\n\n".join(sentences) + "\n")
    return folder


@pytest.fixture
def finetune(polyseme, bert, files, tmp_path, monkeypatch):
    """Run finetune with the options under test."""
    monkeypatch.chdir(tmp_path)
    both = ["--train", files / "train.tsv", "--dev", files / "dev.tsv"]

    def command(*options, data=both, out="out", budget="12steps"):
        return polyseme("finetune", bert, *data, "--out", out, "--budget", budget, *QUICK, *options)

    return command


def read(path):
    return json.loads(path.read_text())


def test_a_run_and_its_scores(finetune, polyseme, files, tmp_path):
    ended = finetune(budget="60steps")
    assert ended.code == 0 and ended.out == ""
    scores = read(tmp_path / "out" / SCORES)
    assert scores["dev"]["accuracy"] > 0.9
    assert (
        "out: 48 examples of classify; bert with" in ended.err
        and "at most 60 steps of 8 examples (60steps)" in ended.err
    )
    assert f"best checkpoint: step {scores['step']}, dev accuracy" in ended.err
    assert ended.err.endswith("polyseme predict out FILE\n")

    del scores["dev"]["selection_metric"]
    measured = polyseme("evaluate", "out", "--data", files / "dev.tsv", "--json")
    assert measured.code == 0 and json.loads(measured.out) == pytest.approx(scores["dev"])
    shown = polyseme("evaluate", "out", "--data", files / "dev.tsv")
    assert f"macro f1\t{scores['dev']['macro_f1']:.4f}" in shown.out
    facts = polyseme("info", "out")
    assert "tasks.classify.kind" in facts.out and "finetuning.method" in facts.out
    wrong = polyseme("evaluate", "out", "--data", files / "dev.tsv", "--column", "text=review")
    assert wrong.code == 2 and "dev.tsv: no column 'review'" in wrong.err and wrong.err.count("\n") == 1


def test_scalar_mix_weights_are_printed(finetune, polyseme, tmp_path):
    ended = finetune("--method", "mix", "--set", "finetuning.head_initialization=random", budget="60steps")
    shares = read(tmp_path / "out" / SCORES)["layers"]["classify"]
    mix = ps.load(tmp_path / "out").tasks["classify"].features.mix
    assert shares == pytest.approx(mix.layer_weights.tolist(), abs=1e-4) and sum(shares) == pytest.approx(1, abs=1e-3)
    assert len(set(shares)) > 1, "they have moved"
    weights = ", ".join(map(str, shares))
    assert f"scalar mix of classify, from layer 0 upwards: {weights}" in ended.err
    assert weights in polyseme("info", "out").out and weights in (tmp_path / "out" / "README.md").read_text()


def test_seeds_and_numbers_of_labels(finetune, tmp_path):
    options = ["--seeds", 2, "--seed", 3, "--labels", "8, all"]
    ended = finetune(*options)
    assert ended.code == 0, ended.err
    header, *rows = [line.split("\t") for line in ended.out.splitlines()]
    assert header == ["labels", "metric", "mean", "deviation"] and {row[0] for row in rows} == {"8", "all"}
    for number in ("8", "all"):
        folders = [tmp_path / "out" / f"labels-{number}" / f"seed-{seed}" for seed in (3, 4)]
        assert [ps.load(folder).recipe.training.seed for folder in folders] == [3, 4]
        found = [read(folder / SCORES)["dev"]["accuracy"] for folder in folders]
        (row,) = [
            row
            for row in read(tmp_path / "out" / SUMMARY)
            if (str(row["labels"]), row["metric"]) == (number, "accuracy")
        ]
        assert row["values"] == found and row["mean"] == pytest.approx(sum(found) / 2)
        assert [number, "accuracy", f"{row['mean']:.4f}", f"{row['deviation']:.4f}"] in rows
    assert "out/labels-8/seed-3: 8 examples of classify" in ended.err
    assert (tmp_path / "out" / CURVE).read_text().startswith("<svg")
    # What is there is not trained again.
    (tmp_path / "out" / "labels-all" / "seed-4" / SCORES).unlink()
    again = finetune(*options, "--resume")
    assert again.code == 0 and again.out == ended.out and again.err.count("resuming at step") == 1


def test_several_tasks(finetune, polyseme, files):
    named = [("--train", "topic", "train.tsv"), ("--train", "names", "train.conll"), ("--dev", "topic", "dev.tsv")]
    data = [word for option, name, file in named for word in (option, f"{name}={files / file}")]
    ended = finetune(data=data)
    assert ended.code == 0 and "48 examples of topic, 48 examples of names" in ended.err
    assert set(ps.load("out").tasks) == {"topic", "names"}
    which = polyseme("evaluate", "out", "--data", files / "dev.conll", "--json")
    assert which.code == 2 and "choose one of topic, names" in which.err
    measured = polyseme("evaluate", "out", "--data", files / "dev.conll", "--task", "names", "--json")
    assert set(json.loads(measured.out)) == {"accuracy", "precision", "recall", "f1"}


def test_interrupted_and_resumed(finetune, polyseme, tmp_path, monkeypatch):
    assert finetune(out="whole").code == 0
    update = TrainingBar.update

    def press(bar, progress, total):
        update(bar, progress, total)
        if progress.step.number == 5:
            os.kill(os.getpid(), signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(TrainingBar, "update", press)
        stopped, of_two = finetune(), finetune("--seeds", 2, out="two")
    assert of_two.code == stopped.code and "the whole command with --resume" in of_two.err
    assert [path.name for path in (tmp_path / "two").iterdir()] == ["seed-0"]
    assert stopped.code == 128 + signal.SIGINT and "stopped at step 5 and saved; resume with:" in stopped.err
    assert not (tmp_path / "out" / SCORES).exists()
    unfinished = polyseme("evaluate", "out", "--data", "dev.tsv")
    assert unfinished.code == 2 and "finetune --resume" in unfinished.err

    program, *words = shlex.split(stopped.err.splitlines()[-1])
    assert program == "polyseme"
    resumed = polyseme(*words)
    assert resumed.code == 0 and "out: resuming at step 5 of 12" in resumed.err
    assert read(tmp_path / "out" / SCORES) == read(tmp_path / "whole" / SCORES)
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("out", "whole")]
    assert weights[0] == weights[1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--train", "none.tsv"], "none.tsv: no such file"),
        ([], "name a labelled file with --train"),
        (["--train", "a.tsv", "--train", "b.tsv"], "with several, write NAME=a.tsv"),
        (["--train", "x=a.tsv", "--train", "x=b.tsv"], "this name is used twice"),
        (["--train", "x=a.tsv", "--train", "y=b.tsv", "--dev", "a.tsv"], "does not name its task"),
        (["--train", "x=a.tsv", "--dev", "z=a.tsv"], "z has a file but is not a task"),
        (["--train", "a.tsv", "--task", "clasify"], "'clasify' is not a task; did you mean classify?"),
        (["--train", "a.tsv", "--task", "pair"], "a.tsv: no column 'text_a'"),
        (["--train", "a.tsv", "--task", "span"], "not JSON"),
        (["--train", "a.tsv", "--method", "half"], "finetuning.method"),
        (["--train", "a.tsv", "--method", "cvt"], "cvt is for tag tasks"),
        (["--train", "a.tsv", "--labels", "10,many"], "--labels 'many': give numbers of examples"),
        (["--train", "a.tsv", "--seeds", "0"], "--seeds"),
        (["--train", "a.tsv", "--column", "text"], "--column text: name the field"),
        (["--train", "a.tsv", "--column", "text=review"], "--task classify --column text=review"),
        (["--train", "a.tsv", "--column", "txet=text"], "txet is not a column of any task; did you mean text?"),
        (
            ["--train", "a.tsv", "--set", "training.learning_ratee=1"],
            "unknown setting training.learning_ratee; did you mean training.learning_rate?",
        ),
        (["--train", "a.tsv", "--set", "model.width=8"], "only its dropout can be changed"),
        (["--train", "a.tsv", "--budget", "soon"], "training.budget"),
        (["--train", "a.tsv", "--unlabelled", "a.tsv"], "only cvt uses unlabelled examples"),
        (["--train", "one.tsv"], "one.tsv: all rows have the label 'x'"),
    ],
)
def test_user_errors(polyseme, bert, tmp_path, monkeypatch, options, message):
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
