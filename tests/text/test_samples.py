"""Samples: written whole, found again, and fit to learn from."""

import re

import pytest

from polyseme.errors import ConfigError, DataError
from polyseme.text import docstrings as docs
from polyseme.text import samples
from polyseme.text.docstrings import prose


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("POLYSEME_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def quick_town(monkeypatch):
    """A sample that is written at once."""

    def write(folder, seed):
        (folder / "en.train.txt").write_text(f"town {seed}")
        (folder / "en.dev.txt").write_text("dev")
        (folder / "zh.train.txt").write_text("镇")

    monkeypatch.setitem(samples.SAMPLES, "quick", samples.Sample("quick", write, lambda: ["1"]))


def test_a_sample_is_written_once(quick_town, monkeypatch):
    folder = samples.sample("quick")
    monkeypatch.setitem(samples.SAMPLES, "quick", samples.Sample("quick", pytest.fail, lambda: ["1"]))
    assert samples.sample("quick") == folder
    assert not list(folder.parent.glob(".*"))


def test_seed_and_sources_make_another_folder(quick_town, monkeypatch):
    first, second = samples.sample("quick"), samples.sample("quick", seed=1)
    assert first != second and (second / "en.train.txt").read_text() == "town 1"
    write = samples.SAMPLES["quick"].write
    monkeypatch.setitem(samples.SAMPLES, "quick", samples.Sample("quick", write, lambda: ["2"]))
    assert samples.sample("quick") not in (first, second)


def test_text_is_split_for_learning_and_measuring(quick_town):
    text = samples.sample_text("quick")
    assert [path.name for path in text.train] == ["en.train.txt", "zh.train.txt"]
    assert [path.name for path in text.dev] == ["en.dev.txt"]


def test_another_writer_may_be_quicker(monkeypatch, tmp_path):
    def write(folder, seed):
        (folder / "train.txt").write_text("mine")
        for path in (tmp_path / "cache" / "samples").iterdir():  # meanwhile, the other one finishes
            whole = path.with_name(path.name.split(".")[1])
            whole.mkdir()
            (whole / "train.txt").write_text("theirs")

    monkeypatch.setitem(samples.SAMPLES, "raced", samples.Sample("raced", write, list))
    assert (samples.sample("raced") / "train.txt").read_text() == "theirs"


def test_a_full_folder_is_left_alone(quick_town, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    samples.write_sample("quick", out)
    with pytest.raises(DataError, match="not an empty folder"):
        samples.write_sample("quick", out)
    with pytest.raises(DataError, match="not an empty folder"):
        samples.write_sample("quick", out / "en.dev.txt")


def test_a_failed_sample_leaves_nothing(monkeypatch, tmp_path):
    def write(folder, seed):
        (folder / "half.txt").write_text("half")
        raise OSError(28, "No space left on device")

    monkeypatch.setitem(samples.SAMPLES, "broken", samples.Sample("broken", write, list))
    with pytest.raises(DataError, match="No space left"):
        samples.write_sample("broken", tmp_path / "out")
    assert not list(tmp_path.rglob("*half*"))


def test_a_wrong_name_is_answered_with_the_nearest():
    with pytest.raises(ConfigError, match="did you mean docstrings"):
        samples.sample("docstring")


@pytest.mark.parametrize(("name", "files"), [("town-en", {"en"}), ("town-zh", {"zh"})])
def test_a_town_of_one_language(name, files, monkeypatch):
    from polyseme.text import town

    whole = town.write
    monkeypatch.setattr(town, "write", lambda *a, **k: whole(*a, **k, num_documents=32, num_rows=80))
    text = samples.sample_text(name)
    assert {path.name.split(".")[0] for path in (*text.train, *text.dev)} == files


def test_prose_is_what_a_reader_would_read():
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
    array the output of the code is no sentence.

    =====  =====
    table  value
    =====  =====
    """
    import inspect

    assert prose(inspect.cleandoc(docstring)) == [
        "Return the mean of an array along an axis.",
        "This is the average of the values; see also the median, which is more robust.",
        "The axis along which the mean is computed, by default the last one.",
        "An array in which the result is put, if it is given.",
        "The array may have two axes.",
    ]


def test_licences_and_code_are_no_prose():
    assert prose("Permission is hereby granted to anyone who wants it.\n\nif x is the value: return x = y") == []


def test_docstrings_come_from_the_dependencies_and_python():
    names = [line.partition("==")[0] for line in docs.versions()]
    assert names[0] == "python" and {"torch", "numpy", "pydantic"} <= set(names)
    assert not {"polyseme", "pytest", "ruff"} & set(names)


def test_a_bound_on_words_keeps_every_package(monkeypatch):
    monkeypatch.setattr(docs, "MAX_WORDS", 60_000)
    found = list(docs.documents())
    assert 60_000 <= sum(len(text.split()) for _, text in found) < 90_000
    packages = {name.split("/")[0] for name, _ in found}
    assert {"python", "torch", "numpy", "scipy", "rich", "pydantic"} <= packages
    assert found == list(docs.documents())


@pytest.mark.slow
def test_docstrings_are_plenty_of_english():
    text = samples.sample_text("docstrings")
    train, dev = (path.read_text("utf-8") for path in (*text.train, *text.dev))
    num_words = [len(part.split()) for part in (train, dev)]
    assert sum(num_words) > 1_500_000 and 0.02 < num_words[1] / sum(num_words) < 0.07
    lines = [line for line in f"{train}\n{dev}".split("\n") if line]
    assert len(set(lines)) == len(lines)
    assert not any(re.search(r">>>|^\s|https?:|copyright|[{}|=\\]", line) for line in lines)
    assert train.isascii()
    letters = sum(character.isalpha() or character == " " for character in train)
    assert letters > 0.93 * len(train)
