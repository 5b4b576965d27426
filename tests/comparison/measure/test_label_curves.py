"""Fine-tuning is planned within a budget."""

from dataclasses import replace

import pytest

import polyseme as ps
from polyseme.comparison.measure.datasets import find_datasets, subsample, write_dataset
from polyseme.comparison.measure.label_curves import FineTuner, plan_steps


def test_fine_tuning_steps_fit_the_budget(town):
    datasets = find_datasets(str(town), seed=0).datasets
    pairs = next(one for one in datasets if one.name == "pair")
    dataset = subsample(pairs, {"train": 160, "dev": 9, "test": 9}, seed=0)
    assert plan_steps(dataset, (20, 80, 0), seconds=1e9, step_seconds=0.1) == {20: 30, 80: 90, 160: 150}
    assert plan_steps(dataset, (20, 80, 0), seconds=25, step_seconds=0.1) == {20: 30, 160: 124}
    assert plan_steps(dataset, (20, 80, 0), seconds=21, step_seconds=1.0) == {160: 40}
    assert plan_steps(dataset, (20, 80, 0), seconds=1, step_seconds=1.0) == {}
    # Validation and testing are part of the budget.
    splits = {split: examples * 100 if split != "train" else examples for split, examples in dataset.splits.items()}
    large = replace(dataset, splits=splits)
    assert plan_steps(large, (20, 80, 0), seconds=25, step_seconds=0.1) == {160: 150}
    assert plan_steps(large, (20, 80, 0), seconds=12.5, step_seconds=0.1) == {160: 78}


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
