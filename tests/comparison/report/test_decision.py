"""Recommended options for synthetic results with an obvious best choice."""

import random
import statistics

import pytest
from tests.comparison.synthetic_results import comparison_row, synthetic_rows

from polyseme.comparison.report.decision import decide_all
from polyseme.comparison.report.markdown import write_markdown
from polyseme.comparison.report.measurements import (
    LOW_COVERAGE,
    NO_TIME,
    sampling_error,
    suite_measurements,
    task_measurements,
)
from polyseme.comparison.report.page import draw_page
from polyseme.comparison.report.results_view import group_rows
from polyseme.comparison.report.scores import Option
from polyseme.comparison.report.sentences import (
    describe_cost,
    describe_datasets,
    explain,
    recommend,
    what_would_change,
)

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
        ({"onehot": 0.5, "svd": 0.8, "bert": 0.6}, "svd", ["svd"], True),
        ({"bert": 0.80, "elmo": 0.81}, "bert", ["bert", "elmo"], False),  # tied, and cheaper
        ({"svd": 0.80, "bert": 0.81, "elmo": 0.815}, "svd", ["svd", "bert", "elmo"], False),
        ({"svd": 0.75, "bert": 0.81, "elmo": 0.815}, "bert", ["bert", "elmo"], False),
        ({"onehot": 0.31, "svd": 0.30, "bert": 0.31}, None, [], False),  # at the majority baseline
        ({"onehot": 0.36, "bert": 0.38}, "bert", ["bert"], False),  # not significant, but one is at the baseline
        ({"onehot": 0.31, "bert": 0.36}, None, [], False),  # above it, but no family has learned the task
        ({"bert": 0.8}, "bert", ["bert"], False),
    ],
)
def test_the_best_family_of_a_task_is_recommended(means, family, tied, significant):
    results = view(scores(**means))
    decision = decisions(scores(**means))["classification"]
    names = [option.family for option in decision.tied]
    assert (decision.family, names, decision.significant) == (family, tied, significant)
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


def test_tied_families_are_not_significantly_worse_in_any_part():
    """Here the difference of the means is not significant because one part has a large standard error."""
    tasks = [TASK | {"test": 50}, TASK | {"name": "places", "test": 5000}]
    rows = scores(gpt2=0.70, bert=0.80) + scores("places", gpt2=0.60, bert=0.66)
    decision = decisions(rows, tasks)["classification"]
    bert, gpt2 = (Option(family, "linear_probe") for family in ("bert", "gpt2"))
    assert not decision.overall.significantly_better(bert, gpt2)
    assert decision.family == "bert" and decision.tied == [bert]
    assert "significantly better on places" in explain(decision, view(rows, tasks))


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
    assert decision.few_labels.family == "svd" and "prefer SVD (linear probe), 0.550" in explain(decision, view(rows))
    rows = scores(svd=0.5, bert=0.8) + scores(num_labels=50, svd=0.4, bert=0.6)
    assert decisions(rows)["classification"].few_labels.family == "bert"
    assert decisions(scores(svd=0.6))["classification"].few_labels is None


def test_the_better_method_counts():
    decision = decisions(scores(bert=0.6, svd=0.7) + scores(bert=0.8, method="fine_tuning"))["classification"]
    assert decision.family == "bert" and decision.option.method == "fine_tuning"


def test_standard_errors_combine_seeds_and_the_size_of_the_test_set():
    def standard_error(values, test):
        row = {"row": "task", "family": "bert", "task": "topics", "num_labels": 9, "metric": "accuracy"}
        results = group_rows([comparison_row(tasks=[TASK | {"test": test}]), row | {"values": values}])
        return next(task_measurements(results)).scores[Option("bert")].standard_error

    assert standard_error([0.5, 0.5, 0.5], 100) == pytest.approx(0.05, abs=1e-3)
    assert standard_error([0.4, 0.5, 0.6], 100) == pytest.approx((0.05**2 + 0.1**2 / 3) ** 0.5, abs=1e-3)
    assert standard_error([0.4, 0.5, 0.6], None) == pytest.approx(0.1 / 3**0.5)
    assert standard_error([0.5], None) is None
    assert standard_error([1.0, 1.0], 100) > 0  # a perfect score is not certain
    assert sampling_error("spearman", 0.6, 101) == pytest.approx(0.064)


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
    assert "Nothing is clearly above the baseline on hard: SVD (linear probe) 0.310 ±" in explain(
        decision, view(rows, tasks)
    )


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
    assert decision.family is None and "Nothing is clearly above the baseline" in explain(decision, view(rows))


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
    assert decision.family == "bert" and decision.significant and decision.runner_up == Option("gpt2")


