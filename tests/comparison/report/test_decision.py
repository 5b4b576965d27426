"""Recommended families for synthetic results with an obvious best choice."""

import math
import random
import statistics

import pytest
from tests.comparison.synthetic_results import comparison_row, synthetic_rows

from polyseme.comparison.report.decision import decide_all
from polyseme.comparison.report.markdown import write_markdown
from polyseme.comparison.report.page import draw_page
from polyseme.comparison.report.results_view import group_rows
from polyseme.comparison.report.scores import (
    LOW_COVERAGE,
    NO_TIME,
    sampling_error,
    suite_measurements,
    task_measurements,
)
from polyseme.comparison.report.sentences import explain, recommend

CONTEXTS = {"onehot": "none", "svd": "none", "skipgram": "none", "bert": "both", "elmo": "both", "gpt2": "left"}
SECONDS = {"onehot": 0.1, "svd": 0.2, "skipgram": 0.3, "bert": 3.0, "elmo": 9.0, "gpt2": 2.0}
TASK = {"name": "topics", "kind": "classify", "metric": "accuracy", "test": 1000, "majority_baseline": 0.3}


def families(*names, **changes):
    return [
        {"row": "family", "family": name, "context": CONTEXTS[name], "embedding_seconds": SECONDS[name], **changes}
        for name in names
    ]


def scores(task="topics", kind="classify", num_labels=1000, method="linear_probe", **means):
    """Rows of a task: three seeds, a hundredth apart, around each mean."""
    return [
        {"row": "task", "family": family, "task": task, "kind": kind, "method": method, "num_labels": num_labels,
         "metric": "accuracy", "values": [mean - 0.01, mean, mean + 0.01]}
        for family, mean in means.items()
    ]  # fmt: skip


def metrics(suite, name="set", scale=None, standard_error=0.01, **values):
    better = "lower" if suite == "likelihood" else "higher"
    return [
        {"row": "metric", "family": family, "suite": suite, "name": name, "value": value,
         "standard_error": standard_error, "count": 400, "better": better} | ({"scale": scale} if scale else {})
        for family, value in values.items()
    ]  # fmt: skip


def view(rows, tasks=(TASK,), **changes):
    return group_rows([comparison_row(families=[], tasks=[*tasks], **changes), *families(*CONTEXTS), *rows])


def decisions(rows, tasks=(TASK,), **changes):
    """The decisions for all uses with evidence, by use."""
    return {one.use.key: one for one in decide_all(view(rows, tasks, **changes)) if one.measurements}


@pytest.mark.parametrize(
    ("means", "family", "tied", "significant"),
    [
        ({"onehot": 0.5, "svd": 0.6, "bert": 0.8}, "bert", ["bert"], True),
        ({"onehot": 0.5, "svd": 0.8, "bert": 0.6}, "svd", ["svd"], True),  # context does not help
        ({"bert": 0.80, "elmo": 0.81}, "bert", ["bert", "elmo"], False),  # tied, and cheaper
        ({"svd": 0.80, "bert": 0.81, "elmo": 0.815}, "svd", ["svd", "bert", "elmo"], False),
        ({"svd": 0.75, "bert": 0.81, "elmo": 0.815}, "bert", ["bert", "elmo"], False),  # context is required
        ({"onehot": 0.31, "svd": 0.30, "bert": 0.31}, None, [], False),  # at the majority baseline
        ({"onehot": 0.36, "bert": 0.38}, "bert", ["bert"], False),  # not significant, but one is at the baseline
        ({"onehot": 0.31, "bert": 0.36}, None, [], False),  # above it, but no family has learned the task
        ({"bert": 0.8}, "bert", ["bert"], False),
    ],
)
def test_the_best_family_of_a_task_is_recommended(means, family, tied, significant):
    results = view(scores(**means))
    decision = decisions(scores(**means))["classification"]
    assert (decision.family, [*decision.tied], decision.significant) == (family, tied, significant)
    assert explain(decision, results)


