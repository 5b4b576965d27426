"""How near translations come to those of people: BLEU (Papineni et al., 2002), as sacrebleu has it (Post, 2018)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from polyseme.errors import ConfigError, DataError
from polyseme.evaluate.figures import Figure
from polyseme.text.parallel import Parallel


class Bleu:
    """BLEU of texts as they are written; of Chinese, of its characters."""

    def __init__(self, *, language: str = "") -> None:
        try:
            from sacrebleu import BLEU
        except ImportError:
            raise ConfigError("BLEU is computed by sacrebleu, which is not installed; pip install sacrebleu") from None
        # Of a sentence only the counts are used, for which the order does not matter.
        self._metric = BLEU(tokenize="zh" if language == "zh" else None, effective_order=True)
        self._whole: Any = BLEU.compute_bleu

    def figure(self, name: str, found: Sequence[str], gold: Sequence[str], *, section: str = "") -> Figure:
        """The figure of all texts, with the error that leaving each of them out in turn shows (Efron, 1982)."""
        scores = [self._metric.sentence_score(mine, [theirs]) for mine, theirs in zip(found, gold, strict=True)]
        counts = np.array([[*score.counts, *score.totals, score.sys_len, score.ref_len] for score in scores])
        number, whole = len(counts), counts.sum(0)
        error = None
        if number > 1:
            others = np.array([self._value(whole - one) for one in counts])
            error = math.sqrt((number - 1) / number * ((others - others.mean()) ** 2).sum())
        value = self._value(whole)
        return Figure(
            name=name, section=section, measure="bleu", value=value, error=error, num_found=number, num_items=number
        )

    def _value(self, counts: Any) -> float:
        *grams, length, expected = counts.tolist()
        return float(self._whole(grams[:4], grams[4:], length, expected, smooth_method="exp").score)


def score_translations(path: Path, translate: Callable[[Sequence[str]], list[str]]) -> Figure:
    """BLEU of the translations of a table with the columns source and target."""
    bleu = Bleu()
    if path.is_dir():
        raise DataError(f"{path} is a folder; give a table with the columns source and target")
    sources, targets = zip(*Parallel(path).rows(), strict=True)
    return bleu.figure(path.stem, translate(sources), targets)
