"""Metrics by hand, and independent implementations of the scorers of answers and entities."""

import itertools
import random

import numpy as np
import pytest
import scipy.stats

from polyseme.tasks.metrics import (
    AnswerScore,
    Counts,
    Entity,
    accuracy,
    best_threshold,
    entity_counts,
    find_entities,
    jackknife_ratio,
    jackknife_spearman,
    jackknife_strata,
    label_counts,
    macro_f1,
    marks_entities,
    matthews,
    normalize_answer,
    pearson,
    score_answer,
    score_answers,
    spearman,
    tag_accuracy,
)

GOLD, PREDICTED = list("aaabbc"), list("aabbba")


def test_labels():
    assert accuracy(GOLD, PREDICTED) == 4 / 6
    assert label_counts(GOLD, PREDICTED) == {
        "a": Counts(num_correct=2, num_predicted=3, num_gold=3),
        "b": Counts(num_correct=2, num_predicted=3, num_gold=2),
        "c": Counts(num_correct=0, num_predicted=0, num_gold=1),
    }
    assert macro_f1(GOLD, PREDICTED) == pytest.approx((4 / 6 + 4 / 5 + 0) / 3)
    # 4 of 6 right; 3 * 3 + 3 * 2 by rng; the squares of how often each was given and was there.
    assert matthews(GOLD, PREDICTED) == pytest.approx((6 * 4 - 15) / ((36 - 18) * (36 - 14)) ** 0.5)
    assert matthews(GOLD, GOLD) == 1
    assert matthews(GOLD, list("aaaaaa")) == matthews([], []) == accuracy([], []) == macro_f1([], []) == 0
    for function in (accuracy, label_counts, entity_counts):
        with pytest.raises(ValueError, match="zip"):
            function(["a"], [])


def test_counts():
    counts = Counts(num_correct=1, num_predicted=4, num_gold=2)
    assert (counts.precision, counts.recall, counts.f1) == (1 / 4, 1 / 2, 1 / 3)
    nothing = Counts(num_correct=0, num_predicted=0, num_gold=0)
    assert (nothing.precision, nothing.recall, nothing.f1) == (0, 0, 0)


def test_matthews_of_two_labels_is_pearson():
    pairs = [(False, False), (False, True), (True, False), (True, True)]
    for counts in itertools.product((0, 1, 2, 5), repeat=4):
        gold, predicted = np.repeat(pairs, counts, axis=0).T
        assert matthews(gold, predicted) == pytest.approx(pearson(gold, predicted) or 0, abs=1e-9)


def test_correlations():
    assert pearson([1, 2, 3], np.array([1, 3, 2])) == pytest.approx(0.5)
    # Ranks 1, 2.5, 2.5, 4 against 1, 2, 3, 4: 4.5 / sqrt(4.5 * 5).
    assert spearman([1, 5, 5, 100], [-3, -2, -1, 0]) == pytest.approx(4.5 / (4.5 * 5) ** 0.5)
    rng = np.random.default_rng(0)
    gold, predicted = rng.integers(5, size=200), rng.normal(size=200).round(1)
    assert spearman(gold, predicted) == pytest.approx(scipy.stats.spearmanr(gold, predicted).statistic)
    assert pearson(gold, predicted) == pytest.approx(scipy.stats.pearsonr(gold, predicted).statistic)
    assert pearson([1, 1], [1, 2]) is pearson([1, 2], [3, 3]) is spearman([1], [2]) is spearman([], []) is None


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ("B-PER I-PER O B-LOC", "PER 0 2, LOC 3 4"),
        ("B-PER B-PER I-PER", "PER 0 1, PER 1 3"),
        ("O I-PER I-PER O", "PER 1 3"),
        ("I-PER I-LOC", "PER 0 1, LOC 1 2"),
        ("B-PER I-LOC I-LOC", "PER 0 1, LOC 1 3"),
        ("I-PER B-PER I-PER", "PER 0 1, PER 1 3"),
        ("S-PER B-LOC I-LOC E-LOC O", "PER 0 1, LOC 1 4"),
        ("B-PER E-PER I-PER", "PER 0 2, PER 2 3"),
        ("S-PER S-PER E-PER E-PER", "PER 0 1, PER 1 2, PER 2 3, PER 3 4"),
        ("B-LOC O E-LOC", "LOC 0 1, LOC 2 3"),
        ("B-a-b I-a-b I-a", "a-b 0 2, a 2 3"),
        ("O O", ""),
        ("", ""),
    ],
)
def test_entities(tags, expected):
    found = [f"{entity.name} {entity.start} {entity.end}" for entity in find_entities(tags.split())]
    assert ", ".join(found) == expected