def test_ties_at_similar_speed_are_broken_by_size_and_then_by_score():
    def choose(**sizes):
        similar = [{"row": "family", "family": family, "context": "both", "embedding_seconds": seconds}
                   | ({"disk_bytes": sizes[family]} if sizes else {})
                   for family, seconds in {"bert": 3.0, "elmo": 3.1}.items()]  # fmt: skip
        return decisions([*scores(bert=0.80, elmo=0.81), *similar])["classification"].family

    assert choose() == "elmo"
    assert choose(bert=10, elmo=11) == "elmo"
    assert choose(bert=10, elmo=20) == "bert"
    assert choose(bert=10, elmo=-20) == "bert"  # an impossible size counts as unknown


@pytest.mark.parametrize(
    ("probed", "fine_tuned", "family"),
    [
        ({"svd": 0.6, "bert": 0.8}, {"svd": 0.90, "bert": 0.91}, "bert"),  # svd gets its context from the labels
        ({"svd": 0.6, "bert": 0.8}, {"svd": 0.91, "bert": 0.90}, "bert"),
        ({"svd": 0.8, "bert": 0.8}, {"svd": 0.90, "bert": 0.91}, "svd"),  # no context required, and cheaper
        ({"svd": 0.6, "bert": 0.8}, {"svd": 0.95, "bert": 0.85}, "svd"),  # significantly better all the same
        ({"svd": 0.6, "onehot": 0.8, "bert": 0.8}, {"svd": 0.90, "onehot": 0.8, "bert": 0.91}, "svd"),
    ],
)
def test_static_families_whose_context_comes_from_labels_are_ruled_out(probed, fine_tuned, family):
    rows = scores(**probed) + scores(method="fine_tuning", **fine_tuned)
    decision = decisions(rows)["classification"]
    assert decision.family == family and not decision.context_required
    assert bool(decision.context_from_labels) == (family == "bert")
    assert ("linear probes" in explain(decision, view(rows))) == (family == "bert")


def test_families_without_probes_do_not_count_as_evidence_for_context():
    rows = scores(svd=0.6, bert=0.8) + scores(method="fine_tuning", svd=0.90, skipgram=0.90, bert=0.91)
    assert decisions(rows)["classification"].family == "bert"


def test_context_required_by_one_of_two_tasks():
    """Whether a static family is better all the same is decided on the mean of both."""
    tasks = [TASK, TASK | {"name": "places"}]
    rows = scores(svd=0.6, bert=0.7) + scores("places", svd=0.8, bert=0.8)
    method = {"method": "fine_tuning"}
    better = scores(**method, svd=0.8, bert=0.7) + scores("places", **method, svd=0.81, bert=0.81)
    assert decisions(rows + better, tasks)["classification"].family == "svd"
    level = scores(**method, svd=0.71, bert=0.7) + scores("places", **method, svd=0.81, bert=0.81)
    assert decisions(rows + level, tasks)["classification"].family == "bert"


def test_static_families_do_not_win_for_lack_of_measurements():
    """The family that beats them was not evaluated on every task of the use."""
    tasks = [TASK, TASK | {"name": "places"}]
    rows = scores(svd=0.5, onehot=0.4, bert=0.8) + scores("places", svd=0.6, onehot=0.5)
    assert decisions(rows, tasks)["classification"].family == "bert"


def test_tied_families_are_not_significantly_worse_in_any_part():
    """Here the difference of the means is not significant because one part has a large standard error."""
    tasks = [TASK | {"test": 50}, TASK | {"name": "places", "test": 5000}]
    rows = scores(gpt2=0.70, bert=0.80) + scores("places", gpt2=0.60, bert=0.66)
    decision = decisions(rows, tasks)["classification"]
    assert not decision.overall.significantly_better("bert", "gpt2")
    assert decision.family == "bert" and decision.tied == ["bert"]
    assert "but significantly worse on places" in explain(decision, view(rows, tasks))


