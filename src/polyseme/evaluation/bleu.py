"""BLEU (Papineni et al., 2002), computed by sacrebleu (Post, 2018)."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from polyseme.corpora.corpus import ParallelCorpus
from polyseme.errors import ConfigError, DataError
from polyseme.evaluation.results import MetricResult


class Bleu:
    """Corpus BLEU with sacrebleu's default tokenization, for Chinese by character."""

    def __init__(self, *, language: str = "") -> None:
        try:
            from sacrebleu import BLEU
        except ImportError:
            raise ConfigError("BLEU needs sacrebleu; pip install sacrebleu") from None
        # Only the n-gram counts of a sentence are used, which do not depend on the effective order.
        self._metric = BLEU(tokenize="zh" if language == "zh" else None, effective_order=True)
        self._compute_bleu: Any = BLEU.compute_bleu

    def score(self, name: str, predictions: Sequence[str], references: Sequence[str]) -> MetricResult:
        """BLEU of a corpus, with its jackknife standard error (Efron, 1982)."""
        scores = [
            self._metric.sentence_score(prediction, [reference])
            for prediction, reference in zip(predictions, references, strict=True)
        ]
        counts = np.array([[*score.counts, *score.totals, score.sys_len, score.ref_len] for score in scores])
        size, total = len(counts), counts.sum(0)
        error = None
        if size > 1:
            leave_one_out = np.array([self._value(total - row) for row in counts])
            error = math.sqrt((size - 1) / size * ((leave_one_out - leave_one_out.mean()) ** 2).sum())
        return MetricResult(
            name=name, metric="bleu", value=self._value(total), standard_error=error, num_scored=size, num_items=size
        )

    def _value(self, counts: Any) -> float:
        *ngrams, length, reference_length = counts.tolist()
        return float(self._compute_bleu(ngrams[:4], ngrams[4:], length, reference_length, smooth_method="exp").score)


def score_translations(path: Path, translate: Callable[[Sequence[str]], list[str]]) -> MetricResult:
    """BLEU of the translations of a table with the columns source and target."""
    bleu = Bleu()
    if path.is_dir():
        raise DataError(f"{path} is a folder; give a table with the columns source and target")
    sources, targets = zip(*ParallelCorpus(path).sentence_pairs(), strict=True)
    return bleu.score(path.stem, translate(sources), targets)
