"""Errors of `polyseme serve` are one line with exit code 2."""

import socket

import pytest

from polyseme.cli import run


@pytest.fixture
def command(capsys, monkeypatch):
    monkeypatch.delenv("POLYSEME_API_KEY", raising=False)

    def execute(*arguments):
        capsys.readouterr()
        code = run(["serve", *map(str, arguments)])
        output = capsys.readouterr()
        assert output.out == "" and "Traceback" not in output.err
        return code, output.err

    return execute


def test_errors(command, folders, tmp_path):
    (tmp_path / "empty").mkdir()
    bert = folders["bert"]
    cases = [
        (["--port", "0", tmp_path / "none"], "nothing to serve"),
        (["--port", "0", tmp_path / "empty"], "nothing to serve"),
        ([bert, "--host", "0.0.0.0"], "--api-key"),
        ([bert, "--host", "192.0.2.1", "--api-key", "a-secret-of-ours"], "cannot listen on 192.0.2.1:8000"),
        ([bert, "--api-key", "short"], "at least 8"),
        ([bert, "--quantize", "int4"], "int8 or none"),
        ([bert, "--port", "70000"], "--port"),
    ]
    for arguments, phrase in cases:
        code, output = command(*arguments)
        assert code == 2 and phrase in output.splitlines()[-1], output
        assert output.splitlines()[-1].startswith("polyseme: ")


def test_port_in_use(command, folders):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        code, output = command(folders["bert"], "--port", taken.getsockname()[1])
    assert code == 2 and "cannot listen on" in output


def test_key_from_the_environment(command, folders, monkeypatch):
    monkeypatch.setenv("POLYSEME_API_KEY", "short")
    code, output = command(folders["bert"], "--host", "0.0.0.0")
    assert code == 2 and "at least 8" in output
