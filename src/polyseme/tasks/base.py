"""Base class of the task heads, which fit every family: they use only the layers, widths and pooling of an encoder."""

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any, ClassVar, Generic, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

from polyseme.batch import IGNORED, Batch, Encoded, LossOutput
from polyseme.datasets.records import Example
from polyseme.errors import ConfigError
from polyseme.models.base import Encoder
from polyseme.objectives.base import Objective
from polyseme.tasks.config import FineTuningConfig
from polyseme.tasks.inputs.dataset import Instance, TaskDataset
from polyseme.tasks.inputs.input_formatter import InputFormatter
from polyseme.tasks.networks.features import BiLstm, Features, ScalarMixLstm, TopLayer
from polyseme.tasks.networks.heads import AnyHead
from polyseme.tasks.networks.linear_path import LinearPath

ExampleT = TypeVar("ExampleT", bound=Example)
Prediction = TypeVar("Prediction")


class Task(Objective, Generic[ExampleT, Prediction]):
    """A head that is trained on labelled examples, predicts, and scores predictions."""

    selection_metric: ClassVar[str]  # the score by which the better of two models is selected
    hf_class: ClassVar[str] = ""  # the class in transformers, such as TokenClassification; "" if it has none
    class_weights: Sequence[float] = ()  # of the cross-entropy; by default all equal
    head: AnyHead
    num_scores: int  # per instance or token

    def __init__(self, name: str, config: FineTuningConfig, encoder: Encoder, features: Features | None = None) -> None:
        super().__init__()
        self.name = name
        self.features = features or _features(config, encoder)
        self.linear_path: LinearPath | None = None
        self.chunk = config.chunk if config.method == "gradual" else 0

    def read(self, formatter: InputFormatter, examples: Sequence[ExampleT], *, num_rows: int) -> TaskDataset:
        """Encode examples into a dataset of batches of `num_rows`; unknown labels are ignored in the loss."""
        return TaskDataset.of(self.instances(formatter, examples), formatter, num_rows=num_rows)

    def instances(self, formatter: InputFormatter, examples: Sequence[ExampleT]) -> Sequence[Instance]:
        """Encode examples into token sequences and targets."""
        raise NotImplementedError

    def draw_batch(self, source: TaskDataset, *, seed: int, step: int) -> Batch:  # type: ignore[override]
        return source.draw(self.name, seed=seed, step=step)

    def add_targets(self, batch: Batch, source: Any, *, seed: int, step: int) -> Batch:
        return dataclasses.replace(batch, bptt_length=self.chunk)

    def loss(self, encoder: Encoder, encoded: Encoded, batch: Batch) -> LossOutput:
        scores = self.scores(encoder, encoded, batch)
        loss, correct = self.compare(scores, batch.labels[self.name][:: batch.rows_per_example])
        loss = loss + batch.counts[self.name] * self.features.penalty()
        return LossOutput(losses={self.name: loss}, correct={} if correct is None else {self.name: correct})

    def scores(self, encoder: Encoder, encoded: Encoded, batch: Batch) -> Tensor:
        """Compute the scores of each instance, (instances, …)."""
        scores = self.head_scores(encoder, encoded, batch)
        return scores if self.linear_path is None else scores + self.linear_path(encoded)

    def head_scores(self, encoder: Encoder, encoded: Encoded, batch: Batch) -> Tensor:
        """Compute the output of the head for each instance, (instances, …)."""
        raise NotImplementedError

    def compare(self, scores: Tensor, labels: Tensor) -> tuple[Tensor, Tensor | None]:
        """Compute the summed loss, by default the cross-entropy, and the number of correct predictions."""
        weight = scores.new_tensor(self.class_weights) if self.class_weights else None
        loss = F.cross_entropy(scores, labels, weight=weight, ignore_index=IGNORED, reduction="sum")
        return loss, (scores.argmax(-1) == labels).sum()

    @torch.inference_mode()
    def predict(self, encoder: Encoder, source: TaskDataset) -> list[Prediction]:
        """Predict every example, in order."""
        encoder.eval()
        self.eval()
        scores: dict[int, Tensor] = {}
        for numbers in source.batches:
            batch = source.batch(numbers, self.name).to(encoder.device)
            of_batch = self.scores(encoder, encoder(batch), batch).double().cpu()
            scores.update(zip(numbers.tolist(), of_batch, strict=True))
        predictions = []
        for _, group in itertools.groupby(range(len(scores)), key=lambda number: source.instances[number].example):
            parts = list(group)
            predictions.append(self.decode([source.instances[n] for n in parts], [scores[n] for n in parts]))
        return predictions

    def decode(self, instances: Sequence[Any], scores: Sequence[Tensor]) -> Prediction:
        """Convert the scores of all instances of an example, which may be padded, to a prediction."""
        raise NotImplementedError

    def score(self, predicted: Sequence[Prediction], gold: Sequence[ExampleT]) -> dict[str, float]:
        """Compute the metrics of predictions."""
        raise NotImplementedError


def _features(config: FineTuningConfig, encoder: Encoder) -> Features:
    if config.method == "mix":
        if len(encoder.widths) == 1:
            raise ConfigError("finetuning.method: mix needs several layers, and this family has one; use frozen")
        return ScalarMixLstm(encoder, config.width, config.dropout, config.penalty)
    if config.method == "gradual" and len(encoder.layer_groups()) == 1:
        raise ConfigError(
            "finetuning.method: gradual needs several layers, and this family has one; use full or frozen"
        )
    # Vectors without context get a network that adds it.
    if config.method == "frozen" or encoder.context == "none":
        return BiLstm(encoder.widths[-1], config.width, config.dropout)
    return TopLayer(encoder)