def test_decisions_do_not_depend_on_the_order_of_rows():
    rows = scores(svd=0.80, bert=0.81, elmo=0.815) + scores(num_labels=50, svd=0.5, bert=0.4, elmo=0.4)
    first = decisions(rows)["classification"]
    random.Random(0).shuffle(rows)
    again = decisions(rows)["classification"]
    assert again.family == first.family == "svd" and again.runner_up == first.runner_up
    assert set(again.tied) == set(first.tied)


def test_later_rows_replace_earlier_ones():
    assert decisions(scores(bert=0.9, svd=0.5) + scores(bert=0.4))["classification"].family == "svd"


def test_the_largest_number_of_labels_decides_and_the_smallest_is_reported():
    rows = scores(svd=0.6, bert=0.8) + scores(num_labels=50, svd=0.55, bert=0.4)
    decision = decisions(rows)["classification"]
    assert decision.family == "bert" and decision.overall.num_labels == 1000
    assert decision.few_labels.family == "svd" and "SVD (0.550" in explain(decision, view(rows))
    rows = scores(svd=0.5, bert=0.8) + scores(num_labels=50, svd=0.4, bert=0.6)
    assert decisions(rows)["classification"].few_labels.family == "bert"
    assert decisions(scores(svd=0.6))["classification"].few_labels is None


def test_the_better_method_counts():
    decision = decisions(scores(bert=0.6, svd=0.7) + scores(bert=0.8, method="fine_tuning"))["classification"]
    assert decision.family == "bert" and decision.score.method == "fine_tuning"


def test_standard_errors_combine_seeds_and_the_size_of_the_test_set():
    def standard_error(values, test):
        row = {"row": "task", "family": "bert", "task": "topics", "num_labels": 9, "metric": "accuracy"}
        results = group_rows([comparison_row(tasks=[TASK | {"test": test}]), row | {"values": values}])
        return next(task_measurements(results)).scores["bert"].standard_error

    assert standard_error([0.5, 0.5, 0.5], 100) == pytest.approx(0.05, abs=1e-3)
    assert standard_error([0.4, 0.5, 0.6], 100) == pytest.approx((0.05**2 + 0.1**2 / 3) ** 0.5, abs=1e-3)
    assert standard_error([0.4, 0.5, 0.6], None) == pytest.approx(0.1 / 3**0.5)
    assert standard_error([0.5], None) is None
    assert standard_error([1.0, 1.0], 100) > 0  # a perfect score is not certain
    assert sampling_error("spearman", 0.6, 101) == pytest.approx(0.064)


def test_static_families_are_ruled_out_if_any_task_of_the_use_requires_context():
    tasks = [TASK, TASK | {"name": "places"}]
    rows = scores(svd=0.95, bert=0.60) + scores("places", svd=0.60, bert=0.72)
    decision = decisions(rows, tasks)["classification"]
    assert decision.overall.scores["svd"].value > decision.overall.scores["bert"].value
    assert decision.family == "bert" and "svd" in decision.worse_without_context
    assert "SVD is better on average, but its vectors ignore context" in explain(decision, view(rows, tasks))


def test_the_mean_over_the_tasks_of_a_use_decides():
    tasks = [TASK, TASK | {"name": "places"}]
    rows = scores(bert=0.70, elmo=0.78) + scores("places", bert=0.85, elmo=0.60)
    decision = decisions(rows, tasks)["classification"]
    assert decision.family == "bert" and decision.score.value == pytest.approx(0.775)


def test_tasks_at_the_baseline_are_left_out_of_the_mean_and_reported():
    tasks = [TASK, TASK | {"name": "hard"}]
    rows = scores(bert=0.8, svd=0.5) + scores("hard", bert=0.3, svd=0.31)
    decision = decisions(rows, tasks)["classification"]
    assert decision.family == "bert" and decision.score.value == pytest.approx(0.8)
    assert [one.name for one in decision.at_baseline] == ["hard"]
    assert "No family is clearly above the baseline on hard: SVD 0.310 ±" in explain(decision, view(rows, tasks))