def leave_one_out(metric, *columns):
    """The pseudo-values by their definition."""
    whole = metric(*columns)
    number = len(columns[0])
    without = (metric(*(np.delete(column, item) for column in columns)) for item in range(number))
    return [number * whole - (number - 1) * value for value in without]


@pytest.mark.parametrize("number", [5, 300, 600])
def test_pseudo_values_of_spearman_correlations(number):
    rng = np.random.default_rng(number)
    gold = rng.integers(0, 12, number) / 2  # with ties
    predicted = np.round(gold + rng.standard_normal(number), 1)
    assert jackknife_spearman(gold, predicted) == pytest.approx(leave_one_out(spearman, gold, predicted))


def test_pseudo_values_of_undefined_correlations():
    assert jackknife_spearman([1, 1, 1, 1], [1, 2, 3, 4]) == jackknife_spearman([1, 2], [1, 2]) == []


def test_pseudo_values_of_ratios():
    rng = np.random.default_rng(0)
    wholes = rng.integers(1, 9, 500)
    parts = rng.binomial(wholes, 0.6)
    found = jackknife_ratio(parts, wholes)
    assert np.mean(found) == pytest.approx(parts.sum() / wholes.sum())
    expected = leave_one_out(lambda one, all: one.sum() / all.sum(), parts, wholes)
    assert np.std(found) == pytest.approx(np.std(expected), rel=0.01)
    assert jackknife_ratio([1, 0, 1], [1, 1, 1]) == pytest.approx([1, 0, 1])
    assert jackknife_ratio([0, 0], [0, 0]) == [0, 0]


def test_pseudo_values_of_weighted_means():
    assert jackknife_strata([(1.0, [1, 0, 1])]) == pytest.approx([1, 0, 1])
    found = jackknife_strata([(0.5, [1, 0]), (0.5, [1, 1, 0, 1])])
    assert np.mean(found) == pytest.approx((0.5 + 0.75) / 2)
    variance = ((np.array(found) - np.mean(found)) ** 2).sum() / len(found) ** 2
    assert variance == pytest.approx(0.25 * (0.25 / 2 + 0.1875 / 4))


def test_entities_must_match_exactly():
    gold = [["B-PER", "I-PER", "O", "B-LOC"], ["O", "B-LOC", "I-LOC", "O"], ["B-PER", "O"]]
    predicted = [["B-PER", "I-PER", "O", "B-PER"], ["O", "B-LOC", "O", "O"], ["I-PER", "O"]]
    assert entity_counts(gold, predicted) == Counts(num_correct=2, num_predicted=4, num_gold=4)
    assert tag_accuracy(gold, predicted) == 7 / 10
    assert entity_counts([["O"]], [["O"]]) == Counts(num_correct=0, num_predicted=0, num_gold=0)
    # The same tokens of another sentence are another entity.
    assert entity_counts([["B-PER"], ["O"]], [["O"], ["B-PER"]]).num_correct == 0


def chunks_by_their_edges(tags):
    """Entities as in the script of CoNLL-2000, by whether one ends before or begins at each token."""
    found, start = [], None
    pairs = [(tag[0], tag[2:]) for tag in ["O", *tags, "O"]]
    for place, ((last, last_name), (mark, name)) in enumerate(itertools.pairwise(pairs)):
        other = last_name != name
        ends = last in "ES" or (last in "BI" and (mark in "BSO" or other))
        begins = mark in "BS" or (mark in "IE" and (last in "ESO" or other))
        if ends and start is not None:
            found.append(Entity(name=last_name, start=start, end=place))
            start = None
        if begins:
            start = place
    return found


def test_entities_as_in_conll():
    every = ["O", *(f"{mark}-{name}" for mark in "BIES" for name in ("PER", "LOC"))]
    for length in range(5):  # whether one continues depends on two neighbours
        for tags in itertools.product(every, repeat=length):
            assert find_entities(tags) == chunks_by_their_edges(tags)


