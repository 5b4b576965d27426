"""The tests of differences: false positives at about the nominal rate, and enough power."""

import numpy as np
import pytest

from polyseme.comparison.report.scores import Measurement, Option, Score
from polyseme.comparison.significance import adjust, compare, draw_means, interval, resample_items
from polyseme.tasks.metrics import jackknife_ratio, jackknife_spearman

FIRST, SECOND = Option("first"), Option("second")


def measurement(scores, number=0):
    return Measurement(name=f"simulated {number}", kind="classify", scores=scores)


def score(outcomes, **fields):
    return Score(value=float(np.mean(outcomes)), outcomes=outcomes, **fields)


def share_of_significant(simulate, repetitions):
    rng = np.random.default_rng(0)
    found = []
    for number in range(repetitions):
        one = measurement(simulate(rng), number)
        found.append(one.difference(FIRST, SECOND).significant)
    return float(np.mean(found))


def accuracies(rng, gain, spread=0.0, trainings=1, num_items=100):
    """Correct answers of two models to items of varying difficulty, with several trainings of each."""
    difficulty = rng.normal(0.8, 1.2, num_items)
    scores = {}
    for option, shift in ((FIRST, gain), (SECOND, 0.0)):
        abilities = shift + spread * rng.standard_normal(trainings)
        correct = difficulty + abilities[:, None] + rng.logistic(size=(trainings, num_items)) > 0
        scores[option] = score(correct.mean(0), by_training=correct.mean(1).tolist() if trainings > 1 else ())
    return scores


def f1_scores(rng, gain):
    """Entity F1 of two models on 100 sentences, by jackknife pseudo-values."""
    entities = rng.poisson(1.5, 100)
    scores = {}
    for option, probability in ((FIRST, 0.6 + gain), (SECOND, 0.6)):
        correct = rng.binomial(entities, probability)
        predicted = correct + rng.binomial(entities, 0.3)
        scores[option] = score(jackknife_ratio((2 * correct).tolist(), (entities + predicted).tolist()))
    return scores


def correlations(rng, gain):
    """Rank correlations of two models with the same gold scores."""
    gold = rng.standard_normal(100)
    deviations = {FIRST: 1.0 - gain, SECOND: 1.0}
    predicted = {option: gold + level * rng.standard_normal(100) for option, level in deviations.items()}
    return {option: score(jackknife_spearman(gold.tolist(), one.tolist())) for option, one in predicted.items()}


@pytest.mark.parametrize("simulate", [accuracies, f1_scores, correlations])
def test_the_rate_of_false_positives(simulate):
    share = share_of_significant(lambda rng: simulate(rng, 0.0), 400)
    assert 0.02 <= share <= 0.07


@pytest.mark.parametrize(
    ("simulate", "gain", "least"), [(accuracies, 1.5, 0.8), (f1_scores, 0.22, 0.8), (correlations, 0.5, 0.8)]
)
def test_power(simulate, gain, least):
    assert share_of_significant(lambda rng: simulate(rng, gain), 50) >= least


@pytest.mark.parametrize("spread", [0.05, 0.4, 2.0])
def test_the_rate_of_false_positives_with_three_trainings(spread):
    """Whether the test items or the trainings vary more."""

    def simulate(rng):
        return accuracies(rng, 0.0, spread, trainings=3)

    assert share_of_significant(simulate, 400) <= 0.07


def test_label_samples_are_paired():
    """A sample that is good for one option is as good for the other."""
    seeds = np.random.default_rng(0).normal(0, 0.1, (500, 3))
    together = [
        draw_means([sample, sample + 0.01 * np.arange(3)], number, paired=True) for number, sample in enumerate(seeds)
    ]
    spread = np.mean([np.std(drawn[:, 0] - drawn[:, 1]) for drawn in together])
    assert spread < 0.02
    assert np.mean([np.std(np.subtract(*draw_means(list(one), 0).T)) for one in np.split(seeds, 250)]) > 0.05


def test_resampled_means_have_the_standard_error_of_the_mean():
    outcomes = np.random.default_rng(0).standard_normal((400, 3))
    deviations = (outcomes - outcomes.mean(0)) / len(outcomes)
    drawn = resample_items(deviations, "key")
    assert drawn.std(0) == pytest.approx(outcomes.std(0, ddof=1) / 20, rel=0.06)
    assert np.array_equal(drawn, resample_items(deviations, "key"))
    assert not np.array_equal(drawn, resample_items(deviations, "other key"))
    low, high = interval(0.3, drawn[:, 0])
    assert low == pytest.approx(0.3 - 0.1, abs=0.02) and high == pytest.approx(0.3 + 0.1, abs=0.02)


def test_deterministic_trainings_do_not_vary():
    drawn = draw_means([[0.5, 0.5, 0.5], [0.4, 0.5, 0.6], [0.7]], "key")
    median = 0.816 * 0.1 / 3**0.5  # of the absolute deviations by the t distribution with two degrees of freedom
    assert not drawn[:, [0, 2]].any() and np.median(np.abs(drawn[:, 1])) == pytest.approx(median, rel=0.1)


def test_p_values_are_adjusted_by_the_method_of_holm():
    """The example of Holm's procedure in statsmodels and R: p.adjust(c(0.01, 0.04, 0.03, 0.005))."""
    assert adjust(np.array([0.01, 0.04, 0.03, 0.005])) == pytest.approx([0.03, 0.06, 0.06, 0.02])


def test_more_options_need_larger_differences():
    values, rng = np.array([0.5, 0.53]), np.random.default_rng(0)
    draws = rng.normal(0, 0.0095, (2000, 30))
    alone = compare(values, draws[:, :2], 0)[1]
    among = compare(np.append(values, np.full(28, 0.5)), draws, 0)[1]
    assert alone < 0.05 < among


def test_equal_options_do_not_differ():
    one = measurement({FIRST: score([1, 0, 1, 1]), SECOND: score([1, 0, 1, 1])})
    difference = one.difference(FIRST, SECOND)
    assert difference.p_value == 1 and (difference.low, difference.high) == (0, 0)
    assert one.effect_size(FIRST, SECOND) == 0
