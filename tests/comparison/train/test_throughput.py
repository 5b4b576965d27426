"""Trial runs and their cache."""

import json

import pytest
from tests.comparison.train.test_model_size import trial

from polyseme.comparison.train import throughput
from polyseme.comparison.train.throughput import cached, find_trial, load_milestones, measure, save_milestones
from polyseme.system.signals import ShutdownRequest
from polyseme.training.recipes.recipe import Recipe

TINY = ["model.vocab_size=400", "model.width=32", "model.max_length=48", "data.sequence_length=32"]
TINY += ["training.batch_tokens=256", "training.threads=1"]


def test_trials_are_cached_by_recipe_and_text(monkeypatch, corpus_file, tmp_path):
    monkeypatch.setenv("POLYSEME_CACHE", str(tmp_path))
    measured = []

    def run_trial(recipe, *_):
        measured.append(recipe)
        return trial(step_seconds=float(len(measured)))

    monkeypatch.setattr(throughput, "run_trial", run_trial)

    def step_seconds(*changes, corpus=str(corpus_file), fingerprint="a"):
        recipe = Recipe.preset("bert", "tiny", [*TINY, *changes], data={"corpus": [corpus]})
        return find_trial(recipe, fingerprint=fingerprint, seconds=60, shutdown=ShutdownRequest()).step_seconds

    assert [step_seconds(), step_seconds()] == [1, 1]
    assert step_seconds("training.budget=9h", "training.seed=4", corpus="elsewhere") == 1
    assert step_seconds("model.width=64") == 2
    assert step_seconds(fingerprint="b") == 3
    assert step_seconds("training.threads=2") == 4
    assert cached("other", ["a"], lambda: 5, int) == cached("other", ["a"], lambda: 6, int) == 5


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"5", b'{"step_seconds": 1}', b"null", b"\xff", b"[" * 10_000])
def test_a_damaged_cache_is_measured_again(monkeypatch, corpus_file, tmp_path, content):
    monkeypatch.setenv("POLYSEME_CACHE", str(tmp_path))
    monkeypatch.setattr(throughput, "run_trial", lambda *_: trial(step_seconds=2.0))
    recipe = Recipe.preset("bert", "tiny", TINY, data={"corpus": [str(corpus_file)]})
    key = {"fingerprint": "a", "steps": 100, "seconds": 60.0}
    save_milestones((9, 19), recipe, **key)
    for _ in range(2):
        assert find_trial(recipe, fingerprint="a", seconds=60, shutdown=ShutdownRequest()).step_seconds == 2.0
        for path in (tmp_path / "throughput").iterdir():
            path.write_bytes(content)
    assert load_milestones(recipe, **key) in ((), (1,))


def test_milestones_are_cached_by_recipe_text_seed_and_budget(monkeypatch, corpus_file, tmp_path):
    monkeypatch.setenv("POLYSEME_CACHE", str(tmp_path))
    recipe = Recipe.preset("bert", "tiny", TINY, data={"corpus": [str(corpus_file)]})
    other_seed = Recipe.preset("bert", "tiny", [*TINY, "training.seed=4"], data={"corpus": [str(corpus_file)]})
    key = {"fingerprint": "a", "steps": 100, "seconds": 60.0}
    assert load_milestones(recipe, **key) == ()
    save_milestones((9, 19), recipe, **key)
    assert load_milestones(recipe, **key) == (9, 19)
    for changed in ({"fingerprint": "b"}, {"steps": 101}, {"seconds": 61.0}):
        assert load_milestones(recipe, **{**key, **changed}) == ()
    assert load_milestones(other_seed, **key) == ()


@pytest.mark.parametrize("family", ["bert", "svd", "skipgram"])
def test_measurements_of_a_trial_run(family, corpus_file):
    changes = [one for one in TINY if family == "bert" or not one.startswith(("model.max", "data"))]
    recipe = Recipe.preset(family, "tiny", changes, data={"corpus": [str(corpus_file)]})
    result = measure(recipe, 0.05)
    assert result.step_seconds > 0 and result.startup_seconds > 0 and result.preparation_seconds > 0
    assert result.max_steps == (5 if family == "svd" else 0)
    assert (result.non_embedding_parameters > 0) == (family == "bert")
    json.dumps(result.__dict__)
