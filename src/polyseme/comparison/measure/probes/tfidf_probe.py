"""Linear models on TF-IDF features: alone, as the baseline, and beside the vectors of a model."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from polyseme.baselines.tfidf import Tfidf, TfidfConfig
from polyseme.comparison.measure.datasets import LabelledDataset
from polyseme.comparison.measure.probes.linear_probe import (
    Inputs,
    Layers,
    ProbeScore,
    SplitFeatures,
    fit_best,
    select_rows,
    standardize,
)
from polyseme.tasks.tfidf import TfidfTask, featurize, strengths_of
from polyseme.training.recipes.finetune_recipe import parse_tasks

# Lengths of dense vectors, relative to those of TF-IDF vectors. With 1,000 labels and the vectors of a skip-gram,
# the accuracy on the dev set of SST-2 was 0.726 at 0.3, 0.717 at 1 and 0.702 at 3; on that of SNIPS 0.980, 0.974 and
# 0.943.
_SCALES = (0.3, 1.0)


def fit_tfidf(dataset: LabelledDataset, numbers: Sequence[int]) -> tuple[TfidfTask, float]:
    """Fit the baseline to some of the training examples; return the best on the dev set, and its score there."""
    train, dev = dataset.splits["train"], dataset.splits["dev"]
    settings = {"kind": dataset.kind, **dataset.spec.Config.infer_config(train)}
    config = parse_tasks({dataset.name: settings})[dataset.name]
    tasks = TfidfTask.fit(dataset.name, config, TfidfConfig(), [train[number] for number in numbers], has_dev=True)
    scored = [(task, task.score(task.predict(dev), dev)[dataset.metric]) for task in tasks]
    return max(scored, key=lambda pair: pair[1])


def fit_with_tfidf(
    dataset: LabelledDataset, features: Mapping[str, SplitFeatures], numbers: Sequence[int], layers: Layers
) -> ProbeScore:
    """Fit a linear model to TF-IDF features beside those of some layers, whose scale is chosen on the dev set."""
    rows, splits = np.array(sorted(numbers)), dict(dataset.splits)
    splits["train"] = [splits["train"][row] for row in rows]
    tfidf = Tfidf.fit(TfidfConfig(), [text for example in splits["train"] for text in example.texts])
    vectors = _normalize(standardize(select_rows(features, layers, rows)))
    terms = {split: featurize(dataset.kind, tfidf, examples) for split, examples in splits.items()}
    candidates = (
        (layers, {split: sparse.hstack([terms[split], scale * vectors[split]], format="csr") for split in splits})
        for scale in _SCALES
    )
    strengths = [1 / (strength * len(rows)) for strength in strengths_of(dataset.kind, TfidfConfig(), has_dev=True)]
    return fit_best(dataset, rows, candidates, strengths=strengths[1::2])  # to limit the time


def _normalize(splits: Mapping[str, Inputs]) -> dict[str, Any]:
    """Scale all rows so that those of the training split have length 1, in the root mean square."""
    rows = {split: sparse.csr_array(one if sparse.issparse(one) else one.numpy()) for split, one in splits.items()}
    train = rows["train"]
    length = np.sqrt(train.power(2).sum() / train.shape[0]) or 1.0
    return {split: one / length for split, one in rows.items()}
