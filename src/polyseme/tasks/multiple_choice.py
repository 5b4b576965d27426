"""Multiple choice: which of several texts continues another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch.nn.functional as F
from torch import Tensor

from polyseme.batch import IGNORED, Batch, Encoded
from polyseme.datasets.task_schemas import ChoiceExample
from polyseme.models.base import Encoder
from polyseme.tasks.base import Task
from polyseme.tasks.config import FineTuningConfig, TaskConfig
from polyseme.tasks.inputs.dataset import Instance
from polyseme.tasks.inputs.input_formatter import InputFormatter
from polyseme.tasks.metrics import accuracy
from polyseme.tasks.spec import TaskSpec, always
from polyseme.tasks.text_level import text_features, text_head, text_vectors


class MultipleChoiceConfig(TaskConfig):
    """Multiple choice has no settings."""

    kind: Literal["choice"] = "choice"


@dataclass(frozen=True, kw_only=True)
class ChoicePrediction:
    """The most probable choice."""

    choice: int
    probabilities: tuple[float, ...]

    def to_json(self, example: ChoiceExample) -> dict[str, Any]:
        """All fields, as JSON values."""
        probabilities = [round(value, 6) for value in self.probabilities]
        return {
            "choice": self.choice,
            "chosen": example.choices[self.choice],
            "probability": probabilities[self.choice],
            "probabilities": probabilities,
        }

    def to_row(self, example: ChoiceExample) -> dict[str, str]:
        """The cells of a table row."""
        probability = f"{self.probabilities[self.choice]:.3f}"
        return {"choice": str(self.choice), "chosen": example.choices[self.choice], "probability": probability}


class MultipleChoice(Task[ChoiceExample, ChoicePrediction]):
    """A score per choice, normalized over the choices of an example."""

    selection_metric = "accuracy"

    def __init__(self, name: str, config: MultipleChoiceConfig, finetuning: FineTuningConfig, encoder: Encoder) -> None:
        super().__init__(name, finetuning, encoder, text_features(finetuning, encoder, num_texts=2))
        self.head = text_head(finetuning, encoder, self.features, 1, num_texts=2)

    def instances(self, formatter: InputFormatter, examples: Sequence[ChoiceExample]) -> list[Instance]:
        groups: list[list[tuple[str, ...]]] = [
            [(example.context, choice) for choice in example.choices]
            if formatter.joins_pairs
            else [(text,) for text in example.texts]
            for example in examples
        ]
        return [
            Instance(example=number, rows=rows, label=example.answer)
            for number, (rows, example) in enumerate(zip(formatter.rows(groups), examples, strict=True))
        ]

    def scores(self, encoder: Encoder, encoded: Encoded, batch: Batch) -> Tensor:
        vectors = text_vectors(self.features, encoder, encoded, batch.rows_per_example)
        return self.head(vectors)[..., 0]  # type: ignore[no-any-return]

    def compare(self, scores: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        loss = F.cross_entropy(scores, labels, ignore_index=IGNORED, reduction="sum")
        return loss, (scores.argmax(-1) == labels).sum()

    def decode(self, instances: Sequence[Instance], scores: Sequence[Tensor]) -> ChoicePrediction:
        probabilities = tuple(scores[0].softmax(-1).tolist())
        return ChoicePrediction(choice=probabilities.index(max(probabilities)), probabilities=probabilities)

    def score(self, predicted: Sequence[ChoicePrediction], gold: Sequence[ChoiceExample]) -> dict[str, float]:
        return {"accuracy": accuracy((e.answer for e in gold), (prediction.choice for prediction in predicted))}


SPEC = TaskSpec(
    kind="choice",
    display_name="multiple choice",
    Example=ChoiceExample,
    Config=MultipleChoiceConfig,
    Head=MultipleChoice,
    metric=always("accuracy"),
    majority_baseline=True,
    use="question_answering",
    endpoint="choose",
)