def test_tag_schemes_of_entities():
    assert marks_entities(["O", "B-PER", "I-PER", "S-a", "E-a-b"])
    assert not marks_entities(["O", "NOUN", "X"])
    assert not marks_entities(["B"])


@pytest.mark.parametrize(
    ("text", "language", "expected"),
    [
        ("The  Cat's\tpyjamas, and an owl!", "en", "cats pyjamas and owl"),
        ("a-the", "en", "athe"),
        ("an–apple", "en", "–apple"),
        ("theatre", "en", "theatre"),
        ("The", "en", ""),
        (" 《战国无双》3：A-b ", "zh", "战国无双3ab"),
        ("3.5 公斤，", "zh", "3.5 公斤"),
        ("。！", "zh", ""),
    ],
)
def test_normalized_answers(text, language, expected):
    assert normalize_answer(text, language) == expected


def test_answers():
    assert score_answer(["the Broncos", "Denver Broncos"], "Denver Broncos!") == AnswerScore(exact=1, f1=1)
    assert score_answer(["Denver Broncos"], "The Broncos") == AnswerScore(exact=0, f1=2 / 3)
    assert score_answer(["New York York"], "york new jersey") == AnswerScore(exact=0, f1=pytest.approx(2 * 2 / 6))
    assert score_answer(["Denver"], "") == score_answer([], "Denver") == AnswerScore(exact=0, f1=0)
    assert score_answer([], "") == score_answer([""], "the") == score_answer(["an"], "") == AnswerScore(exact=1, f1=1)
    assert score_answer(["a", "Denver"], "") == AnswerScore(exact=0, f1=0)  # it has an answer
    # The longest common stretch is 光荣和 of 3 and 5 characters; in no order there would be 4.
    assert score_answer(["光荣和开发"], "发，光荣和", "zh") == AnswerScore(exact=0, f1=pytest.approx(2 * 3 / 9))
    assert score_answer(["光荣和ω-force"], "光荣和 ωforce", "zh") == AnswerScore(exact=0, f1=1)
    assert score_answer(["1,000.5 米"], "1,000.5", "zh").f1 == pytest.approx(2 / 3)
    assert score_answers([["Denver"], ["New York"], []], ["Denver", "York", "x"]) == AnswerScore(
        exact=1 / 3, f1=pytest.approx((1 + 2 / 3) / 3)
    )
    assert score_answers([], []) == AnswerScore(exact=0, f1=0)


MARKS = {"en": "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", "zh": "-:_*^/\\~`+=，。：？！“”；’《》·、「」（）－～『』"}


def normalized(text, language):
    return "".join(letter for letter in text.lower().strip() if letter not in MARKS[language])


def english_words(text):
    """Words without punctuation and articles."""
    runs = ["".join(run) for _, run in itertools.groupby(normalized(text, "en"), str.isalnum)]
    return "".join(" " if run in ("a", "an", "the") else run for run in runs).split()


def chinese_pieces(text):
    """Single ideographs; text between them is split at white space and punctuation."""
    pieces, other = [], ""
    for letter in normalized(text, "zh") + "一":
        if not "一" <= letter <= "龥":
            other += letter
            continue
        for word in other.split():
            while word:
                size = 1
                while size < len(word) and word[0].isalnum() and joins_pairs(word[size - 1 : size + 2]):
                    size += 1
                pieces.append(word[:size])
                word = word[size:]
        pieces.append(letter)
        other = ""
    return pieces[:-1]


def joins_pairs(around):
    """Whether a word continues: with a letter, or with a point or a comma within a number."""
    last, next, after = around[0], around[1:2], around[2:3]
    return last in ".," or next.isalnum() or (next == "." and after.isalnum()) or (next == "," and after.isdigit())


def naive_score(gold, predicted, language):
    """Exact match and F1, from precision and recall, of the best of several answers."""

    def known(text):
        return " ".join(english_words(text)) if language == "en" else normalized(text, "zh")

    cut = english_words if language == "en" else chinese_pieces
    exacts, scores = [], []
    for answer in [answer for answer in gold if known(answer)] or [""]:
        exacts.append(known(answer) == known(predicted))
        theirs, mine = cut(answer), cut(predicted)
        if not theirs or not mine:
            scores.append(float(theirs == mine))
            continue
        if language == "en":
            left, same = list(theirs), 0
            for word in mine:
                if word in left:
                    left.remove(word)
                    same += 1
        else:
            runs = [mine[a:b] for a, b in itertools.combinations(range(len(mine) + 1), 2)]
            others = [theirs[a:b] for a, b in itertools.combinations(range(len(theirs) + 1), 2)]
            same = max((len(run) for run in runs if run in others), default=0)
        precision, recall = same / len(mine), same / len(theirs)
        scores.append(2 * precision * recall / (precision + recall) if same else 0.0)
    return float(max(exacts)), max(scores)


