"""Fine-tuning is planned within a budget."""

import json
from dataclasses import replace

import pytest

import polyseme as ps
from polyseme.comparison.measure.datasets import find_datasets, subsample, write_dataset
from polyseme.comparison.measure.label_curves import FineTuner, plan_steps
from polyseme.comparison.rows import parse_row


def test_fine_tuning_steps_fit_the_budget(town):
    datasets = find_datasets(str(town), seed=0).datasets
    pairs = next(one for one in datasets if one.name == "pair")
    dataset = subsample(pairs, {"train": 160, "dev": 9, "test": 9}, seed=0)

    def planned(dataset, seconds, step_seconds):
        return plan_steps(dataset, (20, 80, 0), seconds=seconds, step_seconds=lambda: step_seconds)

    assert planned(dataset, None, None) == {20: 30, 80: 90, 160: 150}, "without a limit, nothing is measured"
    assert planned(dataset, 1e9, 0.1) == {20: 30, 80: 90, 160: 150}
    assert planned(dataset, 25, 0.1) == {20: 30, 160: 121}
    assert planned(dataset, 23, 1.0) == {160: 40}
    assert planned(dataset, 1, 1.0) == {}
    # Validation and testing are part of the budget.
    splits = {split: examples * 100 if split != "train" else examples for split, examples in dataset.splits.items()}
    large = replace(dataset, splits=splits)
    assert planned(large, 30, 0.1) == {160: 148}
    assert planned(large, 9, 0.1) == {}


def test_fine_tuning_starts_at_the_probe_and_is_marked(town, tmp_path):
    """A bound of a few steps is too short to converge; nothing ends below the probe on the dev set."""
    corpus = tmp_path / "text.txt"
    corpus.write_text("A cat sat here. The dog ran.\n\n" * 30)
    ps.pretrain("svd", corpus=corpus, out=tmp_path / "svd", size="tiny", settings=["training.threads=1"])
    found = next(one for one in find_datasets(str(town), seed=0).datasets if one.name == "classify")
    dataset = subsample(found, {"train": 40, "dev": 20, "test": 9}, seed=0)
    files, folder = write_dataset(dataset, tmp_path / "classify"), tmp_path / "finetuning"
    tuner = FineTuner(model=tmp_path / "svd", dataset=dataset, files=files, threads=1, folder=folder)
    few, enough = tuner.rows({20: 2, 40: 40}, [0])
    assert not folder.exists() and (few["num_labels"], few["steps"], few["converged"]) == (20, 2, False)
    assert (enough["num_labels"], enough["steps"], enough["converged"]) == (40, 40, True)
    for row in (few, enough):
        assert row["dev"] >= row["probe_dev"] > 0 and parse_row(json.dumps({**row, "family": "svd"}))


def test_step_times_of_fine_tuning_are_cached_by_model_shape(town, tmp_path, monkeypatch):
    """Recipes may differ in the location of the text and in milestones."""
    monkeypatch.setenv("POLYSEME_CACHE", str(tmp_path / "cache"))
    (dataset, *_) = find_datasets(str(town), seed=0).datasets
    measured, step_times = [], iter([0.5, 0.7])

    monkeypatch.setattr(FineTuner, "_measure_step", lambda self: next(step_times))
    for name, width in (("a", 8), ("b", 8), ("c", 9)):
        model = tmp_path / name
        model.mkdir()
        (model / "config.json").write_text(f'{{"width": {width}}}')
        (model / "recipe.toml").write_text(f'corpus = "{name}"')
        files = write_dataset(dataset, tmp_path / "tasks" / name)
        tuner = FineTuner(model=model, dataset=dataset, files=files, threads=1, folder=tmp_path / "finetuning")
        measured.append(tuner.step_seconds())
    assert measured == pytest.approx([0.5, 0.5, 0.7])


def test_step_times_of_fine_tuning(town, tmp_path, monkeypatch):
    monkeypatch.setenv("POLYSEME_CACHE", str(tmp_path / "cache"))
    corpus = tmp_path / "text.txt"
    corpus.write_text("A cat sat here. The dog ran.\n\n" * 30)
    ps.pretrain("svd", corpus=corpus, out=tmp_path / "svd", size="tiny")
    dataset = next(one for one in find_datasets(str(town), seed=0).datasets if one.name == "classify")
    files = write_dataset(dataset, tmp_path / "classify")
    folder = tmp_path / "finetuning"
    tuner = FineTuner(model=tmp_path / "svd", dataset=dataset, files=files, threads=1, folder=folder)
    assert 0 < tuner.step_seconds() < 60 and not folder.exists()
    assert tuner.step_seconds() == tuner.step_seconds()
