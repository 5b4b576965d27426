"""Built-in samples are written atomically, cached, and clean enough for training."""

import re

import pytest

from polyseme.datasets import builtin, docstrings
from polyseme.datasets.docstrings import extract_prose
from polyseme.errors import ConfigError, DataError


@pytest.fixture(autouse=True)
def empty_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("POLYSEME_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def quick_sample(monkeypatch):
    """A sample that is fast to write."""

    def write(folder, seed):
        (folder / "en.train.txt").write_text(f"town {seed}")
        (folder / "en.dev.txt").write_text("dev")
        (folder / "zh.train.txt").write_text("镇")

    monkeypatch.setitem(builtin.SAMPLES, "quick", builtin.Sample("quick", write, lambda: ["1"]))


def test_samples_are_written_once(quick_sample, monkeypatch):
    folder = builtin.sample_folder("quick")
    monkeypatch.setitem(builtin.SAMPLES, "quick", builtin.Sample("quick", pytest.fail, lambda: ["1"]))
    assert builtin.sample_folder("quick") == folder
    assert not list(folder.parent.glob(".*"))


def test_cache_depends_on_seed_and_sources(quick_sample, monkeypatch):
    first, second = builtin.sample_folder("quick"), builtin.sample_folder("quick", seed=1)
    assert first != second and (second / "en.train.txt").read_text() == "town 1"
    write = builtin.SAMPLES["quick"].write
    monkeypatch.setitem(builtin.SAMPLES, "quick", builtin.Sample("quick", write, lambda: ["2"]))
    assert builtin.sample_folder("quick") not in (first, second)


def test_train_and_dev_text(quick_sample):
    text = builtin.sample_text("quick")
    assert [path.name for path in text.train] == ["en.train.txt", "zh.train.txt"]
    assert [path.name for path in text.dev] == ["en.dev.txt"]


def test_concurrent_writers(monkeypatch, tmp_path):
    def write(folder, seed):
        (folder / "train.txt").write_text("mine")
        for path in (tmp_path / "cache" / "samples").iterdir():  # another process finishes first
            whole = path.with_name(path.name.split(".")[1])
            whole.mkdir()
            (whole / "train.txt").write_text("theirs")

    monkeypatch.setitem(builtin.SAMPLES, "raced", builtin.Sample("raced", write, list))
    assert (builtin.sample_folder("raced") / "train.txt").read_text() == "theirs"


def test_existing_files_are_not_overwritten(quick_sample, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    builtin.write_sample("quick", out)
    with pytest.raises(DataError, match="not an empty folder"):
        builtin.write_sample("quick", out)
    with pytest.raises(DataError, match="not an empty folder"):
        builtin.write_sample("quick", out / "en.dev.txt")


def test_failed_writes_leave_no_files(monkeypatch, tmp_path):
    def write(folder, seed):
        (folder / "half.txt").write_text("half")
        raise OSError(28, "No space left on device")

    monkeypatch.setitem(builtin.SAMPLES, "broken", builtin.Sample("broken", write, list))
    with pytest.raises(DataError, match="No space left"):
        builtin.write_sample("broken", tmp_path / "out")
    assert not list(tmp_path.rglob("*half*"))


def test_unknown_names():
    with pytest.raises(ConfigError, match="did you mean docstrings"):
        builtin.sample_folder("docstring")


@pytest.mark.parametrize(("name", "files"), [("town-en", {"en"}), ("town-zh", {"zh"})])
def test_monolingual_towns(name, files, monkeypatch):
    from polyseme.datasets.town import writers

    write_town = writers.write_town
    monkeypatch.setattr(writers, "write_town", lambda *a, **k: write_town(*a, **k, num_documents=32, num_rows=80))
    text = builtin.sample_text(name)
    assert {path.name.split(".")[0] for path in (*text.train, *text.dev)} == files


def test_prose_extraction():
    docstring = """
    Return the mean of an array along an axis.

    This is the :func:`average <numpy.average>` of the ``values``; see also
    the *median*, which is [1]_ more robust.

    Parameters
    ----------
    axis : int, optional
        The axis along which the mean is computed, by default the last one.

    :param out: An array in which the result is put, if it is given.

    Call it as follows::

        mean(values, axis=0)

    Examples
    --------
    The array may have two axes.

    >>> mean([[1, 2]])
    array the output of the code is not prose.

    =====  =====
    table  value
    =====  =====
    """
    import inspect

    assert extract_prose(inspect.cleandoc(docstring)) == [
        "Return the mean of an array along an axis.",
        "This is the average of the values; see also the median, which is more robust.",
        "The axis along which the mean is computed, by default the last one.",
        "An array in which the result is put, if it is given.",
        "The array may have two axes.",
    ]


def test_licences_and_code_are_not_prose():
    text = "Permission is hereby granted to anyone who wants it.\n\nif x is the value: return x = y"
    assert extract_prose(text) == []


def test_docstrings_of_python_and_dependencies():
    names = [line.partition("==")[0] for line in docstrings.source_versions()]
    assert names[0] == "python" and {"torch", "numpy", "pydantic"} <= set(names)
    assert not {"polyseme", "pytest", "ruff"} & set(names)


def test_word_limit_keeps_every_package(monkeypatch):
    monkeypatch.setattr(docstrings, "MAX_WORDS", 60_000)
    found = list(docstrings.documents())
    assert 60_000 <= sum(len(text.split()) for _, text in found) < 90_000
    packages = {name.split("/")[0] for name, _ in found}
    assert {"python", "torch", "numpy", "scipy", "rich", "pydantic"} <= packages
    assert found == list(docstrings.documents())


@pytest.mark.slow
def test_size_and_quality_of_the_docstring_corpus():
    text = builtin.sample_text("docstrings")
    train, dev = (path.read_text("utf-8") for path in (*text.train, *text.dev))
    num_words = [len(part.split()) for part in (train, dev)]
    assert sum(num_words) > 1_500_000 and 0.02 < num_words[1] / sum(num_words) < 0.07
    lines = [line for line in f"{train}\n{dev}".split("\n") if line]
    assert len(set(lines)) == len(lines)
    assert not any(re.search(r">>>|^\s|https?:|copyright|[{}|=\\]", line) for line in lines)
    assert train.isascii()
    num_alphabetic = sum(character.isalpha() or character == " " for character in train)
    assert num_alphabetic > 0.93 * len(train)
