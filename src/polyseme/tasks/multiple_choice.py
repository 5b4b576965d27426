"""Multiple choice: which of several texts continues another."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor

from polyseme.batch import Batch, Encoded
from polyseme.datasets.task_schemas import ChoiceExample
from polyseme.models.base import Encoder
from polyseme.tasks.config import FineTuningConfig, TaskConfig
from polyseme.tasks.inputs.dataset import Instance
from polyseme.tasks.inputs.input_formatter import InputFormatter
from polyseme.tasks.metrics import accuracy
from polyseme.tasks.spec import TaskSpec, always
from polyseme.tasks.text_level import TextTask


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


class MultipleChoice(TextTask[ChoiceExample, ChoicePrediction]):
    """A score per choice, normalized over the choices of an example."""

    selection_metric = "accuracy"
    hf_class = "MultipleChoice"

    def __init__(self, name: str, config: MultipleChoiceConfig, finetuning: FineTuningConfig, encoder: Encoder) -> None:
        super().__init__(name, finetuning, encoder, 1, num_texts=2)

    def rows(self, formatter: InputFormatter, example: ChoiceExample) -> list[tuple[str, ...]]:
        if formatter.joins_pairs:
            return [(example.context, choice) for choice in example.choices]
        return super().rows(formatter, example)

    def target(self, example: ChoiceExample) -> int:
        return example.answer

    def head_scores(self, encoder: Encoder, encoded: Encoded, batch: Batch) -> Tensor:
        return self.head(self.vectors(encoder, encoded, batch))[..., 0]  # type: ignore[no-any-return]

    def decode(self, instances: Sequence[Instance], scores: Sequence[Tensor]) -> ChoicePrediction:
        probabilities = tuple(scores[0].softmax(-1).tolist())
        return ChoicePrediction(choice=probabilities.index(max(probabilities)), probabilities=probabilities)

    @staticmethod
    def score(predicted: Sequence[ChoicePrediction], gold: Sequence[ChoiceExample]) -> dict[str, float]:
        return {"accuracy": accuracy((e.answer for e in gold), (prediction.choice for prediction in predicted))}


SPEC = TaskSpec(
    kind="choice",
    display_name="multiple choice",
    Example=ChoiceExample,
    Config=MultipleChoiceConfig,
    Head=MultipleChoice,
    compares_texts=True,
    metric=always("accuracy"),
    majority_baseline=True,
    use="question_answering",
    endpoint="choose",
)
