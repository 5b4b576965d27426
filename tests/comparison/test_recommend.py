"""Which family is recommended, for tables of rows of which anybody would say the same."""

import random

import pytest
from made_up_results import comparison_row, made_up_rows

from polyseme.comparison.recommend import recommend
from polyseme.comparison.report_rows import gather
from polyseme.comparison.report_scores import measure_tasks, sampling_error

CONTEXTS = {"onehot": "none", "svd": "none", "skipgram": "none", "bert": "both", "elmo": "both", "gpt2": "left"}
SECONDS = {"onehot": 0.1, "svd": 0.2, "skipgram": 0.3, "bert": 3.0, "elmo": 9.0, "gpt2": 2.0}
TASK = {"name": "topics", "kind": "classify", "metric": "accuracy", "test": 1000, "majority": 0.3}


def families(*names, **changes):
    return [
        {"row": "family", "family": name, "context": CONTEXTS[name], "embedding_seconds": SECONDS[name], **changes}
        for name in names
    ]


def scores(task="topics", kind="classify", labels=1000, method="linear", **means):
    """Rows of a task, three seeds a hundredth apart around each mean."""
    return [
        {"row": "task", "family": family, "task": task, "kind": kind, "method": method, "labels": labels,
         "metric": "accuracy", "values": [mean - 0.01, mean, mean + 0.01]}
        for family, mean in means.items()
    ]  # fmt: skip


def figures(measure, name="set", scale=None, error=0.01, **values):
    return [
        {"row": "figure", "family": family, "measure": measure, "name": name, "value": value, "error": error,
         "count": 400, "better": "lower" if measure == "likelihood" else "higher"} | ({"scale": scale} if scale else {})
        for family, value in values.items()
    ]  # fmt: skip


def chosen(rows, tasks=(TASK,), **changes):
    """What is recommended for each use that was measured."""
    found = recommend(gather([comparison_row(families=[], tasks=[*tasks], **changes), *families(*CONTEXTS), *rows]))
    return {choice.use.key: choice for choice in found.choices}


@pytest.mark.parametrize(
    ("means", "family", "equals", "beyond"),
    [
        ({"onehot": 0.5, "svd": 0.6, "bert": 0.8}, "bert", ["bert"], True),
        ({"onehot": 0.5, "svd": 0.8, "bert": 0.6}, "svd", ["svd"], True),  # context is worth nothing here
        ({"bert": 0.80, "elmo": 0.81}, "bert", ["bert", "elmo"], False),  # equal, and cheaper
        ({"svd": 0.80, "bert": 0.81, "elmo": 0.815}, "svd", ["svd", "bert", "elmo"], False),
        ({"svd": 0.75, "bert": 0.81, "elmo": 0.815}, "bert", ["bert", "elmo"], False),  # context is needed
        ({"onehot": 0.31, "svd": 0.30, "bert": 0.31}, None, [], False),  # no better than the commonest answer
        ({"onehot": 0.32, "bert": 0.36}, "bert", ["bert"], False),  # equal, but one of them has learnt nothing
        ({"bert": 0.8}, "bert", ["bert"], False),
    ],
)
def test_the_best_of_a_task(means, family, equals, beyond):
    choice = chosen(scores(**means))["classify"]
    assert (choice.family, [*choice.equals], choice.beyond_noise) == (family, equals, beyond)
    assert choice.why


def test_of_equals_that_cost_nearly_the_same_the_smaller_and_then_the_better():
    def choose(**sizes):
        near = [{"row": "family", "family": family, "context": "both", "embedding_seconds": seconds}
                | ({"disk_bytes": sizes[family]} if sizes else {})
                for family, seconds in {"bert": 3.0, "elmo": 3.1}.items()]  # fmt: skip
        return chosen([*scores(bert=0.80, elmo=0.81), *near])["classify"].family

    assert choose() == "elmo"
    assert choose(bert=10, elmo=11) == "elmo"
    assert choose(bert=10, elmo=20) == "bert"
    assert choose(bert=10, elmo=-20) == "bert"  # which cannot be


