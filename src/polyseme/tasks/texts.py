"""What tasks about one or two whole texts share: the summary of a row, or of two that are compared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor

from polyseme.models.base import Encoder
from polyseme.tasks.base import Asked, Head, Prediction, Task, TuningConfig
from polyseme.tasks.biattentive import Biattentive, Maxout
from polyseme.tasks.examples import Item
from polyseme.tasks.features import Features
from polyseme.tasks.layout import Layout
from polyseme.tasks.normed import NormedHead
from polyseme.tensors import Batch, Encoded


class TextTask(Task[Asked, Prediction]):
    """Scores from one vector an example."""

    symmetric: ClassVar[bool] = False  # two texts in either order are the same; those between marks are read in both

    def __init__(self, name: str, tuning: TuningConfig, encoder: Encoder, num_scores: int, *, num_texts: int) -> None:
        super().__init__(name, tuning, encoder, text_features(tuning, encoder, num_texts=num_texts))
        self.head = text_head(tuning, encoder, self.features, num_scores, num_texts=num_texts)

    def items(self, layout: Layout, examples: Sequence[Asked]) -> list[Item]:
        groups = [self._rows(layout, example.texts) for example in examples]
        return [
            Item(example=number, rows=rows, label=self.right(example))
            for number, (rows, example) in enumerate(zip(layout.rows(groups), examples, strict=True))
        ]

    def _rows(self, layout: Layout, texts: tuple[str, ...]) -> list[tuple[str, ...]]:
        if not layout.joins:
            return [(text,) for text in texts]
        # Radford et al., 2018, section 3.3.
        return [texts, texts[::-1]] if self.symmetric and layout.encoder.layout == "marked" else [texts]

    def right(self, example: Asked) -> float:
        """What is right to say to an example, or IGNORED."""
        raise NotImplementedError

    def scores(self, encoder: Encoder, encoded: Encoded, batch: Batch) -> Tensor:
        # Both orders are added.
        return self.head(text_vectors(self.features, encoder, encoded, batch.group).sum(1))  # type: ignore[no-any-return]


def text_features(tuning: TuningConfig, encoder: Encoder, *, num_texts: int) -> Features | None:
    """What reads so many texts at once, if anything does."""
    if not encoder.biattentive or tuning.method not in ("full", "frozen"):
        return None
    return Biattentive(encoder, tuning.width, tuning.dropout, num_texts=num_texts)


def text_vectors(features: Features, encoder: Encoder, encoded: Encoded, group: int) -> Tensor:
    """Vectors of rows of each group, or of the first beside each of the others if they are apart, (groups, …, D)."""
    tokens = features(encoded)
    if isinstance(features, Biattentive):
        return features.compare(tokens, encoded.mask, group)
    rows = features.summarize(encoder, encoded, tokens)
    rows = rows.view(-1, group, rows.shape[-1])
    return compare_vectors(rows[:, :1], rows[:, 1:]) if group > 1 and encoder.layout == "apart" else rows


def text_head(
    tuning: TuningConfig, encoder: Encoder, features: Features, num_scores: int, *, num_texts: int
) -> Head | Maxout | NormedHead:
    """What scores so many texts."""
    if isinstance(features, Biattentive):
        return Maxout(features.summary_width, num_scores, dropout=tuning.dropout)
    width, inner_width = features.summary_width, 0
    if num_texts > 1 and encoder.layout == "apart":
        width, inner_width = 4 * width, width  # a linear map of what is compared would weigh, but not tell apart
    if encoder.layout == "apart" and tuning.method == "gradual":
        return NormedHead(width, num_scores, dropout=tuning.dropout)
    if encoder.layout == "framed" and not encoder.pools and tuning.method in ("full", "gradual"):
        inner_width = width
    bias = encoder.layout != "marked"  # as transformers has it
    return Head(width, num_scores, dropout=tuning.dropout, inner_width=inner_width, bias=bias)


def compare_vectors(left: Tensor, right: Tensor) -> Tensor:
    """Two vectors beside what tells them apart, (…, 4 D) (Mou et al., 2016; Conneau et al., 2017)."""
    return torch.cat([left.expand_as(right), right, (left - right).abs(), left * right], -1)
