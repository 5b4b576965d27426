"""A new family is a class, a table entry and a preset; a new task is a module and a table entry."""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import pytest
import torch.nn.functional as F

import polyseme as ps
from polyseme import families, tasks
from polyseme.datasets.records import Example
from polyseme.models.bert import Bert, BertConfig
from polyseme.tasks.config import TaskConfig
from polyseme.tasks.spec import TaskSpec, always
from polyseme.tasks.text_level import TextTask
from polyseme.training import presets

QUICK = ["training.threads=1", "data.sequence_length=32"]


class ToyConfig(BertConfig):
    """Sizes of the toy family."""


class Toy(Bert):
    """A BERT that transformers does not have."""

    Config = ToyConfig
    hf_mapping = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LengthExample(Example):
    """A text and its number of words."""

    columns: ClassVar[Mapping[str, str]] = {"text": "text", "length": "length"}
    inputs: ClassVar[tuple[str, ...]] = ("text",)

    text: str
    length: float

    @property
    def texts(self):
        return (self.text,)

    @property
    def labels(self):
        return ()

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

    def to_json(self, example: LengthExample) -> dict[str, Any]:
        return {"length": self.length}

    def to_row(self, example: LengthExample) -> dict[str, str]:
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


@pytest.fixture
def toy_family(tmp_path, monkeypatch):
    folder = tmp_path / "presets"
    shutil.copytree(presets._presets(), folder)
    (folder / "toy.toml").write_text((folder / "bert.toml").read_text(encoding="utf-8"), encoding="utf-8")
    monkeypatch.setattr(presets, "_presets", lambda: folder)
    monkeypatch.setitem(families.FAMILIES, "toy", Toy)


@pytest.fixture
def toy_task(monkeypatch):
    monkeypatch.setitem(tasks.TASKS, "length", SPEC)


def test_new_family_trains_saves_and_loads(toy_family, corpus_file, tmp_path):
    settings = [*QUICK, "model.vocab_size=300", "training.batch_tokens=256"]
    model = ps.pretrain(
        "toy", corpus=corpus_file, out=tmp_path / "toy", size="tiny", budget="3steps", settings=settings
    )

    assert model.family == "toy" and isinstance(model.encoder, Toy)
    assert ps.load(tmp_path / "toy").fill("The old [MASK].", top=2) == model.fill("The old [MASK].", top=2)


@pytest.mark.parametrize("family", ["bert", "skipgram"])
def test_new_task_trains_and_predicts(family, toy_task, corpus_file, tmp_path):
    settings = ["training.threads=1", "model.vocab_size=300"]
    base = ps.pretrain(
        family, corpus=corpus_file, out=tmp_path / family, size="tiny", budget="2steps", settings=settings
    )
    rows = [" ".join(["bank"] * number) for number in (1, 2, 3, 4) * 4]
    data = tmp_path / "lengths.tsv"
    data.write_text("text\tlength\n" + "".join(f"{row}\t{len(row.split())}\n" for row in rows), encoding="utf-8")

    model = ps.finetune(
        base.folder, task="length", train=data, dev=data, out=tmp_path / "length", budget="4steps", settings=QUICK
    )

    (prediction,) = model.predict(["the old bank"])
    (reloaded,) = ps.load(tmp_path / "length").predict(["the old bank"])
    assert isinstance(prediction, LengthPrediction) and reloaded == prediction
    assert model.score_task(data).keys() == {"negative_error"}
