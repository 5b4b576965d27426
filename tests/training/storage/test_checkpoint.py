"""Checkpoints are atomic and verified, whatever happens while they are written or later."""

import errno
import json
import os
import random
import resource
import shutil
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from polyseme import CheckpointError
from polyseme.system.atomic_io import remove_partial_files
from polyseme.training.optimization.gradient_learner import LearnerState
from polyseme.training.storage import checkpoint as checkpoints
from polyseme.training.storage.checkpoint import fingerprint, load_checkpoint, save_checkpoint
from polyseme.training.storage.run_dir import RunDirectory

PRINT = {"torch": "2", "threads": 1}


def state_of(step, size=300):
    generator = torch.Generator().manual_seed(step)
    weights = {
        "tokens.weight": torch.randn(size, 4, generator=generator),
        "norm.bias": torch.randn(7, generator=generator),
    }
    moments = {"tokens.weight.exp_avg": torch.randn(size, 4, generator=generator)}
    values = {"done": step, "tokens": 256 * step, "seconds": step / 7, "bad_steps": 0, "micro_tokens": 256}
    return LearnerState(tensors={"weights": weights, "optimizer": moments}, values=values)


def save(folder, step, **rest):
    return save_checkpoint(folder, state_of(step), step=step, fingerprint=PRINT, **rest)


def step_of(folder):
    """The step that a folder loads, after checking that all of it is of that step; None without a checkpoint."""
    loaded = load_checkpoint(folder)
    if loaded is None:
        return None
    state, manifest = loaded
    step = manifest.step
    expected = state_of(step)
    assert state.values == expected.values
    assert manifest.fingerprint == PRINT
    assert {group: set(tensors) for group, tensors in state.tensors.items()} == {
        group: set(tensors) for group, tensors in expected.tensors.items()
    }
    for group, tensors in expected.tensors.items():
        for name, tensor in tensors.items():
            assert torch.equal(state.tensors[group][name], tensor), f"{group}: {name} is not of step {step}"
    return step


class Crash(BaseException):
    """The end of the process, which no handler catches and after which nothing works."""


