"""`polyseme probe`."""

import json

import pytest

LABELLED = """1\tthe\t_\tDET\t_\t_\t2\tdet\t_\t_
2\tbank\t_\tNOUN\t_\t_\t3\tnsubj\t_\t_
3\tlends\t_\tVERB\t_\t_\t0\troot\t_\t_
4\tmoney\t_\tNOUN\t_\t_\t3\tobj\t_\t_

"""
TAGS = "the\tO\nbank\tB-place\nby\tO\n\nmoney\tB-thing\nof\tO\n\n"


@pytest.fixture
def desk(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.conllu").write_text(12 * LABELLED)
    (tmp_path / "dev.conllu").write_text(3 * LABELLED)
    (tmp_path / "tags.conll").write_text(12 * TAGS)
    (tmp_path / "topics.tsv").write_text("text\tlabel\n" + 12 * "the old bank\tmoney\na bat slept\tanimal\n")
    (tmp_path / "pairs.tsv").write_text("text_a\ttext_b\tlabel\na\tb\tc\n")
    (tmp_path / "same.conll").write_text(12 * "the\tX\n\n")
    (tmp_path / "broken.conllu").write_text(LABELLED.replace("\t3\tobj", "\tthree\tobj"))
    (tmp_path / "vectors.txt").write_text("the 1 2\nbank 3 4\nlends 0 1\nmoney 2 2\n")
    return tmp_path


def rows(text):
    return [line.split("\t") for line in text.splitlines()]


def test_tables(polyseme, bert, desk):
    ended = polyseme("probe", bert, "--data", "train.conllu", "--dev", "dev.conllu", "--epochs", 2)
    assert ended.code == 0
    first, *others = rows(ended.out)
    assert first[:3] == ["task", "model", "score"] and first[-2:] == ["metric", "dev items"]
    assert [row[:2] for row in others[:2]] == [["pos", "bert"], ["dependencies", "bert"]]
    assert [row[-1] for row in others[:2]] == ["12", "9"]
    assert others[2][:2] == ["task", "model"] and 0 <= float(others[3][2]) <= 2
    assert others[5][:4] == ["task", "model", "layer", "weight"]
    weights = [float(row[3]) for row in others[6:] if row[0] == "pos"]
    assert sum(weights) == pytest.approx(1, abs=0.01) and len(weights) == 3
    assert ended.err.startswith("next: polyseme probe ") and ended.err.endswith(" --seeds 3 --out charts\n")


def test_json_is_the_same_every_time(polyseme, bert, gpt2, desk):
    command = ["probe", bert, f"mine={gpt2}", "--data", "tags.conll", "--epochs", 1, "--seeds", 2, "--json"]
    ended = polyseme(*command)
    assert ended.code == 0 and ended.err.startswith("next: ")
    found = [json.loads(line) for line in ended.out.splitlines()]
    assert [row["model"] for row in found] == ["bert", "mine"] and {row["task"] for row in found} == {"tag"}
    assert found[0]["metric"] == "f1" and found[0]["num_seeds"] == 2
    assert found[0]["centre_of_gravity"]["mean"] == pytest.approx(
        sum(layer["layer"] * layer["weight"]["mean"] for layer in found[0]["layers"]), abs=1e-5
    )
    assert polyseme(*command).out == ended.out
    assert polyseme(*command, "--seed", 1).out != ended.out


def test_several_files_and_models_in_one_page(polyseme, bert, desk):
    files = ["--data", "words=train.conllu", "--data", "topics=topics.tsv", "--data", "names=tags.conll"]
    tasks = ["--task", "words=POS", "--dev", "words=dev.conllu"]
    ended = polyseme("probe", bert, "vectors.txt", *files, *tasks, "--epochs", 1, "--out", "charts")
    assert ended.code == 0
    assert "vectors.txt has one layer" in ended.err
    assert "Saved charts/probe.html, probe.svg and probe.json." in ended.err
    saved = json.loads((desk / "charts" / "probe.json").read_text())["probes"]
    assert [(row["model"], row["task"]) for row in saved] == [
        (model, task) for model in ("bert", "vectors.txt") for task in ("words", "topics", "names")
    ]
    page = (desk / "charts" / "probe.html").read_text()
    assert page.count("<svg") == 6 and "default-src 'none'" in page


def test_spans_in_json(polyseme, bert, desk):
    line = '{"text": "the bank lends money", "targets": [{"span1": [0, 2], "span2": [3, 4], "label": "%s"}]}\n'
    (desk / "spans.jsonl").write_text(10 * (line % "lends" + line % "pays"))
    ended = polyseme("probe", bert, "--data", "spans.jsonl", "--json", "--epochs", 1, "--out", "spans.html")
    assert ended.code == 0 and json.loads(ended.out)["task"] == "edges"
    assert (desk / "spans.html").exists() and (desk / "spans.svg").exists()


MISTAKES = {
    "no file": (["--data", "trian.conllu"], "trian.conllu: no such file; did you mean train.conllu?"),
    "a kind": (["--data", "train.conllu", "--task", "poss"], "unknown probing task 'poss'; did you mean pos?"),
    "no spans": (["--data", "pairs.tsv"], "pairs.tsv: no column 'text'"),
    "a broken line": (["--data", "broken.conllu"], "broken.conllu, line 4: the word has no valid head"),
    "nothing to learn": (["--data", "same.conll"], "all targets have the label 'X'"),
    "no names": (["--data", "tags.conll", "--data", "topics.tsv"], "with several, write NAME=tags.conll"),
    "names": (["--data", "a=tags.conll", "--data", "a=topics.tsv"], "this name is used twice"),
    "a dev of nothing": (["--data", "a=tags.conll", "--dev", "b=tags.conll"], "--dev b: no --data has this name"),
    "a dev without a name": (["--data", "a=tags.conll", "--dev", "tags.conll"], "--dev tags.conll: no --data has"),
    "a task of nothing": (["--data", "tags.conll", "--task", "b=tag"], "--task b: no --data has this name"),
    "out of place": (
        ["--data", "tags.conll", "--out", "tags.conll"],
        "tags.conll is a file; give --out a folder, or a page",
    ),
    "epochs": (["--data", "tags.conll", "--epochs", "0"], "greater than or equal to 1"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_user_errors(polyseme, bert, desk, case):
    arguments, phrase = MISTAKES[case]
    ended = polyseme("probe", bert, *arguments)
    assert ended.code == 2 and phrase in ended.err
    assert len(ended.err.splitlines()) == 1 and ended.err.startswith("polyseme: ") and ended.out == ""


def test_models_by_name(polyseme, bert, desk):
    ended = polyseme("probe", f"a={bert}", f"a={bert}", "--data", "tags.conll")
    assert ended.code == 2 and "two models have the same name; use NAME=MODEL" in ended.err
    ended = polyseme("probe", "runs/nothing", "--data", "tags.conll")
    assert ended.code == 2 and "runs/nothing does not exist" in ended.err
