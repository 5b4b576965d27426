"""Text classification and sentence-pair classification."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

from pydantic import model_validator
from torch import Tensor

from polyseme.batch import IGNORED
from polyseme.datasets.task_schemas import ClassifyExample, PairExample
from polyseme.models.base import Encoder
from polyseme.tasks.config import FineTuningConfig, LabelsConfig
from polyseme.tasks.inputs.dataset import Instance
from polyseme.tasks.metrics import accuracy, macro_f1, matthews
from polyseme.tasks.spec import LinearProbe, TaskSpec, always
from polyseme.tasks.text_level import TextTask

BALANCED = "balanced"
"""The value of `weights` that gives all classes the same total weight."""

ClassExample = ClassifyExample | PairExample


class TextClassificationConfig(LabelsConfig):
    """The classes and their weights."""

    kind: Literal["classify", "pair"] = "classify"
    weights: tuple[float, ...] = ()  # of the loss, by class; or "balanced"; by default all equal

    @model_validator(mode="after")
    def _a_weight_per_label(self) -> Self:
        if self.weights and len(self.weights) != len(self.labels):
            raise ValueError(f"weights: {len(self.weights)} for {len(self.labels)} labels; give one for each")
        return self


@dataclass(frozen=True, kw_only=True)
class ClassPrediction:
    """The most probable class."""

    label: str
    probabilities: Mapping[str, float]  # of all classes

    def to_json(self, example: ClassExample) -> dict[str, Any]:
        """All fields, as JSON values."""
        probabilities = {label: round(value, 6) for label, value in self.probabilities.items()}
        return {"label": self.label, "probability": probabilities[self.label], "probabilities": probabilities}

    def to_row(self, example: ClassExample) -> dict[str, str]:
        """The cells of a table row."""
        return {"label": self.label, "probability": f"{self.probabilities[self.label]:.3f}"}


class TextClassification(TextTask[ClassExample, ClassPrediction]):
    """A score per class."""

    selection_metric = "accuracy"
    hf_class = "SequenceClassification"

    def __init__(
        self, name: str, config: TextClassificationConfig, finetuning: FineTuningConfig, encoder: Encoder
    ) -> None:
        num_texts = 2 if config.kind == "pair" else 1
        super().__init__(name, finetuning, encoder, len(config.labels), num_texts=num_texts)
        self.labels = {label: number for number, label in enumerate(config.labels)}
        self.class_weights = config.weights

    def target(self, example: ClassExample) -> int:
        return self.labels.get(example.label, IGNORED)

    def decode(self, instances: Sequence[Instance], scores: Sequence[Tensor]) -> ClassPrediction:
        probabilities = dict(zip(self.labels, scores[0].softmax(-1).tolist(), strict=True))
        return ClassPrediction(label=max(probabilities, key=probabilities.__getitem__), probabilities=probabilities)

    @staticmethod
    def score(predicted: Sequence[ClassPrediction], gold: Sequence[ClassExample]) -> dict[str, float]:
        expected, found = [example.label for example in gold], [prediction.label for prediction in predicted]
        metrics = {"accuracy": accuracy, "macro_f1": macro_f1, "matthews": matthews}
        return {name: metric(expected, found) for name, metric in metrics.items()}


def balanced_class_weights(labels: Sequence[str], examples: Sequence[ClassExample]) -> tuple[float, ...]:
    """Weights that give all classes the same total weight."""
    counts = Counter(example.label for example in examples)
    return tuple(len(examples) / (len(labels) * max(1, counts[label])) for label in labels)


TEXT = TaskSpec(
    kind="classify",
    display_name="text classification",
    Example=ClassifyExample,
    Config=TextClassificationConfig,
    Head=TextClassification,
    metric=always("accuracy"),
    majority_baseline=True,
    probe=LinearProbe(inputs="text"),
    use="classification",
    endpoint="classify",
)
PAIR = replace(
    TEXT,
    kind="pair",
    display_name="sentence-pair classification",
    Example=PairExample,
    compares_texts=True,
    probe=LinearProbe(inputs="pair"),
    use="pair_classification",
    endpoint="pair",
)
