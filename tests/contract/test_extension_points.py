"""New families, tasks and export formats touch the files that CONTRIBUTING.md names, here in a copy of the package."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import polyseme as ps

FAMILY = '''
from polyseme.models.bert import Bert, BertConfig


class ToyConfig(BertConfig):
    """Sizes of the toy family."""


class Toy(Bert):
    """A BERT that transformers does not have."""

    Config = ToyConfig
    hf_mapping = None
'''

TASK = '''
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch.nn.functional as F

from polyseme.datasets.records import Example
from polyseme.tasks.config import TaskConfig
from polyseme.tasks.spec import TaskSpec, always
from polyseme.tasks.text_level import TextTask


@dataclass(frozen=True, slots=True, kw_only=True)
class LengthExample(Example):
    """A text and its number of words."""

    columns: ClassVar[Mapping[str, str]] = {"text": "text", "length": "length"}
    inputs: ClassVar[tuple[str, ...]] = ("text",)

    text: str
    length: float

    @classmethod
    def parse(cls, record):
        return cls(file=record.file, row=record.row, text=record.text("text"), length=record.number("length"))


class LengthConfig(TaskConfig):
    """The length task has no settings."""

    kind: Literal["length"] = "length"


@dataclass(frozen=True, kw_only=True)
class LengthPrediction:
    """A predicted number of words."""

    length: float

    def to_json(self, example):
        return {"length": self.length}

    def to_row(self, example):
        return {"length": f"{self.length:.1f}"}


class Length(TextTask[LengthExample, LengthPrediction]):
    """Predict the number of words of a text."""

    selection_metric = "negative_error"

    def __init__(self, name, config, finetuning, encoder):
        super().__init__(name, finetuning, encoder, 1, num_texts=1)

    def target(self, example):
        return example.length

    def compare(self, scores, labels):
        return F.mse_loss(scores[:, 0], labels.to(scores.dtype), reduction="sum"), None

    def decode(self, instances, scores):
        return LengthPrediction(length=scores[0].item())

    def score(self, predicted, gold):
        errors = [abs(found.length - example.length) for found, example in zip(predicted, gold, strict=True)]
        return {"negative_error": -sum(errors) / len(errors)}


SPEC = TaskSpec(
    kind="length",
    display_name="length prediction",
    Example=LengthExample,
    Config=LengthConfig,
    Head=Length,
    metric=always("negative_error"),
)
'''

FORMAT = """
from polyseme.conversion.formats import Exporter


def _write(model, path, texts):
    path.write_text("\\n".join(model.require_tokenizer().backend.get_vocab()), encoding="utf-8")
    return path, None


EXPORTER = Exporter(write=_write, single_file=True)
"""

NEW_FILES = {"models/toy.py": FAMILY, "tasks/length.py": TASK, "conversion/vocabulary_export.py": FORMAT}

# By file: the new import, the line of the table after which an entry is added, and the entry.
NEW_LINES = {
    "families.py": ("from polyseme.models.toy import Toy", "FAMILIES: dict[str, type[Encoder]] = {", '"toy": Toy,'),
    "tasks/__init__.py": ("from polyseme.tasks import length", "    for spec in (", "length.SPEC,"),
    "conversion/registry.py": (
        "from polyseme.conversion import vocabulary_export",
        "EXPORTERS: dict[str, Exporter] = {",
        '"vocabulary": vocabulary_export.EXPORTER,',
    ),
}

DRIVER = """
import contextlib, io, json, sys
from polyseme.cli import run

ended = []
for command in json.loads(sys.argv[1]):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run(command)
    ended.append([code, out.getvalue(), err.getvalue()])
print(json.dumps(ended))
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """The folder of a copy of the package that has one more family, task and export format."""
    root = tmp_path_factory.mktemp("copy") / "polyseme"
    shutil.copytree(Path(ps.__file__).parent, root)
    for file, text in NEW_FILES.items():
        (root / file).write_text(text, encoding="utf-8")
    for file, (imported, before, line) in NEW_LINES.items():
        text = (root / file).read_text(encoding="utf-8")
        assert text.count(f"\n{before}\n") == 1
        text = text.replace(f"\n{before}\n", f"\n{before}\n        {line}\n")
        (root / file).write_text(text.replace("\nfrom polyseme", f"\n{imported}\nfrom polyseme", 1), encoding="utf-8")
    preset = (root / "presets/bert.toml").read_text(encoding="utf-8")
    (root / "presets/toy.toml").write_text(preset.replace('"BERT"', '"Toy BERT"', 1), encoding="utf-8")
    return root.parent