PARTS = {
    "en": "The |a |An | |  |\t|Denver |broncos |New |York |Denver|U.S. |1,000|–|-|'s |!|é |x_y |the|theatre ",
    "zh": "光|荣|开发|的|，|。|《|》|ω-force| |NBA|3.5|1,000|%|·|(|a,b|.|３|ひら",
}


@pytest.mark.parametrize("language", ["en", "zh"])
def test_random_answers_match_an_independent_scorer(language):
    draw, parts = random.Random(0), PARTS[language].split("|")
    cases, scores = [], []
    for _ in range(1000):
        gold = [draw.choices(parts, k=draw.randrange(1, 9)) for _ in range(draw.randrange(4))]
        near = list(draw.choice(gold)) if gold and draw.random() < 0.8 else []
        for _ in range(draw.randrange(4)):
            near.insert(draw.randrange(len(near) + 1), draw.choice(parts))
            del near[draw.randrange(len(near))]
        case = ["".join(answer) for answer in gold], "".join(near)
        ours = score_answer(*case, language)
        assert (ours.exact, pytest.approx(ours.f1)) == naive_score(*case, language), case
        cases.append(case)
        scores.append((ours.exact, ours.f1))
    assert min(scores.count((0, 0)), scores.count((1, 1))) > 100
    assert sum(0 < f1 < 1 for _, f1 in scores) > 200 and sum(not gold for gold, _ in cases) > 100
    mean = score_answers(*zip(*cases, strict=True), language)
    assert (mean.exact, mean.f1) == pytest.approx(np.mean(scores, axis=0))


def test_best_threshold():
    # Answering the first two gives 1 + .5, and the last is right unanswered; answering the third gains nothing.
    margins, answerable = [3.0, 1.0, -1.0, -2.0], [True, True, False, True]
    assert best_threshold(margins, [1.0, 0.5, 0.0, 0.5], answerable) == (0.0, 2.5 / 4)
    assert best_threshold([-3.0, -4.0], [1.0, 1.0], [True, True])[0] == -5
    assert best_threshold([3.0, 1.0], [0.0, 0.0], [False, False]) == (3, 1)
    assert best_threshold([-np.inf, 2.0], [0.0, 1.0], [True, True])[1] == 0.5
    nearest = 0.5 + 2**-53, 0.5 + 2**-52  # no float lies between them, and the midpoint is rounded up
    assert best_threshold(nearest, [0.0, 1.0], [False, True])[0] < nearest[1]


def sweep(margins, scores, answerable):
    """The best mean score and the margins of answered questions, as in the script of SQuAD 2.0.

    At first nothing is answered; then one question after another, the surest first.
    """
    now = best = sum(not has for has in answerable)
    num_answered = 0
    order = sorted(range(len(margins)), key=lambda number: -margins[number])
    for place, number in enumerate(order):
        now += scores[number] if answerable[number] else -1
        tied = place + 1 < len(order) and margins[order[place + 1]] == margins[number]
        if now > best and not tied:  # which no threshold could part
            best, num_answered = now, place + 1
    return best / len(margins), sorted(margins[number] for number in order[:num_answered])


def test_random_thresholds_match_an_exhaustive_search():
    draw = random.Random(0)
    for _ in range(1000):
        number = draw.randrange(1, 13)
        margins = [draw.choice([-2.0, -1.0, 0.0, 0.5, 4.0, draw.uniform(-1e6, 1e6)]) for _ in range(number)]
        answerable = [draw.random() < 0.6 for _ in range(number)]
        scores = [draw.randrange(5) / 4 if has else 0.0 for has in answerable]
        threshold, score = best_threshold(margins, scores, answerable)
        answered = sorted(margin for margin in margins if margin > threshold)
        assert (pytest.approx(score), answered) == sweep(margins, scores, answerable)
