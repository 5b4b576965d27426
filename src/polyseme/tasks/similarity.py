"""How alike two texts are, as a number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from polyseme.models.base import Encoder
from polyseme.tasks.base import TaskConfig, TuningConfig, name_labels
from polyseme.tasks.examples import Item
from polyseme.tasks.metrics import pearson, spearman
from polyseme.tasks.texts import TextTask
from polyseme.tensors import IGNORED
from polyseme.text.forms import SimilarityExample


class SimilarityConfig(TaskConfig):
    """The scale of the scores, which are learnt as deviations from their mean."""

    kind: Literal["similarity"] = "similarity"
    mean: float = 0.0
    deviation: float = Field(1.0, gt=0)

    @classmethod
    def told_by(cls, examples: Sequence[SimilarityExample]) -> dict[str, Any]:
        scores = [example.score for example in examples]
        return {"mean": float(np.mean(scores)), "deviation": float(np.std(scores)) or 1.0}

    @property
    def foreign(self) -> dict[str, Any]:
        return {**name_labels(["score"]), "problem_type": "regression"}


@dataclass(frozen=True, kw_only=True)
class Rated:
    """A score on the scale of the examples."""

    score: float

    def describe(self, example: SimilarityExample) -> dict[str, Any]:
        """All of it, as JSON has it."""
        return {"score": round(self.score, 6)}

    def outline(self, example: SimilarityExample) -> dict[str, str]:
        """The cells of a table."""
        return {"score": f"{self.score:.3f}"}


class Similarity(TextTask[SimilarityExample, Rated]):
    """One score, as near as can be in the mean square."""

    criterion = "spearman"
    symmetric = True

    def __init__(self, name: str, config: SimilarityConfig, tuning: TuningConfig, encoder: Encoder) -> None:
        super().__init__(name, tuning, encoder, 1, num_texts=2)
        self.mean, self.deviation = config.mean, config.deviation

    def right(self, example: SimilarityExample) -> float:
        if np.isnan(example.score):
            return float(IGNORED)
        return (example.score - self.mean) / self.deviation

    def compare(self, scores: Tensor, labels: Tensor) -> tuple[Tensor, None]:
        asked = labels != IGNORED
        return F.mse_loss(scores[asked, 0], labels[asked].to(scores.dtype), reduction="sum"), None

    def answer(self, items: Sequence[Item], scores: Sequence[Tensor]) -> Rated:
        return Rated(score=self.mean + self.deviation * scores[0].item())

    def score(self, predicted: Sequence[Rated], gold: Sequence[SimilarityExample]) -> dict[str, float]:
        theirs, mine = [example.score for example in gold], [answer.score for answer in predicted]
        # Where all are the same there is no order to agree about.
        return {"pearson": pearson(theirs, mine) or 0.0, "spearman": spearman(theirs, mine) or 0.0}
