"""Which of several texts goes on from another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch.nn.functional as F
from torch import Tensor

from polyseme.models.base import Encoder
from polyseme.tasks.base import Task, TaskConfig, TuningConfig
from polyseme.tasks.examples import Item
from polyseme.tasks.layout import Layout
from polyseme.tasks.metrics import accuracy
from polyseme.tasks.texts import text_features, text_head, text_vectors
from polyseme.tensors import IGNORED, Batch, Encoded
from polyseme.text.forms import ChoiceExample


class ChoiceConfig(TaskConfig):
    """Nothing to choose."""

    kind: Literal["choice"] = "choice"


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """The likeliest of the choices."""

    choice: int
    probabilities: tuple[float, ...]

    def describe(self, example: ChoiceExample) -> dict[str, Any]:
        """All of it, as JSON has it."""
        probabilities = [round(value, 6) for value in self.probabilities]
        return {
            "choice": self.choice,
            "chosen": example.choices[self.choice],
            "probability": probabilities[self.choice],
            "probabilities": probabilities,
        }

    def outline(self, example: ChoiceExample) -> dict[str, str]:
        """The cells of a table."""
        probability = f"{self.probabilities[self.choice]:.3f}"
        return {"choice": str(self.choice), "chosen": example.choices[self.choice], "probability": probability}


class Choice(Task[ChoiceExample, Chosen]):
    """One score for each choice; those of an example are rivals."""

    criterion = "accuracy"

    def __init__(self, name: str, config: ChoiceConfig, tuning: TuningConfig, encoder: Encoder) -> None:
        super().__init__(name, tuning, encoder, text_features(tuning, encoder, num_texts=2))
        self.head = text_head(tuning, encoder, self.features, 1, num_texts=2)

    def items(self, layout: Layout, examples: Sequence[ChoiceExample]) -> list[Item]:
        groups: list[list[tuple[str, ...]]] = [
            [(example.context, choice) for choice in example.choices]
            if layout.joins
            else [(text,) for text in example.texts]
            for example in examples
        ]
        return [
            Item(example=number, rows=rows, label=example.answer)
            for number, (rows, example) in enumerate(zip(layout.rows(groups), examples, strict=True))
        ]

    def scores(self, encoder: Encoder, encoded: Encoded, batch: Batch) -> Tensor:
        return self.head(text_vectors(self.features, encoder, encoded, batch.group))[..., 0]  # type: ignore[no-any-return]

    def compare(self, scores: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        loss = F.cross_entropy(scores, labels, ignore_index=IGNORED, reduction="sum")
        return loss, (scores.argmax(-1) == labels).sum()

    def answer(self, items: Sequence[Item], scores: Sequence[Tensor]) -> Chosen:
        probabilities = tuple(scores[0].softmax(-1).tolist())
        return Chosen(choice=probabilities.index(max(probabilities)), probabilities=probabilities)

    def score(self, predicted: Sequence[Chosen], gold: Sequence[ChoiceExample]) -> dict[str, float]:
        return {"accuracy": accuracy((e.answer for e in gold), (answer.choice for answer in predicted))}
