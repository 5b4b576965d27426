"""Metrics of classification, regression, sequence labelling and question answering."""

import math
import re
import string
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from itertools import chain
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from polyseme.arrays import AnyFloats
from polyseme.corpora.scripts import CMRC_IDEOGRAPHS

Language = Literal["en", "zh"]
_JACKKNIFE_ROWS = 256  # items that are left out at the same time
Name = TypeVar("Name", bound=Hashable)

# Articles and punctuation that the evaluation scripts of SQuAD and CMRC 2018 remove. The latter splits text in other
# scripts with NLTK, which this pattern approximates.
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = {
    "en": str.maketrans("", "", string.punctuation),
    "zh": str.maketrans("", "", "-:_*^/\\~`+=，。：？！“”；’《》·、「」（）－～『』"),
}
_LETTER = rf"[^\W{CMRC_IDEOGRAPHS}]"
_PIECE = re.compile(rf"[{CMRC_IDEOGRAPHS}]|{_LETTER}(?:{_LETTER}|\.(?={_LETTER})|,(?=\d))*|\S")


@dataclass(frozen=True, kw_only=True)
class Counts:
    """Numbers of correct predictions, of predictions, and of gold items."""

    num_correct: int
    num_predicted: int
    num_gold: int

    @property
    def precision(self) -> float:
        return _ratio(self.num_correct, self.num_predicted)

    @property
    def recall(self) -> float:
        return _ratio(self.num_correct, self.num_gold)

    @property
    def f1(self) -> float:
        return _ratio(2 * self.num_correct, self.num_predicted + self.num_gold)


@dataclass(frozen=True, kw_only=True)
class Entity:
    """A tagged span of tokens."""

    name: str  # such as PER or LOC
    start: int
    end: int


@dataclass(frozen=True, kw_only=True)
class AnswerScore:
    """Exact match and F1 of question answering."""

    exact: float
    f1: float


def accuracy(gold: Iterable[object], predicted: Iterable[object]) -> float:
    """Fraction of correct predictions."""
    correct = [found == expected for expected, found in zip(gold, predicted, strict=True)]
    return _ratio(sum(correct), len(correct))


def tag_accuracy(gold: Iterable[Sequence[str]], predicted: Iterable[Sequence[str]]) -> float:
    """Fraction of tokens of all sentences with the correct tag."""
    return accuracy(chain.from_iterable(gold), chain.from_iterable(predicted))


def label_counts(gold: Iterable[Name], predicted: Iterable[Name]) -> dict[Name, Counts]:
    """Count correct, predicted and gold items of each label."""
    pairs = list(zip(gold, predicted, strict=True))
    num_correct = Counter(found for expected, found in pairs if found == expected)
    num_gold, num_predicted = Counter(expected for expected, _ in pairs), Counter(found for _, found in pairs)
    return {
        name: Counts(num_correct=num_correct[name], num_predicted=num_predicted[name], num_gold=num_gold[name])
        for name in [*num_gold, *num_predicted]
    }


def macro_f1(gold: Iterable[Name], predicted: Iterable[Name]) -> float:
    """Mean F1 of all labels that occur."""
    counts = label_counts(gold, predicted).values()
    return _ratio(math.fsum(label.f1 for label in counts), len(counts))


def matthews(gold: Iterable[Name], predicted: Iterable[Name]) -> float:
    """Multi-class Matthews correlation (Gorodkin, 2004); 0 if all gold or all predicted labels are the same."""
    counts = label_counts(gold, predicted).values()
    num_items = sum(label.num_gold for label in counts)
    covariance = num_items * sum(label.num_correct for label in counts)
    covariance -= sum(label.num_predicted * label.num_gold for label in counts)
    variances = [
        num_items**2 - sum(number**2 for number in numbers)
        for numbers in ([label.num_predicted for label in counts], [label.num_gold for label in counts])
    ]
    return covariance / math.sqrt(math.prod(variances)) if all(variances) else 0.0


def pearson(gold: ArrayLike, predicted: ArrayLike) -> float | None:
    """Pearson correlation; None if all values of one argument are equal."""
    expected, found = (np.asarray(values, np.float64) for values in (gold, predicted))
    if len(expected) < 2 or not np.ptp(expected) or not np.ptp(found):
        return None
    return float(np.corrcoef(expected, found)[0, 1])


def spearman(gold: ArrayLike, predicted: ArrayLike) -> float | None:
    """Spearman correlation with average ranks for ties; None if all values of one argument are equal."""
    return pearson(_average_ranks(gold), _average_ranks(predicted))


def jackknife_ratio(numerators: ArrayLike, denominators: ArrayLike) -> list[float]:
    """The pseudo-value of each item of a ratio of sums, linearized (Cochran, 1977, section 2.11)."""
    parts, wholes = (np.asarray(values, np.float64) for values in (numerators, denominators))
    whole = wholes.sum()
    value = parts.sum() / whole if whole else 0.0
    pseudo_values = value + (parts - value * wholes) * (len(parts) / whole if whole else 0.0)
    return list(pseudo_values.tolist())


def jackknife_strata(strata: Sequence[tuple[float, Sequence[float]]]) -> list[float]:
    """The pseudo-value of each item of a sum of weighted means; the strata are fixed."""
    number = sum(len(values) for _, values in strata)
    means = [math.fsum(values) / len(values) for _, values in strata]
    total = math.fsum(weight * mean for (weight, _), mean in zip(strata, means, strict=True))
    return [
        total + number * weight / len(values) * (value - mean)
        for (weight, values), mean in zip(strata, means, strict=True)
        for value in values
    ]


