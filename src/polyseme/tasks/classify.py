"""The class of a text, or of how two texts are related."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch.nn.functional as F
from pydantic import Field, model_validator
from torch import Tensor

from polyseme.models.base import Encoder
from polyseme.tasks.base import TaskConfig, TuningConfig, name_labels
from polyseme.tasks.examples import Item
from polyseme.tasks.metrics import accuracy, macro_f1, matthews
from polyseme.tasks.texts import TextTask
from polyseme.tensors import IGNORED
from polyseme.text.forms import ClassifyExample, PairExample
from polyseme.text.labelled import find_labels

BALANCED = "balanced"
"""What weights are called that make every class count as much as any other."""


class ClassifyConfig(TaskConfig):
    """The classes."""

    kind: Literal["classify", "pair"] = "classify"
    labels: tuple[str, ...] = Field(min_length=2)
    weights: tuple[float, ...] = ()  # how much an example of each class counts, or balanced; all the same if none

    @classmethod
    def told_by(cls, examples: Sequence[ClassifyExample | PairExample]) -> dict[str, Any]:
        return {"labels": find_labels(examples)}

    @property
    def foreign(self) -> dict[str, Any]:
        return name_labels(self.labels)

    @model_validator(mode="after")
    def _a_weight_for_each(self) -> ClassifyConfig:
        if self.weights and len(self.weights) != len(self.labels):
            raise ValueError(f"weights: {len(self.weights)} for {len(self.labels)} labels; give one for each")
        return self


@dataclass(frozen=True, kw_only=True)
class Classified:
    """The likeliest class."""

    label: str
    probabilities: Mapping[str, float]  # of all classes

    def describe(self, example: ClassifyExample | PairExample) -> dict[str, Any]:
        """All of it, as JSON has it."""
        probabilities = {label: round(value, 6) for label, value in self.probabilities.items()}
        return {"label": self.label, "probability": probabilities[self.label], "probabilities": probabilities}

    def outline(self, example: ClassifyExample | PairExample) -> dict[str, str]:
        """The cells of a table."""
        return {"label": self.label, "probability": f"{self.probabilities[self.label]:.3f}"}


class Classify(TextTask[ClassifyExample | PairExample, Classified]):
    """A score for each class."""

    criterion = "accuracy"

    def __init__(self, name: str, config: ClassifyConfig, tuning: TuningConfig, encoder: Encoder) -> None:
        num_texts = 2 if config.kind == "pair" else 1
        super().__init__(name, tuning, encoder, len(config.labels), num_texts=num_texts)
        self.labels = {label: number for number, label in enumerate(config.labels)}
        self.weights = config.weights

    def right(self, example: ClassifyExample | PairExample) -> int:
        return self.labels.get(example.label, IGNORED)

    def compare(self, scores: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        weight = scores.new_tensor(self.weights) if self.weights else None
        loss = F.cross_entropy(scores, labels, weight=weight, ignore_index=IGNORED, reduction="sum")
        return loss, (scores.argmax(-1) == labels).sum()

    def answer(self, items: Sequence[Item], scores: Sequence[Tensor]) -> Classified:
        probabilities = dict(zip(self.labels, scores[0].softmax(-1).tolist(), strict=True))
        return Classified(label=max(probabilities, key=probabilities.__getitem__), probabilities=probabilities)

    def score(self, predicted: Sequence[Classified], gold: Sequence[ClassifyExample | PairExample]) -> dict[str, float]:
        theirs, mine = [example.label for example in gold], [answer.label for answer in predicted]
        measures = {"accuracy": accuracy, "macro_f1": macro_f1, "matthews": matthews}
        return {name: measure(theirs, mine) for name, measure in measures.items()}


def balance(labels: Sequence[str], examples: Sequence[ClassifyExample | PairExample]) -> tuple[float, ...]:
    """Weights by which every class counts as much as any other."""
    counts = Counter(example.label for example in examples)
    return tuple(len(examples) / (len(labels) * max(1, counts[label])) for label in labels)
