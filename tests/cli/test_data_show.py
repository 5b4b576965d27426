"""Training batches as text, and joined phrases."""

import json
import re
import sys
import tomllib

import pytest
from tests.cli.conftest import TINY


def test_masked_sequences_with_their_targets(polyseme, bert):
    ended = polyseme("data", "show", bert, "--rows", 2, "--step", 39)
    assert ended.code == 0
    first, row, second, _ = ended.out.splitlines()
    assert re.fullmatch("row 0, next_sentence: (follows|elsewhere)", first) and second.startswith(
        "row 1, next_sentence: "
    )
    assert row.startswith("[CLS]") and row.endswith("[SEP]") and "[MASK]{" in row
    assert ended.err == f"next: polyseme info {bert}\n"


def test_json_has_the_targets(polyseme, bert, documents):
    ended = polyseme("data", "show", bert, "--json", "--rows", 1000, "--step", 39)
    rows = [json.loads(line) for line in ended.out.splitlines()]
    assert ended.code == 0 and [row["row"] for row in rows] == list(range(8))
    for row in rows:
        assert row["next_sentence"] in ("follows", "elsewhere") and "[MASK]" not in row["text"]
        assert all(token["target"] != "[MASK]" for token in row["targets"])
    inputs = [token["input"] for row in rows for token in row["targets"]]
    assert 0.6 < inputs.count("[MASK]") / len(inputs) < 0.95
    again = polyseme("data", "show", bert, "--json", "--rows", 1000, "--step", 39)
    assert again.out == ended.out


def test_causal_rows_are_plain(polyseme, gpt2):
    ended = polyseme("data", "show", gpt2, "--rows", 1)
    title, *text = ended.out.splitlines()
    assert ended.code == 0 and title == "row 0" and "{" not in "".join(text)


def test_colours_on_a_terminal_only(polyseme, bert, monkeypatch):
    plain = polyseme("data", "show", bert, "--rows", 1).out
    assert "\x1b" not in plain
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(type(sys.stdout), "isatty", lambda self: True, raising=False)
    coloured = polyseme("data", "show", bert, "--rows", 1).out
    assert "\x1b[1;31m[MASK]\x1b[0m" in coloured
    assert re.sub(r"\s|\x1b\[[\d;]*m", "", coloured) == re.sub(r"\s", "", plain)


@pytest.mark.parametrize(("arguments", "message"), [(["--step", "40"], "has 40 steps"), (["--rows", "0"], "--rows")])
def test_user_errors(polyseme, bert, arguments, message):
    ended = polyseme("data", "show", bert, *arguments)
    assert ended.code == 2 and message in ended.err and ended.err.count("\n") == 1


def test_other_directories_are_refused(polyseme, tmp_path):
    ended = polyseme("data", "show", tmp_path)
    assert ended.code == 2 and f"{tmp_path} has no recipe.toml" in ended.err


def test_masking_option_sets_the_objective(polyseme, corpus_file, tmp_path):
    settings = [part for setting in [*TINY, "objective.pairs=none"] for part in ("--set", setting)]
    options = ["--corpus", corpus_file, "--size", "tiny", "--budget", "2steps", *settings]
    ended = polyseme("pretrain", "bert", *options, "--masking", "word", "--out", tmp_path / "run")
    assert ended.code == 0
    recipe = tomllib.loads((tmp_path / "run" / "recipe.toml").read_text())
    assert recipe["objective"]["masking"] == "word"
    assert polyseme("data", "show", tmp_path / "run").code == 0
    ended = polyseme("pretrain", "gpt2", *options, "--masking", "word", "--out", tmp_path / "other")
    assert ended.code == 2 and "objective.masking" in ended.err
    ended = polyseme("pretrain", "bert", *options, "--masking", "wrod", "--out", tmp_path / "other")
    assert ended.code == 2 and ended.err.startswith("polyseme: objective.masking: should be 'token', 'word', ")


def test_phrases_become_words_of_a_model(polyseme, tmp_path):
    text, out = tmp_path / "text.txt", tmp_path / "joined.txt"
    words = ["the", "city", "of", "a", "river", "and", "old", "bank", "people", "see"]
    rows = [[words[(number * step) % 10] for step in (1, 3, 7, 9)] for number in range(200)]
    rows[::4] = [[*row[:2], "New", "York", *row[2:]] for row in rows[::4]]
    text.write_text("\n\n".join(" ".join(row) + "." for row in rows))

    ended = polyseme("data", "phrases", text, "--out", out, "--threshold", 10)
    assert ended.code == 0
    header, line = ended.out.splitlines()
    assert header == "phrase\tscore\tcount" and re.fullmatch(r"new_york\t\d\d\t50", line)
    assert f"{out}: 1 phrases, joined 50 times.\nnext: polyseme pretrain skipgram --corpus {out}" in ended.err
    assert out.read_text().replace("_", " ").split() == text.read_text().split()

    run = tmp_path / "run"
    ended = polyseme("pretrain", "skipgram", "--corpus", out, "--size", "tiny", "--budget", "2steps", "--out", run)
    assert ended.code == 0
    ended = polyseme("neighbours", run, "new_york", "--json")
    assert ended.code == 0 and json.loads(ended.out)["word"] == "new_york"
    assert "new" not in json.loads((run / "tokenizer.json").read_text())["model"]["vocab"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.txt", "--out", "joined.txt"], "nowhere.txt: no such file"),
        (["text.txt", "--out", "text.txt"], "text.txt exists; choose another --out"),
        (["text.txt", "--out", "joined.txt", "--min-count", "0"], "--min-count"),
        (["text.txt", "--out", "joined.txt", "--threshold", "high"], "--threshold"),
        (["text.txt", "--out", "joined.txt"], "distinct tokens"),
        (["text.txt"], "--out"),
    ],
)
def test_phrases_that_cannot_be_found(polyseme, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.txt").write_text("too short a text")
    ended = polyseme("data", "phrases", *arguments)
    assert ended.code == 2 and message in ended.err and ended.err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir() if path.name != "cache"] == ["text.txt"]