@pytest.mark.parametrize(
    ("probed", "tuned", "family"),
    [
        ({"svd": 0.6, "bert": 0.8}, {"svd": 0.90, "bert": 0.91}, "bert"),  # which svd has from the labels alone
        ({"svd": 0.6, "bert": 0.8}, {"svd": 0.91, "bert": 0.90}, "bert"),
        ({"svd": 0.8, "bert": 0.8}, {"svd": 0.90, "bert": 0.91}, "svd"),  # no context is needed, and it is cheaper
        ({"svd": 0.6, "bert": 0.8}, {"svd": 0.95, "bert": 0.85}, "svd"),  # however it comes by it
        ({"svd": 0.6, "onehot": 0.8, "bert": 0.8}, {"svd": 0.90, "onehot": 0.8, "bert": 0.91}, "svd"),
    ],
)
def test_context_that_only_a_network_above_vectors_has(probed, tuned, family):
    choice = chosen(scores(**probed) + scores(method="full", **tuned))["classify"]
    assert choice.family == family and not choice.context_needed
    assert ("linear probes show is needed" in choice.why) == (family == "bert")


def test_what_was_not_probed_says_nothing_of_context():
    rows = scores(svd=0.6, bert=0.8) + scores(method="full", svd=0.90, skipgram=0.90, bert=0.91)
    assert chosen(rows)["classify"].family == "bert"


def test_context_that_one_of_two_tasks_needs():
    """Whether what has none is better all the same is asked of both together."""
    tasks = [TASK, TASK | {"name": "places"}]
    rows = scores(svd=0.6, bert=0.7) + scores("places", svd=0.8, bert=0.8)
    better = scores(method="full", svd=0.8, bert=0.7) + scores("places", method="full", svd=0.81, bert=0.81)
    assert chosen(rows + better, tasks)["classify"].family == "svd"
    level = scores(method="full", svd=0.71, bert=0.7) + scores("places", method="full", svd=0.81, bert=0.81)
    assert chosen(rows + level, tasks)["classify"].family == "bert"


def test_a_static_family_is_not_chosen_for_want_of_measurements():
    """What beats it was not measured on every task of the use."""
    tasks = [TASK, TASK | {"name": "places"}]
    choice = chosen(scores(svd=0.5, onehot=0.4, bert=0.8) + scores("places", svd=0.6, onehot=0.5), tasks)["classify"]
    assert choice.family == "bert"


def test_an_equal_is_behind_in_no_part():
    """Here noise cannot tell the means apart, because one part has much of it."""
    tasks = [TASK | {"test": 50}, TASK | {"name": "places", "test": 5000}]
    rows = scores(gpt2=0.70, bert=0.80) + scores("places", gpt2=0.60, bert=0.66)
    choice = chosen(rows, tasks)["classify"]
    assert not choice.whole.beyond_noise("bert", "gpt2")
    assert choice.family == "bert" and choice.equals == ["bert"]
    assert choice.why == "The best mean; GPT-2 is within noise, but is behind on places."


def test_the_order_of_rows_means_nothing():
    rows = scores(svd=0.80, bert=0.81, elmo=0.815) + scores(labels=50, svd=0.5, bert=0.4, elmo=0.4)
    first = chosen(rows)["classify"]
    random.Random(0).shuffle(rows)
    assert chosen(rows)["classify"].why == first.why and first.family == "svd"


def test_the_last_of_two_rows_counts():
    assert chosen(scores(bert=0.9, svd=0.5) + scores(bert=0.4))["classify"].family == "svd"


def test_the_largest_number_of_labels_counts_and_the_fewest_are_told():
    rows = scores(svd=0.6, bert=0.8) + scores(labels=50, svd=0.55, bert=0.4)
    choice = chosen(rows)["classify"]
    assert choice.family == "bert" and choice.whole.labels == 1000
    assert "With 50 labels rather SVD, 0.550" in choice.few
    rows = scores(svd=0.5, bert=0.8) + scores(labels=50, svd=0.4, bert=0.6)
    assert "With 50 labels too: BERT" in chosen(rows)["classify"].few
    assert chosen(scores(svd=0.6))["classify"].few == ""


