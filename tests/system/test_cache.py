"""The cache: where it is, what replaces one that cannot be written, and entries that are missing or damaged."""

import os
import shutil
from pathlib import Path

import pytest

from polyseme.errors import ConfigError, DataError
from polyseme.system import cache
from polyseme.system.cache import cache_folder, load_or_build, temporary_folder


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home folder, and no other setting of the cache."""
    for name in ("POLYSEME_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, "")  # restored afterwards, though the code under test sets it
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def write(folder):
    (folder / "entry").write_text("content")


def read(folder):
    text = (folder / "entry").read_text()
    if text != "content":
        raise ValueError("damaged")
    return text


def test_cache_is_created_in_the_home_folder(home):
    assert cache_folder() == home / ".cache" / "polyseme"
    assert cache_folder().is_dir()


@pytest.mark.parametrize("variable", ["POLYSEME_CACHE", "XDG_CACHE_HOME"])
def test_environment_chooses_the_cache(home, tmp_path, monkeypatch, variable):
    monkeypatch.setenv(variable, str(tmp_path / "chosen"))
    assert cache_folder().is_relative_to(tmp_path / "chosen")


def test_unwritable_home_is_replaced_by_a_temporary_cache(home, caplog):
    home.write_text("a file, in which nobody can create a folder")
    folder = cache_folder()
    assert folder.is_dir() and not folder.is_relative_to(home)
    assert "POLYSEME_CACHE" in caplog.text and str(home) in caplog.text
    assert cache_folder() == folder, "one for the whole process"
    assert os.environ["POLYSEME_CACHE"] == str(folder), "and its children"


def test_missing_home_is_replaced_by_a_temporary_cache(home, monkeypatch, caplog):
    def no_home():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", no_home)
    assert cache_folder().is_dir()
    assert "home folder does not exist" in caplog.text


def test_unwritable_chosen_cache_is_an_error(home, tmp_path, monkeypatch):
    home.write_text("")
    monkeypatch.setenv("POLYSEME_CACHE", str(home / "cache"))
    with pytest.raises(ConfigError, match=r"POLYSEME_CACHE=.*set it to a folder that you can write"):
        cache_folder()


def test_no_temporary_folder_either(home, monkeypatch):
    def full(**_):
        raise OSError(28, "No space left on device")

    home.write_text("")
    monkeypatch.setattr(cache.tempfile, "mkdtemp", full)
    with pytest.raises(ConfigError, match="set POLYSEME_CACHE"):
        cache_folder()


def test_entries_are_built_once(home):
    assert load_or_build("texts", "a", load=read, build=write) == "content"
    assert load_or_build("texts", "a", load=read, build=pytest.fail) == "content"


def test_damaged_entries_are_built_again(home):
    load_or_build("texts", "a", load=read, build=write)
    (cache_folder() / "texts" / "a" / "entry").write_text("other")
    assert load_or_build("texts", "a", load=read, build=write) == "content"


def test_read_only_cache_is_enough_if_all_is_there(home, monkeypatch):
    load_or_build("texts", "a", load=read, build=write)
    monkeypatch.setattr(cache, "cache_folder", lambda: pytest.fail("needs a cache that can be written"))
    assert load_or_build("texts", "a", load=read, build=pytest.fail) == "content"


def test_another_process_was_first(home):
    def build(folder):
        write(folder)
        shutil.copytree(folder, cache_folder() / "texts" / "a")

    assert load_or_build("texts", "a", load=read, build=build) == "content"


def test_full_disk_is_an_error(home):
    def full(folder):
        raise OSError(28, "No space left on device")

    with pytest.raises(DataError, match=r"No space left on device.*POLYSEME_CACHE"):
        load_or_build("texts", "a", load=read, build=full)
    assert not list((cache_folder() / "texts").iterdir())


def test_entries_deleted_while_they_are_loaded(home):
    def load(folder):
        shutil.rmtree(folder)
        return read(folder)

    with pytest.raises(DataError, match=r"deleted or changed.*POLYSEME_CACHE"):
        load_or_build("texts", "a", load=load, build=write)


def test_temporary_folders_are_deleted(home):
    with temporary_folder() as folder:
        write(folder)
    assert not folder.exists()