def test_word_senses_are_for_contextual_families_if_any_is_above_the_baseline():
    rows = metrics("senses", standard_error=0.03, svd=0.5, bert=0.54, elmo=0.55)
    assert decisions(rows)["senses"].family is None  # 0.55 is not significantly above chance
    # Here the static family would be the cheapest of the tied ones.
    rows = metrics("senses", standard_error=0.03, svd=0.55, bert=0.62, elmo=0.63)
    rows += metrics("senses", standard_error=0.03, onehot=0.45)
    assert decisions(rows)["senses"].family == "bert"


def test_word_senses_of_static_families_only():
    rows = metrics("senses", svd=0.5, onehot=0.5)
    decision = decisions(rows)["senses"]
    assert decision.family is None and "No family is clearly above the baseline" in explain(decision, view(rows))


def test_likelihoods_on_different_scales_are_never_compared():
    rows = metrics("likelihood", scale="causal", gpt2=2.5)
    rows += metrics("likelihood", scale="masked", bert=1.2) + metrics("likelihood", scale="bidirectional", elmo=2.0)
    found = decisions(rows)
    assert found["generation"].family == "gpt2" and found["generation"].runner_up is None
    assert [one.metric for one in found["generation"].other_scales] == ["bidirectional"]
    assert "not comparable: ELMo" in explain(found["generation"], view(rows))
    assert found["masked_prediction"].family == "bert" and found["masked_prediction"].runner_up is None
    found = decisions(metrics("likelihood", scale="bidirectional", elmo=2.0))
    assert found["generation"].family == "elmo" and "masked_prediction" not in found


def test_lower_bits_per_character_are_better():
    decision = decisions(metrics("likelihood", scale="causal", gpt2=2.5, bert=2.3, elmo=2.9))["generation"]
    assert decision.family == "bert" and decision.significant and decision.runner_up == "gpt2"


def test_lower_cased_text_is_a_scale_of_its_own():
    rows = metrics("likelihood", "test text", "masked", bert=2.5, elmo=2.4)
    rows += metrics("likelihood", "test text, uncased", "masked", gpt2=1.0)
    decision = decisions(rows)["masked_prediction"]
    assert decision.family == "elmo" and [[*one.scores] for one in decision.other_scales] == [["gpt2"]]
    assert "GPT-2" in explain(decision, view(rows)) and "uncased" in explain(decision, view(rows))


def test_families_with_low_vocabulary_coverage_are_excluded():
    rows = metrics("words", "simlex", svd=0.2, skipgram=0.3)
    rows += [row | {"count": 20} for row in metrics("words", "simlex", bert=0.9)]
    decision = decisions(rows)["similarity"]
    assert decision.family == "skipgram" and decision.measurements[0].excluded == ["bert"]
    assert f"({LOW_COVERAGE}): BERT on simlex" in explain(decision, view(rows))


def test_families_without_time_for_a_task_are_excluded():
    rows = scores(bert=0.8, svd=0.5, onehot=0.5, elmo=0.5, skipgram=0.5)
    (measurement,) = decisions(rows)["classification"].measurements
    assert measurement.excluded == ["gpt2"] and measurement.why_excluded == NO_TIME
    failed = [{"row": "failure", "family": "gpt2", "stage": "topics, fine-tuning", "message": "no"}]
    assert not decisions(rows + failed)["classification"].measurements[0].excluded


def test_exclusions_from_several_data_sets_are_reported_once():
    rows = [
        row | ({"count": 20} if row["family"] == "bert" else {})
        for name in ("simlex", "men", "rg")
        for row in metrics("words", name, svd=0.2, bert=0.9)
    ]
    text = explain(decisions(rows)["similarity"], view(rows))
    assert text.count("Left out") == 1 and "BERT on men, rg and simlex" in text


