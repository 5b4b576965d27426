import gzip

import pytest

from polyseme.errors import CheckpointError, ConfigError, DataError
from polyseme.system.io_errors import readable, writable


def test_missing_file(tmp_path):
    path = tmp_path / "a.txt"
    message = r"a\.txt cannot be read \(No such file or directory\); check the path"
    with pytest.raises(DataError, match=message), readable(path):
        path.read_text()
    with pytest.raises(CheckpointError, match=r"; copy it again$"), readable(path, "copy it again", CheckpointError):
        path.read_text()


def test_damaged_archive(tmp_path):
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(b"text" * 1000)[:-9])
    with pytest.raises(DataError, match="damaged or truncated"), readable(path), gzip.open(path) as file:
        file.read()


def test_unwritable_folder(tmp_path):
    path = tmp_path / "none" / "a.txt"
    message = r"cannot be written \(No such file or directory\); choose another --out"
    with pytest.raises(DataError, match=message), writable(path, "choose another --out"):
        path.write_text("text")


@pytest.mark.parametrize("error", [ConfigError("one"), ValueError("two")])
def test_other_errors_pass(error):
    with pytest.raises(type(error), match=str(error)), readable("a.txt"), writable("b.txt", "choose another"):
        raise error
