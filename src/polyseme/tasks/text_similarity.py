"""Semantic text similarity: a score for two texts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from polyseme.batch import IGNORED
from polyseme.datasets.task_schemas import SimilarityExample
from polyseme.models.base import Encoder
from polyseme.tasks.config import FineTuningConfig, TaskConfig, hf_labels
from polyseme.tasks.inputs.dataset import Instance
from polyseme.tasks.inputs.input_formatter import InputFormatter
from polyseme.tasks.metrics import pearson, spearman
from polyseme.tasks.spec import LinearProbe, TaskSpec, always
from polyseme.tasks.text_level import TextTask


class TextSimilarityConfig(TaskConfig):
    """The scale of the scores; the head is trained on standardized ones."""

    kind: Literal["similarity"] = "similarity"
    mean: float = 0.0
    deviation: float = Field(1.0, gt=0)

    @classmethod
    def infer_config(cls, examples: Sequence[SimilarityExample]) -> dict[str, Any]:
        scores = [example.score for example in examples]
        return {"mean": float(np.mean(scores)), "deviation": float(np.std(scores)) or 1.0}

    @property
    def hf_settings(self) -> dict[str, Any]:
        return {**hf_labels(["score"]), "problem_type": "regression"}


@dataclass(frozen=True, kw_only=True)
class SimilarityPrediction:
    """A score on the scale of the training examples."""

    score: float

    def to_json(self, example: SimilarityExample) -> dict[str, Any]:
        """All fields, as JSON values."""
        return {"score": round(self.score, 6)}

    def to_row(self, example: SimilarityExample) -> dict[str, str]:
        """The cells of a table row."""
        return {"score": f"{self.score:.3f}"}


class TextSimilarity(TextTask[SimilarityExample, SimilarityPrediction]):
    """Regression of the score, with a squared-error loss."""

    selection_metric = "spearman"
    hf_class = "SequenceClassification"

    def __init__(self, name: str, config: TextSimilarityConfig, finetuning: FineTuningConfig, encoder: Encoder) -> None:
        super().__init__(name, finetuning, encoder, 1, num_texts=2)
        self.mean, self.deviation = config.mean, config.deviation

    def rows(self, formatter: InputFormatter, example: SimilarityExample) -> list[tuple[str, ...]]:
        rows = super().rows(formatter, example)
        # The order of the texts has no meaning (Radford et al., 2018, section 3.3); the head adds up both.
        return [*rows, example.texts[::-1]] if formatter.encoder.input_format == "delimited" else rows

    def target(self, example: SimilarityExample) -> float:
        if np.isnan(example.score):
            return float(IGNORED)
        return (example.score - self.mean) / self.deviation

    def compare(self, scores: Tensor, labels: Tensor) -> tuple[Tensor, None]:
        known = labels != IGNORED
        return F.mse_loss(scores[known, 0], labels[known].to(scores.dtype), reduction="sum"), None

    def decode(self, instances: Sequence[Instance], scores: Sequence[Tensor]) -> SimilarityPrediction:
        return SimilarityPrediction(score=self.mean + self.deviation * scores[0].item())

    @staticmethod
    def score(predicted: Sequence[SimilarityPrediction], gold: Sequence[SimilarityExample]) -> dict[str, float]:
        expected, found = [example.score for example in gold], [prediction.score for prediction in predicted]
        # Correlations of constant scores are undefined, and count as 0.
        return {"pearson": pearson(expected, found) or 0.0, "spearman": spearman(expected, found) or 0.0}


SPEC = TaskSpec(
    kind="similarity",
    display_name="semantic similarity",
    Example=SimilarityExample,
    Config=TextSimilarityConfig,
    Head=TextSimilarity,
    compares_texts=True,
    metric=always("spearman"),
    probe=LinearProbe(inputs="pair", regression=True),
    use="similarity",
    endpoint="similarity",
)