def test_of_methods_the_better_counts_and_is_named():
    choice = chosen(scores(bert=0.6, svd=0.7) + scores(bert=0.8, method="full"))["classify"]
    assert choice.family == "bert" and choice.score.method == "full"


def test_noise_has_seeds_and_the_size_of_the_test():
    def noise(values, test):
        row = {"row": "task", "family": "bert", "task": "topics", "labels": 9, "metric": "accuracy", "values": values}
        rows = gather([comparison_row(tasks=[TASK | {"test": test}]), row])
        return measure_tasks(rows)[0].scores["bert"].error

    assert noise([0.5, 0.5, 0.5], 100) == pytest.approx(0.05, abs=1e-3)
    assert noise([0.4, 0.5, 0.6], 100) == pytest.approx((0.05**2 + 0.1**2 / 3) ** 0.5, abs=1e-3)
    assert noise([0.4, 0.5, 0.6], None) == pytest.approx(0.1 / 3**0.5)
    assert noise([0.5], None) is None
    assert noise([1.0, 1.0], 100) > 0  # nobody is quite sure of always
    assert sampling_error("spearman", 0.6, 101) == pytest.approx(0.064)


def test_a_static_family_is_out_where_any_task_of_the_use_needs_context():
    tasks = [TASK, TASK | {"name": "places"}]
    rows = scores(svd=0.95, bert=0.60) + scores("places", svd=0.60, bert=0.72)
    choice = chosen(rows, tasks)["classify"]
    assert choice.whole.scores["svd"].value > choice.whole.scores["bert"].value
    assert choice.family == "bert" and choice.why.startswith("SVD is ahead, but sees no context, which is needed here")


def test_the_mean_of_several_tasks_counts_for_a_use():
    tasks = [TASK, TASK | {"name": "places"}]
    rows = scores(bert=0.70, elmo=0.78) + scores("places", bert=0.85, elmo=0.60)
    choice = chosen(rows, tasks)["classify"]
    assert choice.family == "bert" and choice.score.value == pytest.approx(0.775)


def test_a_task_that_none_learnt_is_left_out_of_the_mean_and_told():
    tasks = [TASK, TASK | {"name": "hard"}]
    choice = chosen(scores(bert=0.8, svd=0.5) + scores("hard", bert=0.3, svd=0.31), tasks)["classify"]
    assert choice.family == "bert" and choice.score.value == pytest.approx(0.8)
    assert any("None learnt hard" in note for note in choice.notes)


def test_senses_are_never_for_a_static_family_if_any_reads_them():
    rows = figures("senses", error=0.03, svd=0.5, bert=0.54, elmo=0.55)
    assert chosen(rows)["senses"].family is None  # 0.55 is within noise of chance
    # Here the static one would be the cheapest of equals.
    rows = figures("senses", error=0.03, svd=0.55, bert=0.62, elmo=0.63) + figures("senses", error=0.03, onehot=0.45)
    assert chosen(rows)["senses"].family == "bert"


def test_senses_of_static_families_alone():
    choice = chosen(figures("senses", svd=0.5, onehot=0.5))["senses"]
    assert choice.family is None and "None learnt it" in choice.why


def test_likelihoods_of_different_scales_are_never_compared():
    rows = figures("likelihood", scale="causal", gpt2=2.5)
    rows += figures("likelihood", scale="masked", bert=1.2) + figures("likelihood", scale="bidirectional", elmo=2.0)
    found = chosen(rows)
    assert found["writing"].family == "gpt2" and found["writing"].runner_up is None
    assert found["writing"].notes == ["Measured on another scale: ELMo (bits, both ways · set)."]
    assert found["blanks"].family == "bert" and found["blanks"].runner_up is None
    found = chosen(figures("likelihood", scale="bidirectional", elmo=2.0))
    assert found["writing"].family == "elmo" and "blanks" not in found


def test_fewer_bits_are_better():
    rows = figures("likelihood", scale="causal", gpt2=2.5, bert=2.3, elmo=2.9)
    choice = chosen(rows)["writing"]
    assert choice.family == "bert" and choice.beyond_noise and choice.runner_up == "gpt2"