def test_without_standard_errors_the_best_family_is_recommended_with_a_warning():
    rows = [{"row": "task", "family": family, "task": "new", "kind": "tag", "num_labels": 5, "values": [value]}
            for family, value in {"svd": 0.5, "bert": 0.6}.items()]  # fmt: skip
    decision = decisions(rows, [])["sequence_labelling"]
    assert decision.family == "bert" and "Standard errors are unknown" in explain(decision, view(rows, []))


def test_summary_and_limitations():
    advice = recommend(group_rows(synthetic_rows()))
    start = "With 2.1M words of your text and 5 minutes of training per family, use skip-gram for semantic search"
    assert advice.summary.startswith(start) and "BERT (small) for" in advice.summary
    assert "sequence labelling" in advice.summary and advice.summary.endswith("GPT-2 (small) for text generation.")
    assert advice.summary.count(". ") == 0 and "not significant" in advice.confidence
    limits = " ".join(advice.limitations)
    assert "trained once" in limits and "CoVe failed: no pairs" in limits and "different scales" in limits
    assert "Nothing is recommended for question answering: no family is clearly above the baseline." in limits


def test_nothing_is_recommended_for_a_task_that_no_family_has_learned():
    names = {"name": "names", "kind": "tag", "metric": "f1", "test": 1000}
    rows = [*scores(svd=0.8, bert=0.6), *scores(task="names", kind="tag", svd=0.02, bert=0.05)]
    results = group_rows([comparison_row(families=[], tasks=[TASK, names]), *families("svd", "bert"), *rows])
    advice = recommend(results)
    assert "SVD for text classification" in advice.summary and "labelling" not in advice.summary
    assert any("Nothing is recommended for sequence labelling" in limit for limit in advice.limitations)
    (decision,) = (one for one in advice.decisions if one.use.key == "sequence_labelling")
    assert decision.family is None and "on names: BERT 0.050 ±" in explain(decision, results)
    (line,) = (line for line in write_markdown(results, advice).splitlines() if line.startswith("| Sequence labelling"))
    assert line.startswith("| Sequence labelling | none | ") and "BERT 0.050" in line
    assert draw_page(results, advice).count('class="family none"') == 1
    head = [comparison_row(families=[], tasks=[TASK, names]), *families("svd", "bert")]
    assert "no family is clearly better" in recommend(group_rows([*head, *rows[2:]])).summary


def answers(number, score, harder=0.0):
    """Outcomes of test items of increasing difficulty, of which a share is answered; the first ones are too hard."""
    order = random.Random(0).sample(range(number), number)
    correct = [0] * number
    for item in order[round(harder * number) :][: round(score * number)]:
        correct[item] = 1
    return correct


def outcome_rows(task="topics", **outcomes):
    rows = scores(task, **{family: sum(items) / len(items) for family, items in outcomes.items()})
    return [row | {"values": row["values"][1:2], "outcomes": outcomes[row["family"]]} for row in rows]


def test_families_are_compared_on_the_same_items():
    """Of 300 questions, skip-gram answers all those of SVD and 20 more."""
    tasks = [TASK | {"test": 300}]
    svd, skipgram = answers(300, 0.747), answers(300, 0.813)
    rows = outcome_rows(svd=svd, skipgram=skipgram)
    unpaired = [{name: value for name, value in row.items() if name != "outcomes"} for row in rows]
    assert decisions(unpaired, tasks)["classification"].family == "svd"  # "not significant", and cheaper
    decision = decisions(rows, tasks)["classification"]
    assert decision.family == "skipgram" and decision.significant and [*decision.tied] == ["skipgram"]
    n = 300
    difference = [one - other for one, other in zip(skipgram, svd, strict=True)]
    assert decision.margin == pytest.approx(2 * statistics.stdev(difference) / n**0.5)


