"""ROUGE-1, -2 and -L (Lin, 2004), as F1.

Words are lower-cased runs of alphanumeric characters, neither stemmed nor filtered; an ideograph is a word.
"""

import re
from collections import Counter
from collections.abc import Sequence

from polyseme.corpora.scripts import IDEOGRAPHS
from polyseme.tasks.metrics import Counts

_WORD = re.compile(rf"[{IDEOGRAPHS}]|[^\W_{IDEOGRAPHS}]+")


def rouge(reference: str, prediction: str) -> dict[str, float]:
    """ROUGE-1, -2 and -L of a summary."""
    expected, actual = _WORD.findall(reference.lower()), _WORD.findall(prediction.lower())
    scores = {f"rouge-{n}": _ngram_f1(expected, actual, n) for n in (1, 2)}
    length = _common_subsequence_length(expected, actual)
    return {**scores, "rouge-l": Counts(num_correct=length, num_predicted=len(actual), num_gold=len(expected)).f1}


def _ngram_f1(expected: Sequence[str], actual: Sequence[str], n: int) -> float:
    ngrams, found = (Counter(zip(*(words[start:] for start in range(n)), strict=False)) for words in (expected, actual))
    return Counts(num_correct=(ngrams & found).total(), num_predicted=found.total(), num_gold=ngrams.total()).f1


def _common_subsequence_length(expected: Sequence[str], actual: Sequence[str]) -> int:
    """Length of the longest common subsequence."""
    lengths = [0] * (len(actual) + 1)  # of the words so far, with each prefix of `actual`
    for word in expected:
        diagonal = 0
        for index, other in enumerate(actual, 1):
            above = lengths[index]
            lengths[index] = diagonal + 1 if word == other else max(above, lengths[index - 1])
            diagonal = above
    return lengths[-1]
