"""The manifest of a directory: what differs from it is refused, and updates of it survive crashes."""

import json
import shutil

import pytest

from polyseme.errors import CheckpointError
from polyseme.loading import describe, load
from polyseme.system.atomic_io import sha256
from polyseme.training.storage import manifest as manifests
from polyseme.training.storage.history import HISTORY
from polyseme.training.storage.manifest import (
    MANIFEST,
    find_changes,
    is_unchanged,
    read_manifest,
    remove_record,
    rewrite_file,
    verify_directory,
    write_manifest,
)


@pytest.fixture
def folder(tmp_path):
    """A directory of three files."""
    for name in ("recipe.toml", "weights", HISTORY):
        (tmp_path / name).write_text(f"content of {name}\n")
    write_manifest(tmp_path, ["recipe.toml", "weights", HISTORY, "missing"])
    return tmp_path


def test_an_unchanged_directory(folder):
    assert read_manifest(folder).files.keys() == {"recipe.toml", "weights", HISTORY}
    verify_directory(folder)
    assert find_changes(folder) == {} and is_unchanged(folder)


def test_sizes_are_always_compared_and_checksums_by_default(folder):
    (folder / "weights").write_text("Content of weights\n")
    with pytest.raises(CheckpointError, match=r"weights has changed.*restore.*manifest\.json"):
        verify_directory(folder)
    verify_directory(folder, hashes=False)
    (folder / "weights").write_text("longer content of weights\n")
    with pytest.raises(CheckpointError, match="weights has changed"):
        verify_directory(folder, hashes=False)
    (folder / "weights").write_text("")
    with pytest.raises(CheckpointError, match="weights is truncated"):
        verify_directory(folder, hashes=False)
    (folder / "weights").unlink()
    with pytest.raises(CheckpointError, match="weights has been deleted"):
        verify_directory(folder, hashes=False)
    verify_directory(folder, names=["recipe.toml"])
    (folder / MANIFEST).unlink()
    verify_directory(folder)


def test_no_answer_depends_on_the_history(folder):
    (folder / HISTORY).unlink()
    verify_directory(folder)
    assert is_unchanged(folder) and find_changes(folder).keys() == {HISTORY}


CONTENTS = {
    "not JSON": "{",
    "not UTF-8": b"\xff",
    "a number": "3",
    "a list": "[]",
    "null": "null",
    "empty": "{}",
    "nested": "[" * 100_000,
    "files of another type": '{"files": 3}',
    "a list of files": '{"files": ["weights"]}',
    "an entry of another type": '{"files": {"weights": 3}}',
    "no checksum": '{"files": {"weights": {"bytes": 3}}}',
    "another checksum": '{"files": {"weights": {"bytes": 3, "sha256": "abc"}}}',
    "a negative size": json.dumps({"files": {"weights": {"bytes": -3, "sha256": "0" * 64}}}),
    "a fraction": json.dumps({"files": {"weights": {"bytes": 3.5, "sha256": "0" * 64}}}),
    "a huge size": '{"files": {"weights": {"bytes": ' + "9" * 5000 + ', "sha256": "a"}}}',
    "a file elsewhere": json.dumps({"files": {"../weights": {"bytes": 3, "sha256": "0" * 64}}}),
    "an absolute path": json.dumps({"files": {"/etc/passwd": {"bytes": 3, "sha256": "0" * 64}}}),
    "a lone surrogate": json.dumps({"files": {"a\ud800": {"bytes": 3, "sha256": "0" * 64}}}),
    "an unknown key": '{"files": {}, "more": 1}',
    "2 MB": json.dumps({"files": {}, "more": "x" * 2_000_000}),
}


@pytest.mark.parametrize("name", CONTENTS)
def test_damaged_manifests_are_refused(name, folder):
    content = CONTENTS[name]
    (folder / MANIFEST).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(CheckpointError, match=MANIFEST) as caught:
        verify_directory(folder)
    assert len(str(caught.value)) < 500 + len(str(folder))