def jackknife_spearman(gold: ArrayLike, predicted: ArrayLike) -> list[float]:
    """The pseudo-value of each item of a Spearman correlation; none if it is undefined."""
    value = spearman(gold, predicted)
    expected, found = (np.asarray(values, np.float64) for values in (gold, predicted))
    number = len(expected)
    if value is None or number < 4:
        return []
    ranks = _average_ranks(expected), _average_ranks(found)
    pseudo_values: list[float] = []
    for start in range(0, number, _JACKKNIFE_ROWS):
        rows = np.arange(start, min(start + _JACKKNIFE_ROWS, number))
        without = []  # centred ranks without each item (rows, N)
        for values, ranked in zip((expected, found), ranks, strict=True):
            of_row = values[rows, None]
            centred = ranked - (values > of_row) - (values == of_row) / 2 - number / 2
            centred[np.arange(len(rows)), rows] = 0.0
            without.append(centred)
        variances = [(centred**2).sum(1) for centred in without]
        product = (without[0] * without[1]).sum(1)
        correlations = product / np.maximum(np.sqrt(variances[0] * variances[1]), 1e-12)
        pseudo_values += (number * value - (number - 1) * correlations).tolist()
    return pseudo_values


def _average_ranks(values: ArrayLike) -> AnyFloats:
    # scipy.stats.rankdata does the same, but importing it takes seconds, which a training budget would pay for.
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[inverse]


def marks_entities(tags: Iterable[str]) -> bool:
    """Whether tags are in the BIO or BIOES scheme."""
    return all(re.fullmatch(r"O|[BIES]-.+", tag) for tag in tags)


def find_entities(tags: Iterable[str]) -> list[Entity]:
    """Find the entities in BIO or BIOES tags; an I without a B before it starts an entity, as in CoNLL."""
    entities: list[Entity] = []
    before = "O"
    for position, tag in enumerate(tags):
        prefix, _, name = tag.partition("-")
        if prefix in ("I", "E") and before in ("B", "I") and entities[-1].name == name:
            entities[-1] = replace(entities[-1], end=position + 1)
        elif prefix != "O":
            entities.append(Entity(name=name, start=position, end=position + 1))
        before = prefix
    return entities


def entity_counts(gold: Iterable[Sequence[str]], predicted: Iterable[Sequence[str]]) -> Counts:
    """Count the entities of tagged sentences; a correct one has the same name, start and end."""
    pairs = [(find_entities(expected), find_entities(found)) for expected, found in zip(gold, predicted, strict=True)]
    return Counts(
        num_correct=sum(entity in expected for expected, found in pairs for entity in found),
        num_predicted=sum(len(found) for _, found in pairs),
        num_gold=sum(len(expected) for expected, _ in pairs),
    )


def normalize_answer(text: str, language: Language = "en") -> str:
    """Lowercase an answer and remove punctuation, and in English articles and repeated spaces.

    As in the evaluation scripts of SQuAD (Rajpurkar et al., 2016, 2018) and CMRC 2018 (Cui et al., 2019).
    """
    text = text.lower().strip().translate(_PUNCTUATION[language])
    return text if language == "zh" else " ".join(_ARTICLES.sub(" ", text).split())


def score_answer(gold: Iterable[str], predicted: str, language: Language = "en") -> AnswerScore:
    """Compare an answer to the best of several; the empty answer is correct for an unanswerable question."""
    found = normalize_answer(predicted, language)
    expected = [answer for answer in (normalize_answer(text, language) for text in gold) if answer] or [""]
    return AnswerScore(exact=float(found in expected), f1=max(_overlap(text, found, language) for text in expected))


def score_answers(gold: Iterable[Iterable[str]], predicted: Iterable[str], language: Language = "en") -> AnswerScore:
    """Mean scores over questions."""
    scores = [score_answer(texts, found, language) for texts, found in zip(gold, predicted, strict=True)]
    return AnswerScore(
        exact=_ratio(math.fsum(score.exact for score in scores), len(scores)),
        f1=_ratio(math.fsum(score.f1 for score in scores), len(scores)),
    )


def best_threshold(margins: ArrayLike, scores: ArrayLike, answerable: ArrayLike) -> tuple[float, float]:
    """Find the threshold on the margin that maximizes the mean score (Rajpurkar et al., 2018), and that score.

    It lies halfway between the margins on either side.

    Args:
        margins: By how much the best answer of each question scores higher than there being none.
        scores: Exact match or F1 of that answer.
        answerable: Whether the question has an answer.
    """
    null_scores = 1.0 - np.asarray(answerable, np.float64)  # of giving no answer
    levels, indices = np.unique(np.asarray(margins, np.float64), return_inverse=True)
    gains = np.bincount(indices, np.asarray(scores, np.float64) - null_scores)
    totals = null_scores.sum() + np.append(np.cumsum(gains[::-1])[::-1], 0.0)  # with each level as threshold, or none
    halfway = np.minimum((levels[:-1] + levels[1:]) / 2, np.nextafter(levels[1:], -np.inf))
    values = np.concatenate([levels[:1] - 1, halfway, levels[-1:]])
    best = len(levels) - int(totals[::-1].argmax())  # the highest of equally good ones
    return float(values[best]), float(totals[best]) / len(null_scores)


def _overlap(gold: str, predicted: str, language: Language) -> float:
    """F1 of words; in Chinese, of the longest common substring, counted in characters and words of other scripts."""
    if language == "en":
        expected, found = gold.split(), predicted.split()
        num_correct = sum((Counter(expected) & Counter(found)).values())
    else:
        expected, found = _PIECE.findall(gold), _PIECE.findall(predicted)
        num_correct = SequenceMatcher(None, expected, found, autojunk=False).find_longest_match().size
    if not expected or not found:
        return float(expected == found)
    return Counts(num_correct=num_correct, num_predicted=len(found), num_gold=len(expected)).f1


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0
