"""One-hot vectors: there is nothing to learn but the vocabulary, and that is known before the first step."""

from __future__ import annotations

from polyseme.objectives.vectors import OneHotConfig
from polyseme.static.learner import Task, VectorLearner


class OneHot(VectorLearner):
    """A run that is over as soon as it begins."""

    def __init__(self, config: OneHotConfig, task: Task) -> None:
        super().__init__(task)

    def learn(self) -> dict[str, float]:
        return {}