def test_lower_cased_text_is_a_scale_of_its_own():
    rows = metrics("likelihood", "test text", "masked", bert=2.5, elmo=2.4)
    rows += metrics("likelihood", "test text, uncased", "masked", gpt2=1.0)
    decision = decisions(rows)["masked_prediction"]
    assert decision.family == "elmo" and [[*one.scores] for one in decision.other_scales] == [[Option("gpt2")]]
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
    start = "With 2.1M words of your text and 5 minutes of training per family, use one-hot for semantic similarity"
    assert advice.summary.startswith(start) and "BERT (small) for" in advice.summary
    assert "sequence labelling" in advice.summary and advice.summary.endswith("GPT-2 (small) for text generation.")
    assert advice.summary.count(". ") == 0 and "statistically tied" in advice.confidence
    limits = " ".join(advice.limitations)
    assert "trained once" in limits and "CoVe failed: no pairs" in limits and "different scales" in limits
    assert "Nothing is recommended for question answering: no option is clearly above the baseline." in limits


def test_nothing_is_recommended_for_a_task_that_no_family_has_learned():
    names = {"name": "names", "kind": "tag", "metric": "f1", "test": 1000}
    rows = [*scores(svd=0.8, bert=0.6), *scores(task="names", kind="tag", svd=0.02, bert=0.05)]
    results = group_rows([comparison_row(families=[], tasks=[TASK, names]), *families("svd", "bert"), *rows])
    advice = recommend(results)
    assert "SVD for text classification" in advice.summary and "labelling" not in advice.summary
    assert any("Nothing is recommended for sequence labelling" in limit for limit in advice.limitations)
    (decision,) = (one for one in advice.decisions if one.use.key == "sequence_labelling")
    assert decision.family is None and "on names: BERT (linear probe) 0.050 ±" in explain(decision, results)
    (line,) = (line for line in write_markdown(results, advice).splitlines() if line.startswith("| Sequence labelling"))
    assert line.startswith("| Sequence labelling | none | ") and "BERT (linear probe) 0.050" in line
    assert draw_page(results, advice).count('class="family none"') == 1
    head = [comparison_row(families=[], tasks=[TASK, names]), *families("svd", "bert")]
    assert "nothing is clearly better" in recommend(group_rows([*head, *rows[2:]])).summary


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


@pytest.mark.parametrize("outcomes", [[], [1], [1, 0, 1], [None] * 4])
def test_outcomes_that_cannot_be_paired(outcomes):
    rows = metrics("words", svd=0.5, skipgram=0.4)
    rows = [row | {"outcomes": [1, 0, 0, 1] if row["family"] == "svd" else outcomes} for row in rows]
    (measurement,) = suite_measurements(view(rows))
    assert 0.01 < measurement.deviations(Option("svd"), Option("skipgram")).std() < 1


def test_failures_are_forgotten_once_a_family_is_trained():
    rows = [comparison_row(), {"row": "failure", "family": "bert", "stage": "training", "message": "no disk"}]
    assert any("BERT failed: no disk" in limit for limit in recommend(group_rows(rows)).limitations)
    limits = recommend(group_rows([*rows, *families("bert")])).limitations
    assert not any("failed" in limit for limit in limits) and any("Not finished yet" in limit for limit in limits)


@pytest.mark.parametrize("rows", [[], [comparison_row()], [{"row": "comparison"}], families("bert")])
def test_nothing_evaluated_yet(rows):
    advice = recommend(group_rows(rows))
    assert "othing has been evaluated yet" in advice.summary and advice.decisions == []
    assert advice.limitations[-1].startswith("Not evaluated: semantic similarity, search, ")


def test_outcomes_pair_the_test_items():
    """Of 300 questions, skip-gram answers all those of SVD and 20 more: without the outcomes, not significant."""
    tasks = [TASK | {"test": 300}]
    rows = outcome_rows(svd=answers(300, 0.747), skipgram=answers(300, 0.813))
    unpaired = [{name: value for name, value in row.items() if name != "outcomes"} for row in rows]
    assert decisions(unpaired, tasks)["classification"].family == "svd"
    decision = decisions(rows, tasks)["classification"]
    assert decision.family == "skipgram" and decision.significant and len(decision.tied) == 1
    others = outcome_rows(svd=answers(300, 0.747), skipgram=answers(300, 0.8, harder=0.2))
    decision = decisions(others, tasks)["classification"]
    assert decision.family == "svd" and len(decision.tied) == 2


