"""How far a summary is made of what people put into theirs: ROUGE-1, -2 and -L (Lin, 2004), as F1.

Words are letters and digits in lower case, neither stemmed nor filtered; an ideograph is a word.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from polyseme.tasks.metrics import Counts
from polyseme.text.vocabulary import IDEOGRAPHS

_WORD = re.compile(rf"[{IDEOGRAPHS}]|[^\W_{IDEOGRAPHS}]+")


def rouge(gold: str, predicted: str) -> dict[str, float]:
    """The three figures of a summary."""
    theirs, mine = _WORD.findall(gold.lower()), _WORD.findall(predicted.lower())
    shared = Counts(num_right=_common(theirs, mine), num_found=len(mine), num_gold=len(theirs))
    return {"rouge-1": _grams(theirs, mine, 1), "rouge-2": _grams(theirs, mine, 2), "rouge-l": shared.f1}


def _grams(gold: Sequence[str], predicted: Sequence[str], number: int) -> float:
    """F1 of runs of so many words."""
    theirs, mine = (
        Counter(zip(*(words[start:] for start in range(number)), strict=False)) for words in (gold, predicted)
    )
    return Counts(num_right=(theirs & mine).total(), num_found=mine.total(), num_gold=theirs.total()).f1


def _common(gold: Sequence[str], predicted: Sequence[str]) -> int:
    """How many words both have in the same order, others between them or not."""
    lengths = [0] * (len(predicted) + 1)  # of the words read so far, with each beginning of the other
    for word in gold:
        before = 0
        for place, other in enumerate(predicted, 1):
            above = lengths[place]
            lengths[place] = before + 1 if word == other else max(above, lengths[place - 1])
            before = above
    return lengths[-1]
