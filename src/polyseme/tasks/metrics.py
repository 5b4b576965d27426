"""How far answers agree with those of people: labels, numbers, tags, and pieces of text."""

from __future__ import annotations

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

Language = Literal["en", "zh"]
Name = TypeVar("Name", bound=Hashable)

# What the programs of SQuAD and CMRC 2018 leave out of answers and hold for Chinese; the latter has NLTK find words of
# other scripts, which are nearly these.
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_WITHOUT_MARKS = {
    "en": str.maketrans("", "", string.punctuation),
    "zh": str.maketrans("", "", "-:_*^/\\~`+=，。：？！“”；’《》·、「」（）－～『』"),
}
_IDEOGRAPHS = "\u4e00-\u9fa5"
_LETTER = rf"[^\W{_IDEOGRAPHS}]"
_PIECE = re.compile(rf"[{_IDEOGRAPHS}]|{_LETTER}(?:{_LETTER}|\.(?={_LETTER})|,(?=\d))*|\S")


@dataclass(frozen=True, kw_only=True)
class Counts:
    """How many things were found rightly, were found, and were there to be found."""

    num_right: int = 0
    num_found: int = 0
    num_gold: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            num_right=self.num_right + other.num_right,
            num_found=self.num_found + other.num_found,
            num_gold=self.num_gold + other.num_gold,
        )

    @property
    def precision(self) -> float:
        return _share(self.num_right, self.num_found)

    @property
    def recall(self) -> float:
        return _share(self.num_right, self.num_gold)

    @property
    def f1(self) -> float:
        return _share(2 * self.num_right, self.num_found + self.num_gold)


@dataclass(frozen=True, kw_only=True)
class Entity:
    """Tokens that are marked together."""

    name: str  # what they are: PER, LOC
    start: int
    end: int


@dataclass(frozen=True, kw_only=True)
class AnswerScore:
    """How often an answer is that of people, and how far its words are theirs."""

    exact: float
    f1: float


@dataclass(frozen=True, kw_only=True)
class Threshold:
    """The margin above which to answer, and the mean score that this gives."""

    value: float
    score: float


def accuracy(gold: Iterable[object], predicted: Iterable[object]) -> float:
    """The share of items that are the same."""
    same = [mine == theirs for theirs, mine in zip(gold, predicted, strict=True)]
    return _share(sum(same), len(same))


def tag_accuracy(gold: Iterable[Sequence[str]], predicted: Iterable[Sequence[str]]) -> float:
    """The share of tokens of all sentences whose tags are the same."""
    return accuracy(chain.from_iterable(gold), chain.from_iterable(predicted))


def label_counts(gold: Iterable[Name], predicted: Iterable[Name]) -> dict[Name, Counts]:
    """How often each label was right, was given, and should have been."""
    pairs = list(zip(gold, predicted, strict=True))
    return _count(
        right=(mine for theirs, mine in pairs if mine == theirs),
        found=(mine for _, mine in pairs),
        gold=(theirs for theirs, _ in pairs),
    )


def micro_f1(gold: Iterable[Name], predicted: Iterable[Name], labels: Iterable[Name]) -> float:
    """F1 of some labels taken together; of one it is that of MRPC and QQP, of all it is the accuracy."""
    counts = label_counts(gold, predicted)
    return sum((counts.get(label, Counts()) for label in labels), Counts()).f1


def macro_f1(gold: Iterable[Name], predicted: Iterable[Name]) -> float:
    """The mean of the F1 of all labels that occur."""
    counts = label_counts(gold, predicted).values()
    return _share(math.fsum(label.f1 for label in counts), len(counts))


def matthews(gold: Iterable[Name], predicted: Iterable[Name]) -> float:
    """Matthews' correlation of two or more labels (Gorodkin, 2004); 0 where one side has only one label."""
    counts = label_counts(gold, predicted).values()
    num_items = sum(label.num_gold for label in counts)
    shared = num_items * sum(label.num_right for label in counts)
    shared -= sum(label.num_found * label.num_gold for label in counts)
    found, there = (
        num_items**2 - sum(number**2 for number in numbers)
        for numbers in ([label.num_found for label in counts], [label.num_gold for label in counts])
    )
    return shared / math.sqrt(found * there) if found and there else 0.0


def pearson(gold: ArrayLike, predicted: ArrayLike) -> float | None:
    """Pearson's correlation; none where all numbers of one side are the same."""
    theirs, mine = (np.asarray(values, np.float64) for values in (gold, predicted))
    if len(theirs) < 2 or not np.ptp(theirs) or not np.ptp(mine):
        return None
    return float(np.corrcoef(theirs, mine)[0, 1])


def spearman(gold: ArrayLike, predicted: ArrayLike) -> float | None:
    """Spearman's correlation, equal numbers sharing their ranks; none where there is no order to agree about."""
    from scipy.stats import rankdata

    return pearson(rankdata(gold), rankdata(predicted))