def test_the_mean_of_several_tasks_is_tested_on_the_items_of_all():
    tasks = [TASK | {"test": 300}, TASK | {"name": "places", "test": 300}]
    bert, elmo = answers(300, 0.70), answers(300, 0.78)
    both = outcome_rows(bert=bert, elmo=elmo) + outcome_rows("places", bert=bert, elmo=elmo)
    decision = decisions(both, tasks)["classification"]
    first, second = (Option(family, "linear_probe") for family in ("elmo", "bert"))
    deviation = statistics.stdev([one - other for one, other in zip(elmo, bert, strict=True)]) / 300**0.5
    assert decision.overall.deviations(first, second).std() == pytest.approx(deviation / 2**0.5, rel=0.1)
    (one,) = (one for one in decision.measurements if one.name == "places")
    assert one.deviations(first, second).std() == pytest.approx(deviation, rel=0.1)


# Baselines.


def test_a_baseline_is_recommended_unless_a_family_is_significantly_better():
    rows = scores(tfidf=0.79, skipgram=0.80, bert=0.81)
    decision = decisions(rows)["classification"]
    assert decision.family == "tfidf" and not decision.significant
    assert "TF-IDF is a baseline" in explain(decision, view(rows))
    assert "no pretrained family is significantly better than a baseline" in recommend(view(rows)).confidence
    rows = scores(tfidf=0.70, skipgram=0.80, bert=0.81)
    decision = decisions(rows)["classification"]
    assert decision.family == "skipgram" and decision.baseline == Option("tfidf", "linear_probe")
    assert "Significantly better than TF-IDF, by 0.100 (95 % interval" in explain(decision, view(rows))
    assert "33% fewer errors" in explain(decision, view(rows))


def test_uses_with_a_baseline_are_decided_where_it_takes_part():
    """Word similarity has none, so a labelled dataset decides alone."""
    sick = {"name": "sick", "kind": "similarity", "metric": "spearman", "test": 1000}
    rows = scores("sick", "similarity", tfidf=0.6, svd=0.75) + metrics("words", skipgram=0.7, svd=0.2)
    decision = decisions(rows, [sick])["similarity"]
    assert decision.family == "svd" and [one.name for one in decision.measurements] == ["sick"]


def test_search_is_decided_by_ndcg_against_bm25():
    rows = metrics("retrieval", "passages", "recall@100", bm25=0.5, bert=0.9)
    rows += metrics("retrieval", "passages", "nDCG@10", bm25=0.6, tfidf=0.55, bert=0.4, svd=0.5)
    decision = decisions(rows)["search"]
    assert decision.family == "bm25" and [one.metric for one in decision.measurements] == ["nDCG@10"]


def test_a_cost_is_named_with_each_recommendation():
    rows = scores(bert=0.9, svd=0.5)
    assert describe_cost(decisions(rows)["classification"], view(rows)) == "3 s per 1,000 texts"
    measured = [row | {"inference_seconds": 0.02} for row in scores(tfidf=0.9, svd=0.5)]
    assert describe_cost(decisions(measured)["classification"], view(measured)) == "20 ms per 1,000 texts"


# Methods and convergence.


def test_the_simplest_method_of_equally_expensive_ones_is_recommended():
    tfidf = scores(method="linear_probe_with_tfidf", bert=0.81)
    rows = scores(bert=0.80) + tfidf + scores(method="fine_tuning", bert=0.82)
    assert decisions(rows)["classification"].option == Option("bert", "linear_probe")
    rows = scores(bert=0.70) + tfidf + scores(method="fine_tuning", bert=0.82)
    assert decisions(rows)["classification"].option == Option("bert", "linear_probe_with_tfidf")


def test_unconverged_fine_tuning_is_shown_and_not_recommended():
    tuned = [row | {"converged": False, "steps": 40} for row in scores(method="fine_tuning", bert=0.95)]
    rows = scores(bert=0.70, svd=0.60) + tuned
    decision, results = decisions(rows)["classification"], view(rows)
    assert decision.option == Option("bert", "linear_probe")
    assert "longer fine-tuning, as BERT (fine-tuned) did not converge" in what_would_change(decision)
    assert any("1 of 1 fine-tuned scores did not converge" in limit for limit in recommend(results).limitations)
    alone = scores(svd=0.60) + tuned
    assert decisions(alone)["classification"].family == "svd"
    markdown = write_markdown(view(alone), recommend(view(alone)))
    assert "0.950 ± 0.009 \\*" in markdown


