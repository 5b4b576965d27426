"""Objective settings of the static families.

They are apart from the trainers because importing those defines numba kernels, which takes 0.2 s of every start;
`build_trainer` imports a trainer when a run needs it.
"""

from __future__ import annotations

from pkgutil import resolve_name
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from pydantic import Field

from polyseme.arrays import Doubles
from polyseme.objectives.base import ObjectiveConfig

if TYPE_CHECKING:
    from polyseme.static_embeddings.base import StaticTrainer, TrainingInputs


class StaticObjectiveConfig(ObjectiveConfig):
    """Settings of an objective that a `StaticTrainer` optimizes, without autograd."""

    by_gradient = False
    trainer: ClassVar[str]  # module and name of its class in this package

    def build_trainer(self, inputs: TrainingInputs) -> StaticTrainer:
        """The trainer of this objective."""
        trainer: type[StaticTrainer] = resolve_name(f"{__package__}.{self.trainer}")
        return trainer(self, inputs)


class WindowConfig(StaticObjectiveConfig):
    """The context window within which co-occurrences are counted."""

    full_batch = True

    window: int = Field(10, ge=1, le=1000)  # words to either side
    distance_weighting: Literal["distance", "flat"] = "distance"  # a word d positions away counts 1/d, or each counts 1
    symmetric: bool = True  # count words on both sides, or only those before
    within: Literal["sentence", "document"] = "sentence"  # windows do not cross its boundaries

    @property
    def weights(self) -> Doubles:
        """The weight of a co-occurrence by distance, from distance 1."""
        distances = np.arange(1, self.window + 1)
        return 1 / distances if self.distance_weighting == "distance" else np.ones(self.window)


class SvdConfig(WindowConfig):
    """Truncated SVD of a weighted co-occurrence matrix."""

    trainer = "svd:SvdTrainer"
    kind: Literal["svd"] = "svd"
    window: int = Field(5, ge=1, le=1000)  # words to either side
    distance_weighting: Literal["distance", "flat"] = "flat"  # a word d positions away counts 1/d, or each counts 1
    weighting: Literal["ppmi", "log", "raw"] = "ppmi"
    smoothing: float = Field(0.75, gt=0, le=1)  # exponent of the context counts; 1: none
    shift: float = Field(1.0, ge=1)  # log(shift) is subtracted from the PMI; corresponds to word2vec's negatives
    exponent: float = Field(0.5, ge=0, le=1)  # of the singular values


class GloveConfig(WindowConfig):
    """Weighted least squares on log co-occurrence counts."""

    full_batch = False
    deterministic_threads = False  # they update the vectors without locks
    trainer = "glove:GloveTrainer"
    kind: Literal["glove"] = "glove"
    x_max: float = Field(100.0, gt=0)  # pairs with at least this count have weight 1
    alpha: float = Field(0.75, ge=0, le=1)  # rarer pairs have weight (count / x_max) ** alpha


class WordClusterConfig(StaticObjectiveConfig):
    """Word clustering by the bigram likelihood, into as many classes as the vectors have dimensions."""

    full_batch = True
    trainer = "word_clusters:WordClusterTrainer"
    kind: Literal["wordclass"] = "wordclass"
    method: Literal["exchange", "brown"] = "exchange"  # move words between classes, or merge classes into a binary tree

    @property
    def can_be_extended(self) -> bool:
        return self.method == "exchange"  # Brown clustering adds each word once


class PredictionConfig(StaticObjectiveConfig):
    """Prediction of a word from its window, or of the window from the word, by logistic regression."""

    deterministic_threads = False  # they update the vectors without locks

    window: int = Field(5, ge=1, le=1000)  # the largest number of words to either side; sampled anew for each position
    softmax: Literal["negative", "hierarchical"] = "negative"
    negatives: int = Field(5, ge=1, le=1000)  # negative samples per target
    smoothing: float = Field(0.75, gt=0, le=1)  # exponent of the unigram counts that negatives are sampled from
    subsample: float = Field(1e-3, ge=0, le=1)  # words of a higher relative frequency are downsampled; 0: none

    @property
    def is_cbow(self) -> bool:
        """Whether words are predicted from the mean of their window, as by CBOW."""
        raise NotImplementedError


class Word2vecConfig(PredictionConfig):
    """Skip-gram or CBOW, with negative sampling or hierarchical softmax."""

    trainer = "word2vec:Word2vecTrainer"
    kind: Literal["skipgram", "cbow"] = "skipgram"

    @property
    def is_cbow(self) -> bool:
        return self.kind == "cbow"


class FastTextObjectiveConfig(PredictionConfig):
    """Skip-gram or CBOW over words with character n-grams."""

    trainer = "fasttext.trainer:FastTextTrainer"
    kind: Literal["fasttext"] = "fasttext"
    architecture: Literal["skipgram", "cbow"] = "skipgram"
    smoothing: float = Field(0.5, gt=0, le=1)  # exponent of the unigram counts that negatives are sampled from
    subsample: float = Field(1e-4, ge=0, le=1)  # words of a higher relative frequency are downsampled; 0: none

    @property
    def is_cbow(self) -> bool:
        return self.architecture == "cbow"
