"""Base class of tasks on one text or two: a head on a pooled vector, or on the comparison of two."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor

from polyseme.batch import Batch, Encoded
from polyseme.models.base import Encoder
from polyseme.tasks.base import ExampleT, Prediction, Task
from polyseme.tasks.config import FineTuningConfig
from polyseme.tasks.inputs.dataset import Instance
from polyseme.tasks.inputs.input_formatter import InputFormatter
from polyseme.tasks.networks.bcn import BiattentiveNetwork
from polyseme.tasks.networks.features import Features
from polyseme.tasks.networks.heads import BatchNormHead, Head, MaxoutHead


class TextTask(Task[ExampleT, Prediction]):
    """A task with one vector per example."""

    symmetric: ClassVar[bool] = False  # the order of two texts has no meaning; delimited inputs are encoded in both

    def __init__(
        self, name: str, config: FineTuningConfig, encoder: Encoder, num_scores: int, *, num_texts: int
    ) -> None:
        super().__init__(name, config, encoder, text_features(config, encoder, num_texts=num_texts))
        self.head = text_head(config, encoder, self.features, num_scores, num_texts=num_texts)

    def instances(self, formatter: InputFormatter, examples: Sequence[ExampleT]) -> list[Instance]:
        groups = [self._rows(formatter, example.texts) for example in examples]
        return [
            Instance(example=number, rows=rows, label=self.target(example))
            for number, (rows, example) in enumerate(zip(formatter.rows(groups), examples, strict=True))
        ]

    def _rows(self, formatter: InputFormatter, texts: tuple[str, ...]) -> list[tuple[str, ...]]:
        if not formatter.joins_pairs:
            return [(text,) for text in texts]
        # Radford et al., 2018, section 3.3.
        both_orders = self.symmetric and formatter.encoder.input_format == "delimited"
        return [texts, texts[::-1]] if both_orders else [texts]

    def target(self, example: ExampleT) -> float:
        """Return the label of an example as a number, or IGNORED."""
        raise NotImplementedError

    def scores(self, encoder: Encoder, encoded: Encoded, batch: Batch) -> Tensor:
        vectors = text_vectors(self.features, encoder, encoded, batch.rows_per_example)
        return self.head(vectors.sum(1))  # type: ignore[no-any-return]  # the sum adds both orders


def text_features(config: FineTuningConfig, encoder: Encoder, *, num_texts: int) -> Features | None:
    """Build the network that compares texts word by word, for families that use one."""
    if encoder.classifier != "biattentive" or config.method not in ("full", "frozen"):
        return None
    return BiattentiveNetwork(encoder, config.width, config.dropout, num_texts=num_texts)


def text_vectors(features: Features, encoder: Encoder, encoded: Encoded, rows_per_example: int) -> Tensor:
    """Vectors of the rows of each example, or of the first row compared to each other row, (examples, …, D)."""
    tokens = features(encoded)
    if isinstance(features, BiattentiveNetwork):
        return features.compare(tokens, encoded.mask, rows_per_example)
    rows = features.pool_rows(encoder, encoded, tokens)
    rows = rows.view(-1, rows_per_example, rows.shape[-1])
    compared = rows_per_example > 1 and encoder.input_format == "bi_encoder"
    return compare_vectors(rows[:, :1], rows[:, 1:]) if compared else rows


def text_head(
    config: FineTuningConfig, encoder: Encoder, features: Features, num_scores: int, *, num_texts: int
) -> Head | MaxoutHead | BatchNormHead:
    """Build the output layers for one text or two."""
    if isinstance(features, BiattentiveNetwork):
        return MaxoutHead(features.pooled_width, num_scores, dropout=config.dropout)
    width, inner_width = features.pooled_width, 0
    if num_texts > 1 and encoder.input_format == "bi_encoder":
        width, inner_width = 4 * width, width  # a linear layer alone cannot relate the two texts
    if encoder.input_format == "bi_encoder" and config.method == "gradual":
        return BatchNormHead(width, num_scores, dropout=config.dropout)
    if encoder.classifier == "dense" and config.method in ("full", "gradual"):
        inner_width = width
    bias = encoder.input_format != "delimited"  # as in transformers
    return Head(width, num_scores, dropout=config.dropout, inner_width=inner_width, bias=bias)


def compare_vectors(left: Tensor, right: Tensor) -> Tensor:
    """Concatenate u, v, |u - v| and u · v, (…, 4 D) (Mou et al., 2016; Conneau et al., 2017)."""
    return torch.cat([left.expand_as(right), right, (left - right).abs(), left * right], -1)
