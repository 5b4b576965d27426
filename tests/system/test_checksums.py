"""Checksums of large files are computed once, until the file changes."""

import os
import time

import pytest

from polyseme.system import checksums
from polyseme.system.atomic_io import sha256
from polyseme.system.checksums import has_checksum

SIZE = 3_000_000


@pytest.fixture
def reads(monkeypatch):
    """The files that were read for their checksum."""
    found = []

    def counted(path):
        found.append(path)
        return sha256(path)

    monkeypatch.setattr(checksums, "sha256", counted)
    return found


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.setenv("POLYSEME_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "weights"
    path.write_bytes(os.urandom(SIZE))
    age(path)
    return path


def age(path):
    """Set the time of a file to an hour ago."""
    hour_ago = time.time() - 3600
    os.utime(path, (hour_ago, hour_ago))


def test_a_file_is_read_once(file, reads):
    digest = sha256(file)
    assert all(has_checksum(file, digest) for _ in range(3))
    assert reads == [file]
    assert not has_checksum(file, "0" * 64), "another checksum than that which is cached"


def test_a_changed_file_is_read_again(file, reads):
    digest = sha256(file)
    assert has_checksum(file, digest)
    content = file.read_bytes()
    file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))  # the same size at another time
    assert not has_checksum(file, digest)
    age(file)
    replacement = file.with_name("other")
    replacement.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    os.utime(replacement, ns=(file.stat().st_mtime_ns,) * 2)
    file.write_bytes(content)
    age(file)
    assert has_checksum(file, digest)
    os.utime(replacement, ns=(file.stat().st_mtime_ns,) * 2)
    replacement.rename(file)  # the same size and time, in another place of the disk
    assert not has_checksum(file, digest)


def test_a_file_that_was_just_written_is_read_again(file, reads):
    """It could change once more without another time."""
    os.utime(file)
    assert has_checksum(file, sha256(file)) and has_checksum(file, sha256(file))
    assert len(reads) == 2


@pytest.mark.parametrize("damage", [b"", b"{}", b"[]", b"\xff", b"x" * 100_000, None])
def test_a_damaged_cache_is_not_believed(damage, file, reads, tmp_path):
    digest = sha256(file)
    assert has_checksum(file, digest)
    (entry,) = (tmp_path / "cache" / "checksums").iterdir()
    if damage is None:
        entry.unlink()
        entry.mkdir()
    else:
        entry.write_bytes(damage)
    assert has_checksum(file, digest) and len(reads) == 2


def test_without_a_cache(file, reads, tmp_path, monkeypatch):
    (tmp_path / "no folder").write_text("")
    monkeypatch.setenv("POLYSEME_CACHE", str(tmp_path / "no folder" / "cache"))
    digest = sha256(file)
    assert has_checksum(file, digest) and has_checksum(file, digest)
    assert len(reads) == 2
