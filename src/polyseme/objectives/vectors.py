"""What vectors without context are learnt for: settings alone, since kernels and not gradients do the learning."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from polyseme.objectives.base import ObjectiveConfig


class VectorObjective(ObjectiveConfig):
    """What all of them can be asked about."""

    by_gradient = False


class OneHotConfig(VectorObjective):
    """Nothing to choose."""

    whole_text = True
    kind: Literal["onehot"] = "onehot"


class WindowConfig(VectorObjective):
    """Which words are near."""

    whole_text = True

    window: int = Field(10, ge=1, le=1000)  # words to either side
    nearness: Literal["distance", "flat"] = "distance"  # a word d places away counts 1/d, or all count 1
    symmetric: bool = True  # words on both sides are near, or only those before
    within: Literal["sentence", "document"] = "sentence"  # over whose end no window reaches

    @property
    def weights(self) -> NDArray[np.float64]:
        """What a word counts by its distance, from 1 on."""
        distances = np.arange(1, self.window + 1)
        return 1 / distances if self.nearness == "distance" else np.ones(self.window)


class SvdConfig(WindowConfig):
    """How counts become vectors."""

    kind: Literal["svd"] = "svd"
    window: int = Field(5, ge=1, le=1000)  # words to either side
    nearness: Literal["distance", "flat"] = "flat"  # a word d places away counts 1/d, or all count 1
    weighting: Literal["ppmi", "log", "raw"] = "ppmi"
    smoothing: float = Field(0.75, gt=0, le=1)  # the power of the counts of contexts; 1: none
    shift: float = Field(1.0, ge=1)  # how often chance a pair must be met to count, as the negatives of word2vec
    exponent: float = Field(0.5, ge=0, le=1)  # of the singular values


class GloveConfig(WindowConfig):
    """How much a pair counts."""

    whole_text = False
    kind: Literal["glove"] = "glove"
    most: float = Field(100.0, gt=0)  # a pair that was met as often as this counts fully
    power: float = Field(0.75, ge=0, le=1)  # of the share of that by which a rarer one counts


class ClassesConfig(VectorObjective):
    """How words are put into classes, as many as a vector has numbers."""

    whole_text = True
    kind: Literal["wordclass"] = "wordclass"
    method: Literal["exchange", "brown"] = "exchange"  # words move between classes, or classes grow together as a tree


class Word2vecConfig(VectorObjective):
    """What is predicted from what."""

    kind: Literal["skipgram", "cbow"] = "skipgram"
    window: int = Field(5, ge=1, le=1000)  # words to either side at most; how many, is drawn for each window
    softmax: Literal["negative", "hierarchical"] = "negative"
    negative: int = Field(5, ge=1, le=1000)  # words drawn against each true one
    smoothing: float = Field(0.75, gt=0, le=1)  # power of the counts by which they are drawn
    sample: float = Field(1e-3, ge=0, le=1)  # words that make up more of the text are read in part; 0: all are read
