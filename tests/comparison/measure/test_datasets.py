"""Labelled datasets are found, checked, subsampled and written."""

import pytest

from polyseme.comparison.measure.datasets import find_datasets, label_counts, subsample, write_dataset
from polyseme.comparison.measure.label_curves import sample_examples
from polyseme.datasets.labelled_files import read_examples
from polyseme.errors import ConfigError, DataError
from polyseme.tasks import TASKS
from polyseme.training.labelled_data import LabelledData
from polyseme.training.recipes.finetune_recipe import LabelledDataConfig

SIZES = {"train": 40, "dev": 10, "test": 12}


def town_dataset(town, name):
    return next(one for one in find_datasets(str(town), seed=0).datasets if one.name == name)


def test_a_folder_is_searched(town):
    data = find_datasets(str(town), seed=0)
    assert {one.name: one.kind for one in data.datasets} == {kind: kind for kind in TASKS}
    assert {suite: [path.name for path in paths] for suite, paths in data.suites.items()} == {
        "words": ["words"],
        "minimal-pairs": ["minimal_pairs"],
        "senses": ["senses"],
    }
    metrics = {one.name: one.metric for one in data.datasets}
    assert metrics["tag"] == "f1" and metrics["similarity"] == "spearman" and metrics["span"] == "f1"
    assert 0.2 < town_dataset(town, "pair").majority_baseline < 0.5


def test_written_datasets_are_read_unchanged(town, tmp_path):
    for dataset in find_datasets(str(town), seed=0).datasets:
        small = subsample(dataset, SIZES, seed=0)
        for split, path in write_dataset(small, tmp_path / dataset.name).items():
            again = read_examples(path, TASKS[dataset.kind].Example)
            assert [(one.texts, one.labels) for one in again] == [
                (one.texts, one.labels) for one in small.splits[split]
            ]
        assert subsample(dataset, SIZES, seed=0) == small != subsample(dataset, SIZES, seed=1)
        assert len(small.splits["test"]) == 12 and len(small.splits["train"]) >= 40


def test_a_file_lists_datasets(tmp_path):
    (tmp_path / "reviews.tsv").write_text("review\tstars\n" + "".join(f"text {n}\t{n % 2}\n" for n in range(40)))
    listing = tmp_path / "tasks.toml"
    files = 'task = "classify"\ntrain = "reviews.tsv"\ntest = "reviews.tsv"\n'
    columns = 'columns = {text = "review", label = "stars"}\n'
    listing.write_text(f"[stars]\n{files}labels = [5, 10]\n{columns}")
    (dataset,) = find_datasets(str(listing), seed=0).datasets
    assert dataset.name == "stars" and len(dataset.splits["dev"]) == 4 and len(dataset.splits["train"]) == 36
    assert label_counts(dataset, (100, 0)) == [5, 10]
    train_only = files.replace('test = "reviews.tsv"\n', "")
    listing.write_text(f"[stars]\n{train_only}{columns}")
    (dataset,) = find_datasets(str(listing), seed=0).datasets
    assert {split: len(examples) for split, examples in dataset.splits.items()} == {"train": 32, "dev": 4, "test": 4}
    assert len({example.text for examples in dataset.splits.values() for example in examples}) == 40
    listing.write_text('words = ["a.tsv", "b.tsv"]\nsenses = "c"\n')
    suites = find_datasets(str(listing), seed=0).suites
    assert suites == {"words": [tmp_path / "a.tsv", tmp_path / "b.tsv"], "senses": [tmp_path / "c"]}


FILES = '[stars]\ntask = "classify"\ntrain = "reviews.tsv"\n'
INVALID = {
    "unknown column": (FILES + 'columns = {text = "reviw", label = "stars"}\n', DataError, "reviw"),
    "unknown setting": (FILES + "colums = {}\n", ConfigError, r"did you mean stars\.columns"),
    "not TOML": ("[stars\n", DataError, "not TOML"),
    "no table": ("stars = 5\n", ConfigError, "stars is not a dataset"),
    "empty": ("", DataError, "lists no datasets"),
}


@pytest.mark.parametrize("case", INVALID)
def test_invalid_listings_are_errors(case, tmp_path):
    content, kind, message = INVALID[case]
    (tmp_path / "reviews.tsv").write_text("review\tstars\n" + "".join(f"text {n}\t{n % 2}\n" for n in range(40)))
    (tmp_path / "tasks.toml").write_text(content)
    with pytest.raises(kind, match=message):
        find_datasets(str(tmp_path / "tasks.toml"), seed=0)


def test_missing_files_and_empty_folders_are_errors(tmp_path):
    with pytest.raises(DataError, match="cannot be read"):
        find_datasets(str(tmp_path / "none.toml"), seed=0)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="contains no labelled datasets"):
        find_datasets(str(tmp_path / "empty"), seed=0)


def test_subsampling_keeps_all_labels(town):
    dataset = town_dataset(town, "tag")
    tiny = subsample(dataset, {"train": 2, "dev": 5, "test": 5}, seed=0)
    assert {tag for one in tiny.splits["train"] for tag in one.tags} == {
        tag for one in dataset.splits["train"] for tag in one.tags
    }


def test_probes_and_fine_tuning_use_the_same_examples(town, tmp_path):
    dataset = subsample(town_dataset(town, "pair"), SIZES, seed=0)
    files = write_dataset(dataset, tmp_path / "pair")
    for seed in (0, 3):
        config = LabelledDataConfig(train={"pair": str(files["train"])}, num_labels=9)
        examples = LabelledData.read({"pair": "pair"}, config, seed=seed).train["pair"]
        sample = sample_examples(dataset, 9, seed)
        assert [one.texts for one in examples] == [dataset.splits["train"][n].texts for n in sample]
    assert sample_examples(dataset, 9, 0) != sample_examples(dataset, 9, 3)


def test_damaged_files_of_a_dataset_are_written_again(town, tmp_path):
    dataset = subsample(town_dataset(town, "pair"), SIZES, seed=0)
    files = write_dataset(dataset, tmp_path / "pair")
    before = {split: path.read_bytes() for split, path in files.items()}
    files["train"].write_bytes(before["train"].replace(b"the", b"a"))
    files["dev"].unlink()
    assert write_dataset(dataset, tmp_path / "pair") == files
    assert {split: path.read_bytes() for split, path in files.items()} == before
