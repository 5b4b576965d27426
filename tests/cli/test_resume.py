"""--resume: the options of a run again, another budget, and what is refused."""

import shutil
from pathlib import Path

import pytest

from polyseme.training.recipes.recipe import Recipe

QUICK = ["--set", "training.threads=1", "--set", "data.batch_size=8"]


@pytest.fixture
def run(bert, tmp_path, monkeypatch):
    """A copy of a finished run of forty steps, which started with --size tiny."""
    monkeypatch.chdir(tmp_path)
    return shutil.copytree(bert, tmp_path / "run").name


def refused(ended, message):
    assert ended.code == 2 and ended.out == "", ended.err
    assert ended.err.startswith("polyseme: ") and ended.err.count("\n") == 1 and message in ended.err, ended.err


def test_a_longer_budget(polyseme, run):
    resume = ["pretrain", "bert", "--out", run, "--resume"]
    again = polyseme(*resume, "--budget", "40steps", "--size", "tiny")
    assert again.code == 0 and "resuming at step 40 of 40\n" in again.err
    longer = polyseme(*resume, "--budget", "50 steps")
    assert longer.code == 0, longer.err
    assert "resuming at step 40 of 50; the budget is now 50 steps instead of 40steps\n" in longer.err
    assert Recipe.load(Path(run)).training.steps == 50 and polyseme("info", run).code == 0
    assert "resuming at step 50 of 50\n" in polyseme(*resume).err
    refused(
        polyseme(*resume, "--budget", "40steps"),
        "run has already been trained for 50 steps, more than --budget 40steps (40 steps); give a longer budget, or",
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        # A default counts if it is on the command line.
        (["--size", "small"], "run was started with --size tiny, not small; omit --size to resume it, or choose"),
        (["--seed", "1"], "run was started with --seed 0, not 1"),
        (["--recipe", "paper"], "run was started with --recipe fast, not paper"),
        (["--corpus", "town"], "omit --corpus to resume it, or choose another --out"),
        (["--set", "model.width=64"], "run was started with --set model.width=32, not 64"),
        (["--budget", "2m"], "run has a budget of 40steps, which is not a time"),
    ],
    ids=" ".join,
)
def test_other_options(polyseme, run, options, message):
    refused(polyseme("pretrain", "bert", "--out", run, "--resume", *options), message)


def test_other_commands(polyseme, run):
    refused(polyseme("pretrain", "gpt2", "--out", run, "--resume"), "is a run of polyseme pretrain bert; resume it")
    refused(polyseme("adapt", run, "--out", run, "--resume"), "is a run of polyseme pretrain bert")
    refused(polyseme("finetune", run, "--out", run, "--resume"), "is a run of polyseme pretrain or adapt")


def test_finetuning(polyseme, run, tmp_path):
    (tmp_path / "train.tsv").write_text("text\tlabel\n" + "a river\tnature\nthe money\tbank\n" * 8)
    shutil.copy("train.tsv", "other.tsv")
    resume = ["finetune", run, "--out", "tuned", "--resume"]
    assert polyseme(*resume, "--train", "train.tsv", "--budget", "4steps", "--seed", 3, *QUICK).code == 0
    nothing = polyseme(*resume, "--train", "train.tsv", "--budget", "4steps", "--seed", 3, *QUICK)
    assert nothing.code == 0 and nothing.err == "next: polyseme predict tuned FILE\n"
    longer = polyseme(*resume, "--budget", "6steps")
    assert longer.code == 0, longer.err
    assert "tuned: resuming at step 4 of 6; the budget is now 6steps instead of 4steps\n" in longer.err
    for options, message in (
        (["--train", "other.tsv"], "omit --train to resume it, or choose another --out"),
        (["--seed", 0], "tuned was started with --seed 3, not 0"),
        (["--method", "frozen"], "tuned was started with --method full, not frozen"),
        (["--labels", 8], "tuned was started with --labels all, not 8"),
        (["--seeds", 2], "tuned is a single run; omit --seeds"),
    ):
        refused(polyseme(*resume, *options), message)
    refused(polyseme("pretrain", "bert", "--out", "tuned", "--resume"), "is a run of polyseme finetune")
