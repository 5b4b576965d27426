"""`polyseme senses`: a table, JSON, a page, and user errors."""

import json

import pytest

ROWS = "text\tlabel\nThe bank lends money\tmoney\nThe Bank of a river\triver\nmoney in a bank\tmoney\n"
ROWS += "the river has a bank\triver\nno such word\tmoney\n"


@pytest.fixture
def desk(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bank.tsv").write_text(ROWS)
    (tmp_path / "lines.txt").write_text("The bank lends.\nA bank and another bank.\n")
    (tmp_path / "one.tsv").write_text("text\tlabel\nThe bank\tmoney\nA bank\tmoney\n")
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "words.vec").write_text("bank 1 2\nriver 3 4\n")
    return tmp_path


def test_several_models(polyseme, desk, bert):
    ended = polyseme("senses", "words.vec", bert, "--word", "bank", "--texts", "bank.tsv", "--out", "bank.html")
    assert ended.code == 0
    lines = [line.split("\t") for line in ended.out.splitlines()]
    assert lines[0][:5] == ["model", "layer", "1-NN", "s.e.", "silhouette"] and lines[0][-1] == "explained variance"
    assert [line[:2] for line in lines[1:]] == [
        ["words.vec", "static"],
        *(["bert", str(n)] for n in range(len(lines) - 2)),
    ]
    assert ended.err.splitlines() == [
        "bank: 4 occurrences; money 2, river 2",
        "Saved bank.html; open it in a browser.",
        f"next: polyseme evaluate {bert} --suite senses --data FOLDER",
    ]
    assert (desk / "bank.html").read_text().startswith("<!doctype html>")


def test_json(polyseme, desk, bert):
    arguments = ["senses", bert, "--word", "bank", "--texts", "bank.tsv", "--against", "bank.tsv", "--json"]
    ended = polyseme(*arguments)
    rows = [json.loads(line) for line in ended.out.splitlines()]
    assert ended.code == 0 and [row["layer"] for row in rows] == list(range(len(rows))) and len(rows) > 1
    assert rows[-1]["accuracy"] == 1.0 and rows[-1]["senses"] == {"money": 4, "river": 4}
    assert set(rows[0]) == {
        "model", "family", "static", "word", "tokens", "occurrences", "senses", "layer", "accuracy", "error",
        "silhouette", "self_similarity", "random_similarity", "centroid_distance", "explained",
    }  # fmt: skip
    assert polyseme(*arguments).out == ended.out


def test_texts_without_senses(polyseme, desk, bert):
    ended = polyseme("senses", bert, "--word", "bank,banks", "--texts", "lines.txt", "--max-occurrences", "2")
    assert ended.code == 0 and ended.out.startswith("model\tlayer\tself similarity\t")
    assert ended.err.splitlines() == [
        "bank, banks: 2 occurrences of 3, sampled at random",
        f"next: polyseme senses {bert} --word bank,banks --texts lines.txt --out senses.html",
    ]


def test_one_sense(polyseme, desk):
    ended = polyseme("senses", "words.vec", "--word", "bank", "--texts", "one.tsv")
    assert ended.code == 0 and "all occurrences have the same sense" in ended.err
    assert "1-NN" not in ended.out


def test_names(polyseme, desk):
    (desk / "more").mkdir()
    (desk / "more" / "words.vec").write_text("bank 1 2\nriver 3 4\n")
    ended = polyseme("senses", "words.vec", "more/words.vec", "--word", "bank", "--texts", "one.tsv")
    names = [line.split("\t")[0] for line in ended.out.splitlines()[1:]]
    assert names == [f"{desk.name}/words.vec", "more/words.vec"]


@pytest.mark.parametrize(
    ("changes", "phrase"),
    [
        ({"--word": "spring"}, "spring does not occur in bank.tsv (5 texts)"),
        ({"--word": " "}, "the word is empty"),
        ({"--texts": "empty.txt"}, "empty.txt contains no text"),
        ({"--texts": "bnak.tsv"}, "bnak.tsv: no such file; did you mean bank.tsv?"),
        ({"--against": "empty.txt"}, "empty.txt contains no text"),
        ({"--out": "page.pdf"}, "page.pdf has the wrong extension"),
        ({"--out": "no/page.html"}, "no/page.html cannot be written"),
        ({"--case": "lower"}, "senses.case: should be 'any' or 'exact'"),
        ({"--column": "lable=x"}, "did you mean label?"),
        ({"--column": "text=x"}, "no column 'x'"),
        ({"--max-occurrences": "-1"}, "Invalid value"),
    ],
)
def test_user_errors(polyseme, desk, changes, phrase):
    given = {"--word": "bank", "--texts": "bank.tsv", **changes}
    before = sorted(desk.iterdir())
    ended = polyseme("senses", "words.vec", *(part for pair in given.items() for part in pair))
    assert ended.code == 2 and ended.out == "" and ended.err.count("\n") == 1, ended.err
    assert ended.err.startswith("polyseme: ") and phrase in ended.err
    assert sorted(desk.iterdir()) == before


def test_evaluate(polyseme, desk):
    sets = desk / "sets"
    sets.mkdir()
    for split in ("train", "test"):
        (sets / f"bank.{split}.tsv").write_text(
            "text\tindex\tsense\na bank\t1\tx\nbank\t0\tx\nriver\t0\ty\nriver a\t0\ty\n"
        )
    ended = polyseme("evaluate", "words.vec", "--suite", "senses", "--data", "sets")
    assert ended.code == 0 and ended.out.splitlines() == [
        "set\tsection\tmetric\tvalue\ts.e.\tscored",
        "bank\tstatic\tbalanced 1-NN accuracy\t0.500\t\t4 of 4",
        "bank\tlayer 0\tbalanced 1-NN accuracy\t1.000\t± 0.000\t4 of 4",
    ]
    ended = polyseme(
        "evaluate", "words.vec", "--suite", "senses", "--data", "sets", "--most", "3", "--seed", "1", "--json"
    )
    assert json.loads(ended.out.splitlines()[0])["items"] == 3
