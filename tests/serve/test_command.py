"""Mistakes on the command line are one line and code 2; what is served is said."""

import socket

import pytest

from polyseme.cli import run


@pytest.fixture
def command(capsys, monkeypatch):
    monkeypatch.delenv("POLYSEME_API_KEY", raising=False)

    def told(*arguments):
        capsys.readouterr()
        code = run(["serve", *map(str, arguments)])
        found = capsys.readouterr()
        assert found.out == "" and "Traceback" not in found.err
        return code, found.err

    return told


def test_mistakes(command, folders, tmp_path):
    (tmp_path / "empty").mkdir()
    bert = folders["bert"]
    mistakes = [
        (["--port", "0", tmp_path / "none"], "none of these can be served"),
        (["--port", "0", tmp_path / "empty"], "none of these can be served"),
        ([bert, "--host", "0.0.0.0"], "give an --api-key"),
        ([bert, "--host", "192.0.2.1", "--api-key", "a-secret-of-ours"], "192.0.2.1:8000 cannot be used"),
        ([bert, "--api-key", "short"], "at least 8"),
        ([bert, "--quantize", "int4"], "say int8 or none"),
        ([bert, "--port", "70000"], "--port"),
    ]
    for arguments, phrase in mistakes:
        code, said = command(*arguments)
        assert code == 2 and phrase in said.splitlines()[-1], said
        assert said.splitlines()[-1].startswith("polyseme: ")


def test_a_port_that_is_taken(command, folders):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        code, said = command(folders["bert"], "--port", taken.getsockname()[1])
    assert code == 2 and "cannot be used" in said


def test_a_key_in_the_environment(command, folders, monkeypatch):
    monkeypatch.setenv("POLYSEME_API_KEY", "short")
    code, said = command(folders["bert"], "--host", "0.0.0.0")
    assert code == 2 and "at least 8" in said
