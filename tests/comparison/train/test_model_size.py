"""Model sizes and steps for a budget."""

import pytest

from polyseme.comparison.config import ComparisonConfig
from polyseme.comparison.train.model_size import count_parameters, plan_training
from polyseme.comparison.train.throughput import TrialRun
from polyseme.errors import ConfigError, DataError
from polyseme.training.recipes.recipe import Recipe


def settings(**values):
    defaults = {"corpus": ["text.txt"], "families": ["bert"], "budget": "5m", "cores": 2}
    return ComparisonConfig.parse({**defaults, **values}, group="compare")


def trial(**values):
    defaults = {"step_seconds": 0.1, "startup_seconds": 1.0, "step_tokens": 1000, "corpus_tokens": 10_000_000}
    defaults |= {"vocab_size": 8192, "parameters": 1_500_000, "non_embedding_parameters": 400_000}
    defaults |= {"max_steps": 0, "preparation_seconds": 1.0}
    return TrialRun(**{**defaults, **values})


def planned(config, trials, family="bert"):
    """The plan, and the sizes that were tried."""
    tried = []

    def trial_of(size):
        tried.append(size)
        return trials[size]

    return plan_training(family, config, trial_of, lambda size: Recipe.preset(family, size)), tried


def test_a_time_budget_is_multiplied_by_the_number_of_cores():
    assert settings().processor_seconds == 600 and settings(cores=8, budget="90s").processor_seconds == 720
    assert settings(budget="500steps").processor_seconds is None
    assert settings(cores=8, parallel=3).threads == 2


def test_steps_fill_the_budget():
    assert trial().steps_in(600) == 5990 and trial().tokens_in(600) == 5_990_000
    assert trial(max_steps=5).steps_in(600) == 5 and trial(step_seconds=1000.0).steps_in(10) == 1


def test_the_largest_size_with_enough_tokens_is_chosen():
    plan, tried = planned(settings(), {"tiny": trial(step_seconds=0.01), "small": trial()})
    assert plan.size == "small" and plan.steps == 5990 and plan.seconds == 600 and "medium" not in tried
    assert plan.reason.startswith("small: sees 6.0M tokens for 400k non-embedding parameters")
    trials = {"tiny": trial(step_seconds=0.01), "small": trial(step_seconds=1.0)}
    plan, _ = planned(settings(budget="10s"), trials)
    assert plan.size == "tiny" and "small would see" in plan.reason
    fast = {
        size: trial(step_seconds=0.001, corpus_tokens=10**9, non_embedding_parameters=n)
        for size, n in zip(("tiny", "small", "medium", "base"), (10**5, 10**6, 10**7, 10**8), strict=True)
    }
    assert planned(settings(), fast)[0].size == "base"


def test_static_embeddings_need_more_tokens_and_repetition_counts_up_to_a_limit():
    static = {"non_embedding_parameters": 0, "step_seconds": 0.001, "vocab_size": 20_000}
    trials = {
        "tiny": trial(**static, parameters=500_000),
        "small": trial(**static, parameters=2_000_000, corpus_tokens=1_400_000),
    }
    assert planned(settings(), trials, "skipgram")[0].size == "tiny"  # 16 × 1.4M tokens < 12 × 2M parameters
    trials["small"] = trial(**static, parameters=2_000_000, corpus_tokens=1_600_000)
    assert planned(settings(), trials, "skipgram")[0].size == "small"


def test_requested_sizes():
    assert planned(settings(size="medium"), {"medium": trial()})[0].size == "medium"
    assert planned(settings(params="2M"), {"small": trial()})[0].size == "small"
    assert planned(settings(budget="40steps"), {})[0].steps == 0
    assert count_parameters(Recipe.preset("bert", "small")) > 10**6
    with pytest.raises(ConfigError, match="500k or 2M"):
        settings(params="many").check()


def test_a_corpus_too_small_for_the_budget_is_an_error():
    trials = {"small": trial(corpus_tokens=10_000), "tiny": trial(corpus_tokens=10_000)}
    with pytest.raises(DataError, match=r"599 passes over the corpus in 5m.*a budget of at most 200s"):
        planned(settings(), trials)
