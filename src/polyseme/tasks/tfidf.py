"""Tasks solved by a linear model on TF-IDF features: the baseline of all families.

A multiple choice is a binary classification of each choice, given the context, as correct or not.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.special import softmax

from polyseme.arrays import Doubles
from polyseme.baselines.linear_model import LinearModel
from polyseme.baselines.tfidf import NUM_OVERLAPS, Rows, Tfidf, TfidfConfig
from polyseme.errors import ConfigError
from polyseme.tasks.classification import ClassPrediction, TextClassification
from polyseme.tasks.config import LabelsConfig, TaskConfig
from polyseme.tasks.multiple_choice import ChoicePrediction, MultipleChoice
from polyseme.tasks.text_similarity import SimilarityPrediction, TextSimilarity

FAMILY = "tfidf"

_HEADS: dict[str, type[TextClassification | TextSimilarity | MultipleChoice]] = {
    "classify": TextClassification,
    "pair": TextClassification,
    "similarity": TextSimilarity,
    "choice": MultipleChoice,
}
KINDS = tuple(_HEADS)
"""The kinds of tasks on one or two whole texts."""

# Inverse regularization strengths to choose from on the dev set, and the one without a dev set; by the kind of model
_CLASS_STRENGTHS, _CLASS_STRENGTH = (1.0, 3.0, 10.0, 30.0), 10.0
_SCORE_STRENGTHS, _SCORE_STRENGTH = (0.03, 0.1, 0.3, 1.0), 0.3


@dataclass(frozen=True, kw_only=True, eq=False)
class TfidfTask:
    """A fitted task; it predicts and scores like the head of a neural family."""

    name: str
    config: TaskConfig
    features: Tfidf
    model: LinearModel
    inverse_regularization: float

    @classmethod
    def fit(
        cls, name: str, config: TaskConfig, features: TfidfConfig, examples: Sequence[Any], *, has_dev: bool
    ) -> Iterator[Self]:
        """Fit the task with each regularization strength that a dev set can choose from, or with a single one."""
        require_kind(config.kind)
        tfidf = Tfidf.fit(features, [text for example in examples for text in example.texts])
        rows, targets = featurize(config.kind, tfidf, examples), _targets(config, examples)
        fit = LinearModel.fit_scores if config.kind == "similarity" else LinearModel.fit_classes
        for strength in strengths_of(config.kind, features, has_dev=has_dev):
            model = fit(rows, targets, inverse_regularization=strength)
            yield cls(name=name, config=config, features=tfidf, model=model, inverse_regularization=strength)

    @property
    def selection_metric(self) -> str:
        """The score by which the better of two models is selected."""
        return _HEADS[self.config.kind].selection_metric

    def predict(self, examples: Sequence[Any]) -> list[Any]:
        """Predict every example, in order."""
        if not examples:
            return []
        rows = featurize(self.config.kind, self.features, examples)
        if isinstance(self.config, LabelsConfig):
            labels = self.config.labels
            probabilities = self.model.probabilities(rows, len(labels))
            return [
                ClassPrediction(label=labels[row.argmax()], probabilities=dict(zip(labels, row.tolist(), strict=True)))
                for row in probabilities
            ]
        scores = self.model.scores(rows)[:, 0]
        if self.config.kind == "similarity":
            return [SimilarityPrediction(score=score) for score in scores.tolist()]
        ends = np.cumsum([len(example.choices) for example in examples])
        return [_choice(softmax(of_example)) for of_example in np.split(scores, ends[:-1])]

    def score(self, predicted: Sequence[Any], gold: Sequence[Any]) -> dict[str, float]:
        """Compute the metrics of predictions."""
        return _HEADS[self.config.kind].score(predicted, gold)


def strengths_of(kind: str, features: TfidfConfig, *, has_dev: bool) -> tuple[float, ...]:
    """The inverse regularization strengths to fit the model of a task with."""
    if features.inverse_regularization:
        return (features.inverse_regularization,)
    if kind == "similarity":
        return _SCORE_STRENGTHS if has_dev else (_SCORE_STRENGTH,)
    return _CLASS_STRENGTHS if has_dev else (_CLASS_STRENGTH,)


def require_kind(kind: str) -> None:
    """Raise an error for a task that has no TF-IDF baseline."""
    if kind not in KINDS:
        raise ConfigError(
            f"{FAMILY} has no task {kind}, only {', '.join(KINDS)}; fine-tune a pretrained model for it, such as "
            "skipgram or bert"
        )


def featurize(kind: str, tfidf: Tfidf, examples: Sequence[Any]) -> Rows:
    """A row per example; of a multiple choice, per choice."""
    if kind == "classify":
        return tfidf.vectors([example.text for example in examples])
    if kind == "choice":
        pairs = [(example.context, choice) for example in examples for choice in example.choices]
    else:
        pairs = [example.texts for example in examples]
    first, second = zip(*pairs, strict=True)
    return tfidf.compare(first, second, symmetric=kind == "similarity")


def num_features(kind: str, num_terms: int) -> int:
    """The columns of the features."""
    return {"classify": num_terms, "similarity": 2 * num_terms + NUM_OVERLAPS}.get(kind, 3 * num_terms + NUM_OVERLAPS)


def _targets(config: TaskConfig, examples: Sequence[Any]) -> list[float] | list[int]:
    if isinstance(config, LabelsConfig):
        return [config.labels.index(example.label) for example in examples]
    if config.kind == "similarity":
        return [example.score for example in examples]
    return [int(number == one.answer) for one in examples for number in range(len(one.choices))]


def _choice(probabilities: Doubles) -> ChoicePrediction:
    return ChoicePrediction(choice=int(probabilities.argmax()), probabilities=tuple(probabilities.tolist()))