def test_text_without_capitals_is_a_scale_of_its_own():
    rows = figures("likelihood", "test text", "masked", bert=2.5, elmo=2.4)
    rows += figures("likelihood", "test text, uncased", "masked", gpt2=1.0)
    choice = chosen(rows)["blanks"]
    assert choice.family == "elmo" and any("GPT-2" in note and "uncased" in note for note in choice.notes)


def test_words_that_are_not_known_are_not_compared():
    rows = figures("words", "simlex", svd=0.2, skipgram=0.3)
    rows += [row | {"count": 20} for row in figures("words", "simlex", bert=0.9)]
    choice = chosen(rows)["search"]
    assert choice.family == "skipgram" and any("BERT knows too few" in note for note in choice.notes)


def test_who_had_no_time_for_a_task_is_told():
    rows = scores(bert=0.8, svd=0.5, onehot=0.5, elmo=0.5, skipgram=0.5)
    assert [*chosen(rows)["classify"].notes] == ["GPT-2 had too little time (topics)."]
    failed = [{"row": "failure", "family": "gpt2", "stage": "topics, fine-tuned", "message": "no"}]
    assert not chosen(rows + failed)["classify"].notes


def test_what_is_left_out_of_several_sets_is_said_once():
    rows = [
        row | ({"count": 20} if row["family"] == "bert" else {})
        for name in ("simlex", "men", "rg")
        for row in figures("words", name, svd=0.2, bert=0.9)
    ]
    assert [*chosen(rows)["search"].notes] == ["BERT knows too few of its words (men, rg and simlex)."]


def test_without_errors_the_best_is_named_and_that_is_told():
    rows = [{"row": "task", "family": family, "task": "new", "kind": "tag", "labels": 5, "values": [value]}
            for family, value in {"svd": 0.5, "bert": 0.6}.items()]  # fmt: skip
    choice = chosen(rows, [])["tag"]
    assert choice.family == "bert" and "not known" in choice.why


def test_the_sentences_and_the_limits():
    found = recommend(gather(made_up_rows()))
    first, second = found.sentences
    assert first.startswith("With your 2.1M words and 5 minutes for each family: skip-gram for search; BERT small for ")
    assert "tagging" in first and first.count(". ") == 0 and first.endswith("GPT-2 small for writing on.")
    assert "are noise" in second and second.count(". ") == 0
    limits = " ".join(found.limits)
    assert "trained once" in limits and "CoVe failed: no pairs" in limits and "not compared" in limits
    assert "None learnt questions" in limits


def test_what_all_have_hardly_learnt_is_told_and_not_advised():
    names = {"name": "names", "kind": "tag", "metric": "f1", "test": 1000}
    rows = [*scores(svd=0.8, bert=0.6), *scores(task="names", kind="tag", svd=0.02, bert=0.05)]
    head = [comparison_row(families=[], tasks=[TASK, names]), *families("svd", "bert")]
    found = recommend(gather([*head, *rows]))
    assert "SVD for classifying" in found.sentences[0] and "tagging" not in found.sentences[0]
    assert any("All hardly learnt tagging: BERT has 0.05" in limit for limit in found.limits)
    poor = recommend(gather([*head, *rows[2:]]))
    assert "no family learnt much that was measured" in poor.sentences[0]


def test_a_failure_that_was_mended_is_none():
    rows = [comparison_row(), {"row": "failure", "family": "bert", "stage": "training", "message": "no disk"}]
    assert any("BERT failed: no disk" in limit for limit in recommend(gather(rows)).limits)
    limits = recommend(gather([*rows, *families("bert")])).limits
    assert not any("failed" in limit for limit in limits) and any("Not done yet" in limit for limit in limits)


@pytest.mark.parametrize("rows", [[], [comparison_row()], [{"row": "comparison"}], families("bert")])
def test_nothing_measured(rows):
    found = recommend(gather(rows))
    assert "othing has been measured yet" in found.sentences[0] and found.choices == []
    assert len(found.unmeasured) == 8