class Disk:
    """Counts every operation that changes the disk, and fails at one of them."""

    def __init__(self, monkeypatch, fails_at, failure=Crash, goes_on=False):
        self.count = 0
        self.fails_at = fails_at
        self.failure = failure
        self.goes_on = goes_on  # whether later operations work again
        self.synced = set()
        self.log = []
        for module, name in [
            (os, "fsync"),
            (os, "rename"),
            (os, "replace"),
            (os, "mkdir"),
            (os, "unlink"),
            (os, "rmdir"),
            (os, "chmod"),
        ]:
            monkeypatch.setattr(module, name, self._watched(name, getattr(module, name)))
        monkeypatch.setattr("polyseme.system.safetensors_io.save_file", self._save_file)
        monkeypatch.setattr(Path, "write_text", lambda path, text: self._write_text(path, text))

    def _due(self, name):
        self.count += 1
        self.log.append(name)
        if self.count == self.fails_at:
            return True
        if self.fails_at and self.count > self.fails_at and not self.goes_on:
            raise self.failure(f"{name} after the end")
        return False

    def _watched(self, name, real):
        def operation(first, *rest, **options):
            if self._due(name):
                raise self.failure(name)
            if name == "fsync":
                self.synced.add(os.fstat(first).st_ino)
            return real(first, *rest, **options)

        return operation

    def _save_file(self, tensors, path, metadata=None):
        from safetensors.torch import save as to_bytes

        data = to_bytes(tensors, metadata)
        if self._due("save_file"):
            Path(path).write_bytes(data[: len(data) // 2])
            raise self.failure("half of a file")
        Path(path).write_bytes(data)

    def _write_text(self, path, text):
        if self._due("write_text"):
            Path(path).write_bytes(text.encode()[: len(text) // 2])
            raise self.failure("half of a text")
        Path(path).write_bytes(text.encode())

    def lose_unsynced(self, folder):
        """What a power cut does to files that were written and never flushed."""
        for file in folder.rglob("*"):
            if file.is_file() and file.stat().st_ino not in self.synced:
                os.truncate(file, file.stat().st_size // 2)


def no_old(folder):
    return {None}


def one_old(folder):
    save(folder, 5)
    return {5}


def two_old_and_a_best(folder):
    for step, loss in [(5, 1.0), (10, 3.0), (15, 2.0), (20, 2.5)]:
        save(folder, step, dev_loss=loss)
    return {20}


def a_broken_one_of_the_same_step(folder):
    save(folder, 20)
    save(folder, 25)
    (folder / "0000025" / "weights.safetensors").write_bytes(b"nonsense")
    return {20}


@pytest.mark.parametrize("end", ["killed", "power cut"])
@pytest.mark.parametrize("before", [no_old, one_old, two_old_and_a_best, a_broken_one_of_the_same_step])
def test_a_crash_anywhere_in_a_save(tmp_path, before, end):
    """At every write, flush, rename, mkdir and removal: the old checkpoint or the new one, whole."""
    seen = []
    for place in range(1, 100):
        folder = tmp_path / str(place) / "checkpoints"
        folder.parent.mkdir()
        with pytest.MonkeyPatch.context() as patch:
            disk = Disk(patch, 0)
            old = before(folder)
            disk.count, disk.fails_at = 0, place
            try:
                save(folder, 25)
                crashed = False
            except Crash:
                crashed = True
            if end == "power cut":
                disk.lose_unsynced(folder)
        found = step_of(folder)
        assert found in old | {25}, f"neither old nor new after a crash at {disk.log[place - 1]}"
        seen.append(found)
        # Whatever files remain, the run resumes.
        if folder.exists():
            remove_partial_files(folder)
        save(folder, 30)
        assert step_of(folder) == 30
        assert not [path for path in folder.iterdir() if path.name.startswith(".")]
        if not crashed:
            break
    assert not crashed, "the save never came to its end"
    assert len(seen) > 8, "hardly anything was interrupted"
    assert set(seen) == old | {25}, "both sides of the rename were met"
    assert seen == sorted(seen, key=lambda step: step == 25), "once the new one is there it stays"


def test_a_thousand_corruptions(tmp_path, caplog):
    """Nothing corrupt is loaded, but the checkpoint before it."""
    good = tmp_path / "good"
    save(good, 5)
    save(good, 10)
    names = sorted(path.name for path in (good / "0000010").iterdir())
    rng = random.Random(0)
    outcomes = {5: 0, 10: 0}
    folder = tmp_path / "checkpoints"
    shutil.copytree(good, folder)
    for number in range(1000):
        file = folder / "0000010" / rng.choice(names)
        whole = file.read_bytes()
        kind = ("flip", "flip", "flip", "cut", "zeros", "longer", "gone", "older")[number % 8]
        place = rng.randrange(len(whole))
        if kind == "flip":
            file.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << rng.randrange(8)]) + whole[place + 1 :])
        elif kind == "cut":
            file.write_bytes(whole[:place])
        elif kind == "zeros":
            file.write_bytes((whole[:place] + bytes(64) + whole[place + 64 :])[: len(whole)])
        elif kind == "longer":
            file.write_bytes(whole + rng.randbytes(9))
        elif kind == "gone":
            file.unlink()
        else:
            shutil.copy(folder / "0000005" / file.name, file)
        changed = not file.exists() or file.read_bytes() != whole
        caplog.clear()
        found = step_of(folder)
        assert found in (5, 10), kind
        if file.suffix == ".safetensors":
            assert found == (5 if changed else 10), f"{kind} at {place} of {file.name} was not noticed"
        assert ("cannot be used" in caplog.text) == (found == 5)
        outcomes[found] += 1
        file.write_bytes(whole)
    assert outcomes[5] > 900
    assert step_of(folder) == 10


def test_no_valid_checkpoint(tmp_path, caplog):
    assert load_checkpoint(tmp_path / "checkpoints") is None
    path = save(tmp_path, 5)
    (path / "manifest.json").write_text("[]")
    assert load_checkpoint(tmp_path) is None
    (path / "manifest.json").write_text("[" * 100_000)
    assert load_checkpoint(tmp_path) is None
    shutil.rmtree(path)
    path.write_text("a file where a folder should be")
    assert load_checkpoint(tmp_path) is None
    assert caplog.text.count("cannot be used") == 3


def remaining(folder):
    return [int(path.name) for path in sorted(folder.iterdir())]


def test_last_two_and_best_checkpoints_remain(tmp_path):
    for step in (1, 2, 3):
        save(tmp_path, step)
    assert remaining(tmp_path) == [2, 3]
    for step, loss in [(4, 2.0), (5, 1.0), (6, 3.0), (7, None), (8, 1.5)]:
        save(tmp_path, step, dev_loss=loss)
    assert remaining(tmp_path) == [5, 7, 8]
    save(tmp_path, 9, dev_loss=0.5)
    save(tmp_path, 10, dev_loss=float("nan"))
    save(tmp_path, 11)
    assert remaining(tmp_path) == [9, 10, 11]


def best_of(folder):
    return load_checkpoint(folder, best=True)[1].step


def test_the_first_of_several_best_checkpoints_counts(tmp_path):
    """Wherever the run was interrupted, which leaves checkpoints at other steps."""
    for step, loss in [(10, 2.0), (20, 1.0), (30, 1.0), (40, 1.5)]:
        save(tmp_path / "whole", step, dev_loss=loss)
        save(tmp_path / "interrupted", step - 1)
        save(tmp_path / "interrupted", step, dev_loss=loss)
        assert best_of(tmp_path / "whole") == best_of(tmp_path / "interrupted") == min(step, 20)


def test_a_damaged_best_checkpoint_is_an_error(tmp_path):
    for step, loss in [(1, 2.0), (2, 1.0), (3, 1.5), (4, 1.2)]:
        save(tmp_path, step, dev_loss=loss)
    assert best_of(tmp_path) == 2
    weights = tmp_path / "0000002" / "weights.safetensors"
    content = weights.read_bytes()
    weights.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(CheckpointError, match=r"best checkpoint.*damaged"):
        load_checkpoint(tmp_path, best=True)
    shutil.rmtree(weights.parent)
    with pytest.raises(CheckpointError, match="best checkpoint"):
        load_checkpoint(tmp_path, best=True)
    assert load_checkpoint(tmp_path)[1].step == 4
    save(tmp_path, 5, dev_loss=0.5)
    assert best_of(tmp_path) == 5


def test_without_a_finite_dev_loss_the_last_checkpoint_is_the_best(tmp_path):
    for step in (1, 2):
        save(tmp_path, step, dev_loss=float("nan"))
    assert best_of(tmp_path) == 2


def test_invalid_checkpoints_do_not_displace_valid_ones(tmp_path):
    """A run that resumed from before two invalid checkpoints must not delete new ones in their favour."""
    for step in (15, 20, 25):
        save(tmp_path, step)
    save(tmp_path, 30)
    assert remaining(tmp_path) == [25, 30]
    for step in (25, 30):
        (tmp_path / f"{step:07d}" / "weights.safetensors").write_bytes(b"")
    save(tmp_path, 16)
    save(tmp_path, 17)
    assert remaining(tmp_path) == [16, 17]
    assert step_of(tmp_path) == 17


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("group", ["weights", "optimizer"])
def test_non_finite_weights_are_not_saved(tmp_path, bad, group):
    save(tmp_path, 5)
    state = state_of(10)
    next(iter(state.tensors[group].values()))[3, 1] = bad
    with pytest.raises(CheckpointError, match="non-finite"):
        save_checkpoint(tmp_path, state, step=10, fingerprint=PRINT)
    assert remaining(tmp_path) == [5]


class Standing:
    """A learner with a state only."""

    total = 100

    def __init__(self, step=0, size=300):
        self.step = step
        self.size = size

    def state(self):
        return state_of(self.step, self.size)

    def restore(self, state):
        self.step = state.values["done"]


@pytest.fixture
def run(tmp_path, any_tiny):
    run = RunDirectory.create(tmp_path / "run", any_tiny.recipe, any_tiny.tokenizer)
    run.fingerprint = PRINT
    yield run
    run.close()


@contextmanager
def room_for(num_bytes):
    """Limit the size of files; the system reports writes beyond it like a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def assert_nothing_left(run):
    assert not [path for path in run.folder.rglob("*") if path.name.startswith(".")]


def test_disk_full_at_twenty_offsets(run, caplog):
    """With a real limit, the run continues and the checkpoint before is unchanged."""
    assert run.save(Standing(5), 5)
    size = max(file.stat().st_size for file in (run.folder / "checkpoints").rglob("*.safetensors"))
    for part in range(20):
        caplog.clear()
        with room_for(size * part // 20):
            assert not run.save(Standing(10), 10)
        assert "step 10 was not saved" in caplog.text
        assert len(caplog.records) == 1 and "\n" not in caplog.records[0].getMessage()
        assert_nothing_left(run)
        assert step_of(run.folder / "checkpoints") == 5
    assert run.save(Standing(10), 10)
    assert step_of(run.folder / "checkpoints") == 10


def no_space(name):
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), name)


def test_disk_full_at_any_operation(run, caplog):
    with pytest.MonkeyPatch.context() as patch:
        disk = Disk(patch, 0, failure=no_space, goes_on=True)
        for step in (1, 2):
            assert run.save(Standing(step), step)
    old = 2
    for place in range(1, 100):
        caplog.clear()
        with pytest.MonkeyPatch.context() as patch:
            disk = Disk(patch, place, failure=no_space, goes_on=True)
            saved = run.save(Standing(place + 2), place + 2)
        assert_nothing_left(run)
        assert saved or "was not saved (" in caplog.text
        found = step_of(run.folder / "checkpoints")
        assert found == place + 2 if saved else found in (old, place + 2)
        old = found
        if disk.count < place:
            break
    assert saved and 8 < place < 99


def test_free_space_is_checked_before_writing(run, caplog, monkeypatch):
    assert run.save(Standing(5), 5)
    monkeypatch.setattr("shutil.disk_usage", lambda path: shutil._ntuple_diskusage(10**9, 10**9 - 100, 100))
    monkeypatch.setattr("polyseme.system.safetensors_io.save_file", None)
    assert not run.save(Standing(10), 10)
    assert "and 100 bytes are free" in caplog.text
    assert step_of(run.folder / "checkpoints") == 5


def test_a_step_is_saved_once(run, monkeypatch):
    assert run.save(Standing(5), 5)
    monkeypatch.setattr("polyseme.system.safetensors_io.save_file", None)
    assert run.save(Standing(5), 5)


def test_changed_fingerprint_is_reported(run, caplog):
    run.save(Standing(5), 5)
    assert run.restore(Standing()) == 5
    assert not caplog.records
    run.fingerprint = {**PRINT, "threads": 2}
    assert run.restore(Standing()) == 5
    assert "threads was 1 and is 2" in caplog.text and "not be bit for bit" in caplog.text


def test_fingerprint():
    found = fingerprint(data="a", recipe="b")
    assert set(found) == {"torch", "threads", "cores", "capability", "dtype", "data", "recipe"}
    assert json.loads(json.dumps(found)) == found
    assert found != fingerprint(data="c", recipe="b") and found != fingerprint(data="a", recipe="c")
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(before + 1)
        assert fingerprint(data="a", recipe="b") != found
    finally:
        torch.set_num_threads(before)


def test_learner_checkpoint_round_trip_is_exact(tmp_path, tiny):
    learner = tiny.learner()
    for _, _ in zip(range(3), learner.steps(), strict=False):
        pass
    save_checkpoint(tmp_path, learner.state(), step=3, fingerprint=PRINT)
    state, manifest = load_checkpoint(tmp_path)
    expected = learner.state()
    assert state.values == expected.values and manifest.step == 3
    for group, tensors in expected.tensors.items():
        assert state.tensors[group].keys() == tensors.keys()
        assert all(torch.equal(state.tensors[group][name], tensor) for name, tensor in tensors.items())
    assert checkpoints.MANIFEST in [path.name for path in (tmp_path / "0000003").iterdir()]