def marks_entities(tags: Iterable[str]) -> bool:
    """Whether tags are those of entities: B-, I-, perhaps E- and S- with a name, and O."""
    return all(re.fullmatch(r"O|[BIES]-.+", tag) for tag in tags)


def find_entities(tags: Iterable[str]) -> list[Entity]:
    """The entities of a sentence tagged as BIO or BIOES; what goes on with none before it begins one, as in CoNLL."""
    entities: list[Entity] = []
    before = "O"
    for place, tag in enumerate(tags):
        mark, _, name = tag.partition("-")
        if mark in ("I", "E") and before in ("B", "I") and entities[-1].name == name:
            entities[-1] = replace(entities[-1], end=place + 1)
        elif mark != "O":
            entities.append(Entity(name=name, start=place, end=place + 1))
        before = mark
    return entities


def entity_counts(gold: Iterable[Sequence[str]], predicted: Iterable[Sequence[str]]) -> dict[str, Counts]:
    """The entities of each name in tagged sentences; one is right if its name, its start and its end are."""
    pairs = [(find_entities(theirs), find_entities(mine)) for theirs, mine in zip(gold, predicted, strict=True)]
    return _count(
        right=(entity.name for theirs, mine in pairs for entity in mine if entity in theirs),
        found=(entity.name for _, mine in pairs for entity in mine),
        gold=(entity.name for theirs, _ in pairs for entity in theirs),
    )


def normalize_answer(text: str, language: Language = "en") -> str:
    """What counts of an answer: no capitals and marks, in English no articles nor more than single spaces.

    As in the programs of SQuAD (Rajpurkar et al., 2016, 2018) and CMRC 2018 (Cui et al., 2019).
    """
    text = text.lower().strip().translate(_WITHOUT_MARKS[language])
    return text if language == "zh" else " ".join(_ARTICLES.sub(" ", text).split())


def score_answer(gold: Iterable[str], predicted: str, language: Language = "en") -> AnswerScore:
    """Hold an answer against the best of several; to a question without one, nothing is the right answer."""
    mine = normalize_answer(predicted, language)
    theirs = [answer for answer in (normalize_answer(text, language) for text in gold) if answer] or [""]
    return AnswerScore(exact=float(mine in theirs), f1=max(_overlap(answer, mine, language) for answer in theirs))


def score_answers(gold: Iterable[Iterable[str]], predicted: Iterable[str], language: Language = "en") -> AnswerScore:
    """The mean over questions."""
    scores = [score_answer(theirs, mine, language) for theirs, mine in zip(gold, predicted, strict=True)]
    return AnswerScore(
        exact=_share(math.fsum(score.exact for score in scores), len(scores)),
        f1=_share(math.fsum(score.f1 for score in scores), len(scores)),
    )


def best_threshold(margins: ArrayLike, scores: ArrayLike, answerable: ArrayLike) -> Threshold:
    """Above which margin to answer so that the mean score is best (Rajpurkar et al., 2018).

    Of each question: by how much its best answer beats there being none, the exactness or F1 of that answer, and
    whether the question has one. The threshold lies halfway between the margins on either side.
    """
    silent = 1.0 - np.asarray(answerable, np.float64)  # the score of no answer
    levels, which = np.unique(np.asarray(margins, np.float64), return_inverse=True)
    gains = np.bincount(which, np.asarray(scores, np.float64) - silent)
    totals = silent.sum() + np.append(np.cumsum(gains[::-1])[::-1], 0.0)  # of answering from each level up, or never
    halfway = np.minimum((levels[:-1] + levels[1:]) / 2, np.nextafter(levels[1:], -np.inf))
    values = np.concatenate([levels[:1] - 1, halfway, levels[-1:]])
    best = len(levels) - int(totals[::-1].argmax())  # the highest, if several are as good
    return Threshold(value=float(values[best]), score=float(totals[best]) / len(silent))


def _count(*, right: Iterable[Name], found: Iterable[Name], gold: Iterable[Name]) -> dict[Name, Counts]:
    both, mine, theirs = Counter(right), Counter(found), Counter(gold)
    return {
        name: Counts(num_right=both[name], num_found=mine[name], num_gold=theirs[name]) for name in [*theirs, *mine]
    }


def _overlap(gold: str, predicted: str, language: Language) -> float:
    """F1 of words; of Chinese, of the longest stretch that both have, in characters and words of other scripts."""
    if language == "en":
        theirs, mine = gold.split(), predicted.split()
        num_right = sum((Counter(theirs) & Counter(mine)).values())
    else:
        theirs, mine = _PIECE.findall(gold), _PIECE.findall(predicted)
        num_right = SequenceMatcher(None, theirs, mine, autojunk=False).find_longest_match().size
    if not theirs or not mine:
        return float(theirs == mine)
    return Counts(num_right=num_right, num_found=len(mine), num_gold=len(theirs)).f1


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0