def execute(package, *arguments):
    """Run Python with the copied package; return what it prints."""
    environment = {**os.environ, "PYTHONPATH": str(package)}
    ended = subprocess.run(
        [sys.executable, *map(str, arguments)], env=environment, capture_output=True, text=True, encoding="utf-8"
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def run_commands(package, *commands):
    """The output of command lines, which must succeed."""
    commands = [[str(word) for word in command] for command in commands]
    ended = json.loads(execute(package, "-c", DRIVER, json.dumps(commands)))
    for (code, _, err), command in zip(ended, commands, strict=True):
        assert code == 0, (command, err)
    return [out for _, out, _ in ended]


def settings(*values):
    return [word for value in ("training.threads=1", *values) for word in ("--set", value)]


def test_new_family(package, corpus_file, tmp_path):
    """One file, one line, one preset: it is in the help, trains, loads, and has its name in reports."""
    loaded = "import sys, polyseme; assert polyseme.__path__[0].startswith(sys.argv[1])"
    execute(package, "-c", f"{loaded}; import polyseme.cli; assert 'torch' not in sys.modules", package)
    family_names = "from polyseme.comparison.report.labels import family_names as names; print(names(['toy', 'bert']))"
    assert execute(package, "-c", family_names) == "Toy BERT and BERT\n"

    out, options = tmp_path / "toy", settings("model.vocab_size=300", "training.batch_tokens=256")
    pretrain = ["pretrain", "toy", "--corpus", corpus_file, "--size", "tiny", "--budget", "3steps", "--out", out]
    commands = [["pretrain", "--help"], [*pretrain, *options], ["fill", out, "The old [MASK].", "--top", 2]]
    help_text, _, filled = run_commands(package, *commands)

    assert " toy," in help_text
    assert json.loads((out / "config.json").read_text(encoding="utf-8"))["model_type"] == "polyseme-toy"
    assert len(filled.splitlines()) >= 2


@pytest.mark.parametrize("family", ["bert", "skipgram"])
def test_new_task(package, family, corpus_file, tmp_path):
    """One file and one line: its files are recognized and checked; models are trained, evaluated and predict."""
    base, out = tmp_path / family, tmp_path / "length"
    options = ["training.threads=1", "model.vocab_size=300"]
    ps.pretrain(family, corpus=corpus_file, out=base, size="tiny", budget="2steps", settings=options)
    data = tmp_path / "lengths.tsv"
    rows = [f"{'bank ' * number}{row}\t{number + 1}" for row, number in enumerate((1, 2, 3, 4) * 4)]
    data.write_text("\n".join(["text\tlength", *rows]), encoding="utf-8")

    finetune = ["finetune", base, "--train", data, "--dev", data, "--out", out, "--budget", "4steps", *settings()]
    checked, _, predicted, evaluated = run_commands(
        package,
        ["data", "check", data, "--task", "length"],
        [*finetune, "--set", "data.sequence_length=32"],
        ["predict", out, data, "--json"],
        ["evaluate", out, "--data", data, "--json"],
    )

    assert checked.startswith("length\t") and "scores (minimum, median, 95 %, maximum)\t2 / 3 / 5 / 5" in checked
    assert len(predicted.splitlines()) == 16 and "length" in json.loads(predicted.splitlines()[0])
    assert "negative_error" in evaluated


def test_new_export_format(package, corpus_file, tmp_path):
    """One file and one line: models are exported in it."""
    model, out = tmp_path / "model", tmp_path / "words.txt"
    options = ["training.threads=1", "model.vocab_size=300"]
    ps.pretrain("skipgram", corpus=corpus_file, out=model, size="tiny", budget="2steps", settings=options)

    run_commands(package, ["export", model, "--to", "vocabulary", "--out", out])

    assert "bank" in out.read_text(encoding="utf-8").split("\n")
