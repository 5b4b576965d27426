"""A tiny trained model of each kind, and the command line in this process."""

import io
from dataclasses import dataclass

import pytest

import polyseme as ps
from polyseme.cli import run

TINY = [
    "model.vocab_size=400",
    "model.width=32",
    "model.max_length=48",
    "data.sequence_length=32",
    "training.batch_tokens=256",
]
TINY += ["training.threads=1"]


@pytest.fixture(scope="session")
def trained(corpus_file, tmp_path_factory):
    """Directories of a BERT and a GPT-2 that have seen thirty steps, or a little more."""
    place = tmp_path_factory.mktemp("trained")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("POLYSEME_CACHE", str(place / "cache"))
        for family in ("bert", "gpt2"):
            ps.pretrain(
                family,
                corpus=corpus_file,
                dev=corpus_file,
                out=place / family,
                size="tiny",
                budget="40steps",
                settings=TINY,
            )
    return place


@pytest.fixture(scope="session")
def bert(trained):
    return trained / "bert"


@pytest.fixture(scope="session")
def gpt2(trained):
    return trained / "gpt2"


@dataclass
class Ended:
    """The exit code and output of a command."""

    code: int
    out: str
    err: str


@pytest.fixture
def polyseme(capsys, monkeypatch):
    """Run a command line, with standard input where given."""

    def command(*arguments, stdin=None):
        file = io.TextIOWrapper(io.BytesIO(stdin if isinstance(stdin, bytes) else (stdin or "").encode()))
        monkeypatch.setattr("sys.stdin", file)
        capsys.readouterr()
        code = run([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Ended(code, captured.out, captured.err)

    return command