def test_a_rewritten_file_is_valid_after_a_crash_anywhere(folder, monkeypatch):
    """The old content or the new one, also after several crashes; other changes are noticed."""
    write_file = manifests.write_file
    contents = {"content of recipe.toml\n"}
    for crash_at in (1, 2, 3, 2, 3, 1, 3, 2, 2, None):
        written = []

        def crash(path, content, written=written, crash_at=crash_at):
            written.append(path)
            if len(written) == crash_at:
                raise KeyboardInterrupt
            write_file(path, content)

        monkeypatch.setattr(manifests, "write_file", crash)
        new = f"content number {len(contents)}\n"
        try:
            rewrite_file(folder, "recipe.toml", new)
        except KeyboardInterrupt:
            verify_directory(folder)
        assert (folder / "recipe.toml").read_text() in contents | {new}
        contents.add(new)
    verify_directory(folder)
    assert (folder / "recipe.toml").read_text() == new and not read_manifest(folder).rewritten
    (folder / "recipe.toml").write_text(new.upper())
    assert find_changes(folder).keys() == {"recipe.toml"}


def test_a_file_that_grows_has_no_record(folder):
    remove_record(folder, HISTORY)
    (folder / HISTORY).write_text("more")
    assert find_changes(folder) == {} and read_manifest(folder).files.keys() == {"recipe.toml", "weights"}
    (folder / MANIFEST).unlink()
    remove_record(folder, HISTORY)
    rewrite_file(folder, "recipe.toml", "new")
    assert not (folder / MANIFEST).exists() and (folder / "recipe.toml").read_text() == "new"


@pytest.fixture
def model(tiny_models, tmp_path):
    """A directory saved from a model with random weights."""
    from polyseme.families import FAMILIES, build_objective
    from polyseme.pretrained import Pretrained

    tiny = tiny_models["bert"]
    encoder = FAMILIES["bert"](tiny.recipe.model.replace(vocab_size=tiny.tokenizer.vocab_size))
    objective = build_objective(tiny.recipe.objective, encoder, tiny.tokenizer.specials)
    parts = {"encoder": encoder.eval(), "objective": objective.eval(), "tokenizer": tiny.tokenizer, "recipe": None}
    Pretrained(folder=tmp_path, family="bert", **parts).save(tmp_path / "model")
    return tmp_path / "model"


def flip_last_bit(path):
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))


def test_loading_verifies_the_files(model):
    weights = model / "model.safetensors"
    before = load(model).embed(["the old bank"])
    flip_last_bit(weights)
    for action in (lambda: load(model), lambda: describe(model)):
        with pytest.raises(CheckpointError, match=r"model\.safetensors has changed"):
            action()
    assert load(model, verify=False).embed(["the old bank"]).shape == before.shape
    assert describe(model, verify=False)["changed"] == ["model.safetensors"]
    flip_last_bit(weights)
    assert (load(model).embed(["the old bank"]) == before).all()


def test_without_verification_no_checksum_is_computed(model, monkeypatch):
    monkeypatch.setattr("polyseme.training.storage.manifest.has_checksum", lambda *_: pytest.fail("a file was read"))
    load(model, verify=False)
    with (model / "model.safetensors").open("ab") as file:
        file.write(b"\0")
    with pytest.raises(CheckpointError, match=r"model\.safetensors has changed"):
        load(model, verify=False)


def test_a_second_load_computes_no_checksum_of_large_files(model, monkeypatch, tmp_path):
    monkeypatch.setenv("POLYSEME_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("polyseme.system.checksums._CACHED_BYTES", 0)
    monkeypatch.setattr("polyseme.system.checksums._SETTLED_NS", -1)
    digests = []
    monkeypatch.setattr("polyseme.system.checksums.sha256", lambda path: digests.append(path) or sha256(path))
    load(model)
    assert {path.name for path in digests} == read_manifest(model).files.keys()
    digests.clear()
    load(model)
    assert not digests
    shutil.copy(model / "config.json", tmp_path / "config.json")
    shutil.move(tmp_path / "config.json", model / "config.json")
    load(model)
    assert [path.name for path in digests] == ["config.json"]
