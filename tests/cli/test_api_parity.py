"""The command line and the Python functions have the same options, and the same options give the same files."""

import inspect
import json
import re

import pytest

import polyseme as ps
from polyseme.cli.training.adapt import adapt
from polyseme.cli.training.compare import compare
from polyseme.cli.training.finetune import finetune
from polyseme.cli.training.pretrain import pretrain

SIZES = ["model.vocab_size=300", "model.width=16", "model.max_length=32", "data.sequence_length=16"]
SETTINGS = ["training.batch_tokens=64", "training.threads=1"]
# Measured times, and in the manifest of a checkpoint the checksum of them
TIMINGS = re.compile(r'"\w*(seconds?|time|bytes)": [^,}]+|\d+ seconds|"sha256": "\w+"')


@pytest.mark.parametrize(
    ("command", "function"),
    [(pretrain, ps.pretrain), (adapt, ps.adapt), (finetune, ps.finetune), (compare, ps.compare)],
    ids=["pretrain", "adapt", "finetune", "compare"],
)
def test_the_same_options(command, function):
    by_command, by_function = (inspect.signature(one).parameters for one in (command, function))
    not_of_python = {"context", "json", "dry_run"}  # of the parser; printed; estimate_pretraining
    assert {*by_command} - not_of_python == {*by_function}
    for name, parameter in by_function.items():
        default = by_command[name].default
        same = default == parameter.default or not (default or parameter.default)
        assert same or inspect.Parameter.empty in (default, parameter.default), name


def contents(folder):
    """All files of a run by name, without timings."""
    files = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name != "run.lock":  # holds the process number
            content = path.read_bytes()
            if path.suffix in (".jsonl", ".md", ".json"):
                content = TIMINGS.sub("", content.decode())
            files[str(path.relative_to(folder))] = content
    return files


def test_training_commands_write_the_same_files_as_the_functions(polyseme, corpus_file, tmp_path, monkeypatch):
    labelled = tmp_path / "train.tsv"
    labelled.write_text("text\tlabel\n" + "a river\tnature\nthe money\tbank\n" * 8)
    settings = [*SIZES, *SETTINGS]
    other_text = tmp_path / "other.txt"
    other_text.write_text(corpus_file.read_text().replace("bank", "quaggabank"))
    runs = tmp_path / "runs"  # both train here: a run names its base model by an absolute path

    def sets(values):
        return [word for value in values for word in ("--set", value)]

    runs.mkdir()
    monkeypatch.chdir(runs)
    masked = {"dev": [corpus_file], "masking": "word", "size": "tiny", "settings": settings}
    ps.pretrain("bert", corpus=corpus_file, budget="4steps", out="bert", **masked)
    ps.adapt("bert", corpus=other_text, new_words=1, budget="3steps", settings=SETTINGS, out="adapted")
    ps.finetune("bert", train=labelled, dev=labelled, budget="3steps", labels=8, settings=SETTINGS[1:], out="tuned")
    runs.rename(tmp_path / "python")

    runs.mkdir()
    monkeypatch.chdir(runs)
    assert not polyseme(
        *["pretrain", "bert", "--corpus", corpus_file, "--dev", corpus_file, "--masking", "word", "--size", "tiny"],
        *["--budget", "4steps", *sets(settings), "--out", "bert"],
    ).code
    assert not polyseme(
        *["adapt", "bert", "--corpus", other_text, "--new-words", 1, "--budget", "3steps", *sets(SETTINGS)],
        *["--out", "adapted"],
    ).code
    assert not polyseme(
        *["finetune", "bert", "--train", labelled, "--dev", labelled, "--budget", "3steps", "--labels", 8],
        *[*sets(SETTINGS[1:]), "--out", "tuned"],
    ).code

    for run in ("bert", "adapted", "tuned"):
        python, command = contents(tmp_path / "python" / run), contents(runs / run)
        assert python.keys() == command.keys() >= {"model.safetensors", "recipe.toml", "README.md", "history.jsonl"}
        assert any(name.startswith("checkpoints") and name.endswith(".safetensors") for name in python)
        for name, content in python.items():
            assert command[name] == content, (run, name)
    assert "polyseme adapt bert --out adapted" in (tmp_path / "python" / "adapted" / "README.md").read_text()


def test_a_command_line_that_is_equivalent_to_a_call():
    from polyseme.api import _command_line

    options = {"out": "runs/a b", "corpus": {"en": "en.txt", "zh": ["1.txt", "2.txt"]}, "size": "small", "seed": 3}
    options |= {"settings": ("training.threads=1",), "dev": [], "resume": True, "budget": None}
    assert _command_line(ps.pretrain, "mbert", options) == (
        "polyseme pretrain mbert --out 'runs/a b' --corpus en=en.txt --corpus zh=1.txt --corpus zh=2.txt --seed 3 "
        "--set training.threads=1 --resume"
    )


def test_compare_measures_the_same(polyseme, corpus_file, trained, tmp_path, monkeypatch):
    """All rows but timings are the same for the same models."""

    def rows(folder):
        found = [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]
        return [
            {name: value for name, value in row.items() if not re.search("second|bytes|sha256", name)} for row in found
        ]

    monkeypatch.chdir(tmp_path)
    models = [str(trained / "bert"), str(trained / "gpt2")]
    (tmp_path / "python").mkdir()
    (tmp_path / "command").mkdir()
    monkeypatch.chdir(tmp_path / "python")
    ps.compare(*models, corpus=corpus_file, out="report", labels="8", budget="5s")
    monkeypatch.chdir(tmp_path / "command")
    ended = polyseme("compare", *models, "--data", corpus_file, "--out", "report", "--labels", "8", "--budget", "5s")
    assert ended.code == 0, ended.err
    python, command = (rows(tmp_path / way / "report") for way in ("python", "command"))
    assert python == command