# What would change the answer.


def test_a_steeper_label_curve_is_a_reason_for_more_labels():
    rows = scores(tfidf=0.80, bert=0.79) + scores(num_labels=300, tfidf=0.78, bert=0.60)
    rows += scores(num_labels=50, tfidf=0.70, bert=0.5)
    text = what_would_change(decisions(rows)["classification"])
    assert "more labels, as BERT (linear probe) gained 0.170" in text and "from 300 to 1,000 labels" in text
    assert "fewer labels" not in text
    flat = scores(tfidf=0.80, bert=0.79) + scores(num_labels=300, tfidf=0.78, bert=0.78)
    assert what_would_change(decisions(flat)["classification"]) == (
        "Nothing in the label curves suggests that this would change."
    )
    far = scores(tfidf=0.80, onehot=0.40) + scores(num_labels=300, tfidf=0.80, onehot=0.30)
    assert "more labels" not in what_would_change(decisions(far)["classification"])


def test_another_option_may_be_better_with_fewer_labels():
    rows = scores(tfidf=0.80, bert=0.81) + scores(num_labels=50, tfidf=0.50, bert=0.70)
    text = what_would_change(decisions(rows)["classification"])
    assert "fewer labels, as BERT (linear probe) is better than TF-IDF by 0.200" in text and "with 50" in text


@pytest.mark.parametrize(
    ("last", "epochs", "expected"),
    [(1.8, 0.4, "longer pretraining, as the dev loss still fell"), (1.999, 9.0, "more text, as"), (1.999, 0.4, "")],
)
def test_dev_losses_suggest_a_larger_budget_or_more_text(last, epochs, expected):
    points = [
        {"processor_seconds": second, "tokens": second, "bits_per_character": bits, "scale": "causal"}
        for second, bits in ((10, 3.0), (80, 2.0), (100, last))
    ]
    rows = [*families("gpt2", epochs=epochs), {"row": "learning_curve", "family": "gpt2", "points": points}]
    decision = decisions([*metrics("likelihood", scale="causal", gpt2=2.0, ulmfit=2.5), *rows])["generation"]
    assert expected in what_would_change(decision) and ("What would" in what_would_change(decision)) == bool(expected)


# Several trainings.


def trainings(task="topics", **by_family):
    """Rows of a task with a score for each training."""
    return [
        row | {"training": training, "values": [value]}
        for family, values in by_family.items()
        for training, value in enumerate(values)
        for row in scores(task, **{family: value})
    ]


def test_the_variance_between_trainings_counts():
    tasks = [TASK | {"test": 100_000}]
    stable = decisions(trainings(svd=[0.70, 0.701, 0.699], bert=[0.75, 0.751, 0.749]), tasks)["classification"]
    assert stable.family == "bert" and stable.significant and stable.score.value == pytest.approx(0.75)
    varying = decisions(trainings(svd=[0.60, 0.70, 0.80], bert=[0.66, 0.76, 0.83]), tasks)["classification"]
    assert varying.family == "svd" and not varying.significant
    assert varying.score.standard_error == pytest.approx(0.1 / 3**0.5, rel=0.01)


def test_spreads_and_the_number_of_trainings_are_reported():
    results = view(trainings(svd=[0.60, 0.70, 0.80], bert=[0.66, 0.76, 0.83]))
    advice = recommend(results)
    assert any("means over 3 trainings" in limit for limit in advice.limitations)
    markdown = write_markdown(results, advice)
    assert "### Variation between trainings" in markdown and "| SVD | 0.100 |" in markdown
    assert "3 trainings from 0.600 to 0.800" in draw_page(results, advice)


def test_datasets_of_a_use_have_recommendations_of_their_own():
    tasks = [TASK, TASK | {"name": "places"}]
    rows = scores(svd=0.6, bert=0.9) + scores("places", svd=0.81, bert=0.8)
    text = describe_datasets(decisions(rows, tasks)["classification"])
    assert "topics: BERT (linear probe) 0.900" in text and "places: SVD (linear probe) 0.810" in text