def test_families_that_answer_different_items_may_be_tied():
    tasks = [TASK | {"test": 300}]
    rows = outcome_rows(svd=answers(300, 0.747), skipgram=answers(300, 0.8, harder=0.2))
    decision = decisions(rows, tasks)["classification"]
    assert decision.family == "svd" and [*decision.tied] == ["svd", "skipgram"]


def test_paired_errors_of_the_mean_of_tasks_and_of_seeds():
    tasks = [TASK | {"test": 300}, TASK | {"name": "places", "test": 300}]
    bert, elmo = answers(300, 0.70), answers(300, 0.78)
    one = outcome_rows(bert=bert, elmo=elmo)
    deviation = statistics.stdev([first - second for first, second in zip(elmo, bert, strict=True)]) / 300**0.5
    decision = decisions(one + outcome_rows("places", bert=bert, elmo=elmo), tasks)["classification"]
    error = decision.overall.standard_error_of_difference("elmo", "bert")
    assert error == pytest.approx(deviation / 2**0.5, rel=1e-3)
    seeds = {"bert": [0.69, 0.70, 0.71], "elmo": [0.77, 0.78, 0.79]}  # each seed is as good or bad for both
    several = [row | {"values": seeds[row["family"]]} for row in one]
    error = decisions(several, tasks)["classification"].overall.standard_error_of_difference("elmo", "bert")
    assert error == pytest.approx(deviation, rel=1e-3)
    seeds["bert"].reverse()
    several = [row | {"values": seeds[row["family"]]} for row in one]
    error = decisions(several, tasks)["classification"].overall.standard_error_of_difference("elmo", "bert")
    assert error == pytest.approx(math.hypot(deviation, 0.02 / 3**0.5), rel=1e-3)


def test_items_without_a_score_are_independent_of_those_of_other_families():
    """Word pairs that only one vocabulary has."""
    outcomes = {"svd": [0.2, 0.4, 0.9, None], "skipgram": [None, 0.5, 0.8, 0.1]}
    rows = metrics("words", svd=0.5, skipgram=0.47)
    rows = [row | {"outcomes": outcomes[row["family"]]} for row in rows]
    (measurement,) = suite_measurements(view(rows))
    shares = [[(value - 0.5) / 3 for value in (0.2, 0.4, 0.9)], [(value - 1.4 / 3) / 3 for value in (0.5, 0.8, 0.1)]]
    squares = [
        shares[0][0] ** 2,
        (shares[0][1] - shares[1][0]) ** 2,
        (shares[0][2] - shares[1][1]) ** 2,
        shares[1][2] ** 2,
    ]
    error = measurement.standard_error_of_difference("svd", "skipgram")
    assert error == pytest.approx((sum(squares) * 4 / 3) ** 0.5)


@pytest.mark.parametrize("outcomes", [[], [1], [1, 0, 1], [None] * 4])
def test_outcomes_that_cannot_be_paired(outcomes):
    rows = metrics("words", svd=0.5, skipgram=0.4)
    rows = [row | {"outcomes": [1, 0, 0, 1] if row["family"] == "svd" else outcomes} for row in rows]
    (measurement,) = suite_measurements(view(rows))
    assert math.isfinite(measurement.standard_error_of_difference("svd", "skipgram"))


def test_failures_are_forgotten_once_a_family_is_trained():
    rows = [comparison_row(), {"row": "failure", "family": "bert", "stage": "training", "message": "no disk"}]
    assert any("BERT failed: no disk" in limit for limit in recommend(group_rows(rows)).limitations)
    limits = recommend(group_rows([*rows, *families("bert")])).limitations
    assert not any("failed" in limit for limit in limits) and any("Not finished yet" in limit for limit in limits)


@pytest.mark.parametrize("rows", [[], [comparison_row()], [{"row": "comparison"}], families("bert")])
def test_nothing_evaluated_yet(rows):
    advice = recommend(group_rows(rows))
    assert "othing has been evaluated yet" in advice.summary and advice.decisions == []
    assert advice.limitations[-1].startswith("Not evaluated: semantic search, ")
