"""Steps from processor time, paces that are remembered, sizes by a rule."""

import json

import pytest

from polyseme.comparison import pacing
from polyseme.comparison.pacing import Pace, find_marks, find_pace, keep_marks, measure, remembered
from polyseme.comparison.settings import ComparisonConfig
from polyseme.comparison.sizing import choose, count_parameters
from polyseme.errors import ConfigError, DataError
from polyseme.train.recipe import Recipe
from polyseme.train.signals import Interruption

TINY = ["model.vocab_size=400", "model.width=32", "model.max_length=48", "data.length=32", "plan.batch_tokens=256"]
TINY += ["plan.threads=1"]


def settings(**values):
    told = {"corpus": ["text.txt"], "families": ["bert"], "budget": "5m", "cores": 2, **values}
    return ComparisonConfig.parse(told, group="compare")


def pace(**values):
    usual = {"step": 0.1, "start": 1.0, "step_tokens": 1000, "corpus_tokens": 10_000_000}
    usual |= {
        "vocab_size": 8192,
        "parameters": 1_500_000,
        "inner_parameters": 400_000,
        "own_steps": 0,
        "preparation": 1.0,
    }
    return Pace(**{**usual, **values})


def test_a_budget_is_time_of_all_cores():
    assert settings().processor_seconds == 600 and settings(cores=8, budget="90s").processor_seconds == 720
    assert settings(budget="500steps").processor_seconds is None
    assert settings(cores=8, parallel=3).threads == 2


def test_steps_fill_the_budget():
    assert pace().steps_in(600) == 5990 and pace().tokens_in(600) == 5_990_000
    assert pace(own_steps=5).steps_in(600) == 5 and pace(step=1000.0).steps_in(10) == 1


def test_a_pace_is_measured_once(monkeypatch, corpus_file, tmp_path):
    monkeypatch.setenv("POLYSEME_CACHE", str(tmp_path))
    asked = []
    monkeypatch.setattr(pacing, "_ask_child", lambda recipe, *_: asked.append(recipe) or pace(step=float(len(asked))))
    recipe = Recipe.preset("bert", "tiny", TINY, data={"corpus": [str(corpus_file)]})
    longer = Recipe.preset("bert", "tiny", [*TINY, "plan.budget=9h", "plan.seed=4"], data={"corpus": ["elsewhere"]})
    wider = Recipe.preset("bert", "tiny", [*TINY, "model.width=64"], data={"corpus": [str(corpus_file)]})
    assert [
        find_pace(one, fingerprint="a", seconds=60, interruption=Interruption()).step
        for one in (recipe, recipe, longer)
    ] == [1, 1, 1]
    assert find_pace(wider, fingerprint="a", seconds=60, interruption=Interruption()).step == 2
    assert find_pace(recipe, fingerprint="b", seconds=60, interruption=Interruption()).step == 3
    threaded = Recipe.preset("bert", "tiny", [*TINY, "plan.threads=2"], data={"corpus": [str(corpus_file)]})
    assert find_pace(threaded, fingerprint="a", seconds=60, interruption=Interruption()).step == 4
    assert remembered("other", ["a"], lambda: 5) == remembered("other", ["a"], lambda: 6) == 5


def test_steps_that_a_run_was_fitted_to_are_those_of_the_same_budget(monkeypatch, corpus_file, tmp_path):
    monkeypatch.setenv("POLYSEME_CACHE", str(tmp_path))
    recipe = Recipe.preset("bert", "tiny", TINY, data={"corpus": [str(corpus_file)]})
    other_seed = Recipe.preset("bert", "tiny", [*TINY, "plan.seed=4"], data={"corpus": [str(corpus_file)]})
    asked = {"fingerprint": "a", "steps": 100, "seconds": 60.0}
    assert find_marks(recipe, **asked) == ()
    keep_marks((9, 19), recipe, **asked)
    assert find_marks(recipe, **asked) == (9, 19)
    for other in ({"fingerprint": "b"}, {"steps": 101}, {"seconds": 61.0}):
        assert find_marks(recipe, **{**asked, **other}) == ()
    assert find_marks(other_seed, **asked) == ()


@pytest.mark.parametrize("family", ["bert", "svd", "skipgram"])
def test_what_is_measured(family, corpus_file):
    fitting = [one for one in TINY if family == "bert" or not one.startswith(("model.max", "data"))]
    recipe = Recipe.preset(family, "tiny", fitting, data={"corpus": [str(corpus_file)]})
    found = measure(recipe, 0.05)
    assert found.step > 0 and found.start > 0 and found.preparation > 0
    assert found.own_steps == (5 if family == "svd" else 0)
    assert (found.inner_parameters > 0) == (family == "bert")
    json.dumps(found.__dict__)


def chosen(told, paces, family="bert"):
    asked = []

    def pace_of(size):
        asked.append(size)
        return paces[size]

    return choose(family, told, pace_of, lambda size: Recipe.preset(family, size)), asked


def test_the_largest_size_that_reads_enough():
    found, asked = chosen(settings(), {"tiny": pace(step=0.01), "small": pace()})
    assert found.size == "small" and found.steps == 5990 and found.seconds == 600 and "medium" not in asked
    assert found.rule.startswith("small: it reads 5.99M tokens for 400k parameters outside its embeddings")
    slow, _ = chosen(settings(budget="10s"), {"tiny": pace(step=0.01), "small": pace(step=1.0)})
    assert slow.size == "tiny" and "small would read" in slow.rule
    quick = {
        size: pace(step=0.001, corpus_tokens=10**9, inner_parameters=n)
        for size, n in zip(("tiny", "small", "medium", "base"), (10**5, 10**6, 10**7, 10**8), strict=True)
    }
    assert chosen(settings(), quick)[0].size == "base"


def test_tables_need_more_text_and_repetition_counts_little():
    table = {"inner_parameters": 0, "step": 0.001, "vocab_size": 20_000}
    paces = {
        "tiny": pace(**table, parameters=500_000),
        "small": pace(**table, parameters=2_000_000, corpus_tokens=1_400_000),
    }
    assert chosen(settings(), paces, "skipgram")[0].size == "tiny"  # 16 times 1.4M tokens are not 12 times 2M numbers
    paces["small"] = pace(**table, parameters=2_000_000, corpus_tokens=1_600_000)
    assert chosen(settings(), paces, "skipgram")[0].size == "small"


def test_sizes_that_are_given():
    assert chosen(settings(size="medium"), {"medium": pace()})[0].size == "medium"
    assert chosen(settings(params="2M"), {"small": pace()})[0].size == "small"
    assert chosen(settings(budget="40steps"), {})[0].steps == 0
    assert count_parameters(Recipe.preset("bert", "small")) > 10**6
    with pytest.raises(ConfigError, match="500k or 2M"):
        settings(params="many").check()


def test_a_corpus_too_small_for_the_budget_is_refused():
    with pytest.raises(DataError, match=r"read the corpus 599 times in 5m.*a budget of 200s or less"):
        chosen(settings(), {"small": pace(corpus_tokens=10_000), "tiny": pace(corpus_tokens=10_000)})
