"""Which of several texts goes on from another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch.nn.functional as F
from torch import Tensor

from polyseme.models.base import Encoder
from polyseme.tasks.base import Task, TaskConfig, TuningConfig
from polyseme.tasks.examples import Item
from polyseme.tasks.layout import Layout
from polyseme.tasks.metrics import accuracy
from polyseme.tasks.texts import compare_vectors, text_head
from polyseme.tensors import IGNORED, Batch, Encoded
from polyseme.text.labelled import ChoiceExample


class ChoiceConfig(TaskConfig):
    """Nothing to choose."""

    kind: Literal["choice"] = "choice"


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """The likeliest of the choices."""

    choice: int
    probabilities: tuple[float, ...]


class Choice(Task[ChoiceExample, Chosen]):
    """One score for each choice; those of an example are rivals."""

    criterion = "accuracy"

    def __init__(self, name: str, config: ChoiceConfig, tuning: TuningConfig, encoder: Encoder) -> None:
        super().__init__(name, tuning, encoder)
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
        summary = self.features.summarize(encoder, encoded, self.features(encoded))
        rows = summary.view(-1, batch.group, summary.shape[-1])  # (items, group, D)
        if encoder.layout == "apart":
            rows = compare_vectors(rows[:, :1], rows[:, 1:])
        return self.head(rows)[..., 0]  # type: ignore[no-any-return]

    def compare(self, scores: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        loss = F.cross_entropy(scores, labels, ignore_index=IGNORED, reduction="sum")
        return loss, (scores.argmax(-1) == labels).sum()

    def answer(self, items: Sequence[Item], scores: Sequence[Tensor]) -> Chosen:
        probabilities = tuple(scores[0].softmax(-1).tolist())
        return Chosen(choice=probabilities.index(max(probabilities)), probabilities=probabilities)

    def score(self, predicted: Sequence[Chosen], gold: Sequence[ChoiceExample]) -> dict[str, float]:
        return {"accuracy": accuracy((e.answer for e in gold), (answer.choice for answer in predicted))}
