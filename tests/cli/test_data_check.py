"""Checks of labelled files before training, as a table and as JSON."""

import json
import sys

import pytest


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    train = ["text\tlabel", *(f"the river bank {n} by the mill\t{'ab'[n % 2]}" for n in range(40))]
    (tmp_path / "train.tsv").write_text("\n".join(train))
    (tmp_path / "dev.tsv").write_text("\n".join(["text\tlabel", "a dry spring\ta", "The river  bank 7 by the mill\tb"]))
    (tmp_path / "fine.tsv").write_text("\n".join(["text\tlabel", "a dry spring\ta", "a late spring\tb"]))
    (tmp_path / "other.csv").write_text("grade,note\n" + "".join(f"{n % 2},day {n}\n" for n in range(40)))
    return tmp_path


def test_no_problems(polyseme, files):
    ended = polyseme("data", "check", "train.tsv", "--against", "fine.tsv")
    assert ended.code == 0 and ended.err.startswith(
        "no problems found\nnext: polyseme finetune MODEL --train train.tsv"
    )
    assert ended.out.splitlines() == [
        "classify\ttrain.tsv\tfine.tsv",
        "rows\t40\t2",
        "invalid\t0\t0",
        "damaged\t0\t0",
        "contradicting\t0\t0",
        "repeated\t0\t0",
        "leaked\t0\t0",
        "characters (minimum, median, 95 %, maximum)\t28 / 29 / 29 / 29\t12 / 12 / 13 / 13",
        "words (minimum, median, 95 %, maximum)\t7 / 7 / 7 / 7\t3 / 3 / 3 / 3",
        "label\ttrain.tsv\tfine.tsv",
        "a\t20\t1",
        "b\t20\t1",
    ]


def test_problems_set_the_exit_code(polyseme, files):
    ended = polyseme("data", "check", "train.tsv", "--against", "fine.tsv", "--against", "dev.tsv")
    assert ended.code == 1 and ended.err.count("\n") == 1
    *_, header, fine, leaked = ended.out.splitlines()
    assert header == "finding\tfile\trows\twhich"
    assert fine.startswith("problem\tdev.tsv\t1\talso occur in fine.tsv (line 2 = line 2)")
    assert leaked.startswith("problem\tdev.tsv\t1\talso occur in train.tsv (line 3 = line 9)")


def test_json(polyseme, files):
    ended = polyseme("data", "check", "train.tsv", "--against", "dev.tsv", "--json")
    report = json.loads(ended.out)
    assert ended.code == 1 and report["task"] == "classify"
    train, dev = report["files"]
    assert train["labels"] == {"a": 20, "b": 20} and (train["leaked"], dev["leaked"]) == (0, 1)
    assert dev["words"] == {"minimum": 3, "median": 3, "percentile_95": 7, "maximum": 7} and dev["tokens"] is None
    (finding,) = report["findings"]
    assert finding["is_problem"] and finding["file"] == "dev.tsv" and finding["num_rows"] == 1


def test_columns_by_another_name(polyseme, files):
    assert polyseme("data", "check", "other.csv").code == 2
    ended = polyseme("data", "check", "other.csv", "--column", "text=note", "--column", "label=grade")
    assert ended.code == 0 and "\n0\t20\n1\t20\n" in ended.out


def test_check_with_the_tokenizer_of_a_model(polyseme, files, bert):
    ended = polyseme("data", "check", "train.tsv", "--model", bert, "--json")
    facts = json.loads(ended.out)["files"][0]
    assert facts["tokens"]["median"] >= 9 and facts["too_long"] == 0 and 0 <= facts["unknown_tokens"] < 0.5
    (files / "long.tsv").write_text("text\tlabel\n" + "".join(f"{'the river ' * 50}{n}\t{n % 2}\n" for n in range(20)))
    ended = polyseme("data", "check", "long.tsv", "--model", bert)
    assert ended.code == 1 and "exceed the model's 48 tokens and are truncated (line 2, line 3" in ended.out
    assert "too long\t20\n" in ended.out


def test_a_table_on_a_terminal(polyseme, files, monkeypatch):
    (files / "tags.conll").write_text("".join(f"word{n} TAG{n % 30}\n\n" for n in range(60)))
    plain = polyseme("data", "check", "tags.conll").out
    assert "TAG19\t2\n… 10 more\t\n" in plain
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr(type(sys.stdout), "isatty", lambda self: True, raising=False)
    drawn = polyseme("data", "check", "tags.conll").out
    assert "\t" not in drawn and "─" in drawn and "… 10 more" in drawn


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none.tsv"], "none.tsv: no such file"),
        (["train.tsv", "--task", "pairs"], "task.kind: 'pairs' is not a task; did you mean pair?"),
        (["train.tsv", "--task", "pair"], "train.tsv: no column 'text_a'; did you mean text?"),
        (["train.tsv", "--against", "other.csv"], "other.csv: no column 'text'"),
        (["other.csv"], "no task has the columns grade, note"),
        (["train.tsv", "--column", "text"], "--column text: name the field and the column"),
        (["train.tsv", "--column", "txt=text"], "the task has no column 'txt'; did you mean text?"),
        (["train.tsv", "--model", "nowhere"], "nowhere does not exist"),
        (["train.tsv", "--model", "empty"], "empty"),
        (["empty"], "empty is a folder; name one of its files"),
        ([], "Missing"),
    ],
)
def test_user_errors(polyseme, files, arguments, message):
    (files / "empty").mkdir()
    ended = polyseme("data", "check", *arguments)
    assert ended.code == 2 and ended.out == ""
    assert message in ended.err and ended.err.startswith("polyseme: ") and ended.err.count("\n") == 1
