"""Words are found in lines and tables of many kinds, with their senses."""

import json
import shutil

import pytest

from polyseme.errors import ConfigError, DataError
from polyseme.inside import occurrences
from polyseme.inside.occurrences import Forms, Occurrence, draw, given_occurrences, read_occurrences
from polyseme.text.town import write


def words(forms, text, **settings):
    return [text[start:end] for start, end in Forms(forms, **settings).find(text)]


@pytest.mark.parametrize(
    ("forms", "text", "found"),
    [
        (
            "bank",
            "Bank on it: the bank's bank, not banks nor banking nor embank; BANK",
            ["Bank", "bank", "bank", "BANK"],
        ),
        ("bank,banks", "Banks bank on banking.", ["Banks", "bank"]),
        ("bank, banks", "a bank_holiday, a bank-holiday, bank2", ["bank"]),
        ("苹果", "他在苹果公司吃苹果。Apple苹果", ["苹果", "苹果", "苹果"]),
        ("iPhone", "买了iPhone手机，iPhones不行", ["iPhone"]),
        ("打", "他打了电话", ["打"]),
        ("new york", "New  York and new\nyork, but not new yorker", ["New  York", "new\nyork"]),
        ("cafe", "the cafe, the cafe\u0301", ["cafe"]),  # a mark goes with its letter
        ("c++", "C++ and c++17", ["C++", "c++"]),
        ("a.c", "abc a.c", ["a.c"]),
        ("bank", "", []),
    ],
)
def test_words_are_found(forms, text, found):
    assert words(forms, text) == found


def test_capitals_count_if_asked():
    assert words("Bank", "Bank of the bank", case="exact") == ["Bank"]


def test_no_word():
    for nothing in ("", " , ", "，"):
        with pytest.raises(ConfigError, match="there is no word to look for"):
            Forms(nothing)


def read(path, word="bank", **settings):
    return list(read_occurrences(path, Forms(word), **settings))


def test_lines(tmp_path):
    path = tmp_path / "lines.txt"
    path.write_text("The bank and the bank.\n\nno word\nA bank\n" + "Some words. " * 100 + "By the bank. The end.\n")
    found = read(path)
    assert [occurrence.text.strip() for occurrence in found] == [
        *["The bank and the bank."] * 2,
        "A bank",
        "By the bank.",
    ]
    assert [occurrence.start for occurrence in found][:2] == [4, 17]
    assert all(occurrence.word == "bank" and occurrence.sense == "" for occurrence in found)


def test_tables(tmp_path):
    (tmp_path / "by_index.tsv").write_text("index\ttext\tsense\n4\tbank on the old bank .\triver\n0\tloan me some\tx\n")
    assert read(tmp_path / "by_index.tsv") == [
        Occurrence(text="bank on the old bank .", start=16, end=20, sense="river")
    ]
    rows = [
        {"text": "two banks", "word": "bank", "start": 4, "end": 9, "label": "money"},
        {"text": "spring by the bank", "word": "spring", "start": 0, "end": 6, "label": "water"},
        {"text": "bank, bank", "label": None},
    ]
    (tmp_path / "by_place.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = read(tmp_path / "by_place.jsonl")
    assert [(o.word, o.start, o.sense) for o in found] == [("banks", 4, "money"), ("bank", 0, ""), ("bank", 6, "")]
    assert len(read(tmp_path)) == 4  # the whole folder
    (tmp_path / "other.tsv").write_text("line\tmeaning\nThe bank\t1\n")
    found = read(tmp_path / "other.tsv", columns={"text": "line", "label": "meaning"})
    assert [(o.text, o.start, o.sense) for o in found] == [("The bank", 4, "1")]


def test_samples(tmp_path, monkeypatch):
    write(tmp_path, num_documents=16, num_rows=160)
    monkeypatch.setattr(occurrences, "sample", lambda name: tmp_path)
    found = read("town")
    assert read(tmp_path) == found  # a copy of it
    assert {occurrence.sense for occurrence in found} == {"money", "river"} and len(found) > 4
    assert len({occurrence.sense for occurrence in read("town", "苹果")}) == 2
    for name in ("senses", "senses_zh"):
        shutil.rmtree(tmp_path / name)
    assert {occurrence.sense for occurrence in read("town")} == {""}  # of its text


def test_only_what_is_near_is_read(tmp_path):
    (tmp_path / "long.tsv").write_text("text\tlabel\n" + "word " * 10_000 + "bank" + " word" * 10_000 + "\tmoney\n")
    (found,) = read(tmp_path / "long.tsv")
    assert found.word == "bank" and found.sense == "money" and len(found.text) == 4004


def test_given():
    rows = ["a bank", ("the bank", "money"), {"text": "bank", "sense": "river"}, "nothing"]
    found = list(given_occurrences(rows, Forms("bank")))
    assert [(o.text, o.start, o.sense) for o in found] == [
        ("a bank", 2, ""),
        ("the bank", 4, "money"),
        ("bank", 0, "river"),
    ]
    assert list(given_occurrences(found, Forms("bank"))) == found
    with pytest.raises(ConfigError, match="one row is no list of rows"):
        list(given_occurrences({"text": "bank"}, Forms("bank")))
    with pytest.raises(DataError, match="spring stands nowhere in the texts"):
        list(given_occurrences(rows, Forms("spring")))


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("lines.txt", "no such word\n", r"bank stands nowhere in .*lines\.txt \(1 texts\); give another word"),
        ("lines.txt", " \n", "holds no text; give lines of text"),
        ("empty.txt", "", "holds no text"),
        ("empty.tsv", "text\tlabel\n", "holds no text"),
        ("table.tsv", "texts\tlabel\nbank\tx\n", "no column 'text'; did you mean texts"),
        ("table.tsv", "text\tindex\na bank\t5\n", "line 2: the text has no such word; correct the index"),
        ("table.tsv", "text\tindex\na bank\t-1\n", "the text has no such word"),
        ("table.tsv", "text\tindex\na bank\tone\n", "the column 'index' is no number"),
        ("table.tsv", "text\tstart\tend\na bank\t4\t9\n", "the word is outside of the text; correct start and end"),
        ("table.tsv", "text\tlabel\na bank\tx\n\ty\n", "line 3: the column 'text' is empty"),
    ],
)
def test_files_that_are_broken(tmp_path, name, content, why):
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=why):
        read(tmp_path / name)


def test_a_column_of_no_use(tmp_path):
    with pytest.raises(ConfigError, match="sens is no column of occurrences"):
        read(tmp_path / "any.tsv", columns={"sens": "x"})


def test_drawing():
    items = list(range(100))
    assert draw(items, 0, 0) == (items, 100) and draw(iter(items), 200, 0) == (items, 100)
    drawn, total = draw(iter(items), 10, 1)
    assert total == 100 and len(set(drawn)) == 10 and drawn == sorted(drawn)
    assert draw(items, 10, 1)[0] == drawn != draw(items, 10, 2)[0]
    times = [sum(item in draw(items, 50, seed)[0] for seed in range(200)) for item in (0, 50, 99)]
    assert all(70 < time < 130 for time in times)  # 100 each, with a deviation of 7
