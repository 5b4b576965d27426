"""Occurrences of words in lines and tables, with sense annotations."""

import json
import shutil

import pytest

from polyseme.analysis import occurrences
from polyseme.analysis.occurrences import Occurrence, WordForms, parse_occurrences, read_occurrences, reservoir_sample
from polyseme.datasets.town.writers import write_town
from polyseme.errors import ConfigError, DataError


def words(forms, text, **settings):
    return [text[start:end] for start, end in WordForms(forms, **settings).find(text)]


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
        ("cafe", "the cafe, the cafe\u0301", ["cafe"]),  # a combining mark belongs to its character
        ("c++", "C++ and c++17", ["C++", "c++"]),
        ("a.c", "abc a.c", ["a.c"]),
        ("bank", "", []),
    ],
)
def test_find_word_forms(forms, text, found):
    assert words(forms, text) == found


def test_case_sensitive_search():
    assert words("Bank", "Bank of the bank", case="exact") == ["Bank"]


def test_empty_word_is_an_error():
    for nothing in ("", " , ", "，"):
        with pytest.raises(ConfigError, match="the word is empty"):
            WordForms(nothing)


def read(path, word="bank", **settings):
    return list(read_occurrences(path, WordForms(word), **settings))


def test_lines_of_text(tmp_path):
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
    write_town(tmp_path, num_documents=16, num_rows=160)
    monkeypatch.setattr(occurrences, "sample_folder", lambda name: tmp_path)
    found = read("town")
    assert read(tmp_path) == found  # a copy of the sample
    assert {occurrence.sense for occurrence in found} == {"money", "river"} and len(found) > 4
    assert len({occurrence.sense for occurrence in read("town", "苹果")}) == 2
    for name in ("senses", "senses_zh"):
        shutil.rmtree(tmp_path / name)
    assert {occurrence.sense for occurrence in read("town")} == {""}  # plain text


def test_context_is_limited(tmp_path):
    (tmp_path / "long.tsv").write_text("text\tlabel\n" + "word " * 10_000 + "bank" + " word" * 10_000 + "\tmoney\n")
    (found,) = read(tmp_path / "long.tsv")
    assert found.word == "bank" and found.sense == "money" and len(found.text) == 4004


def test_occurrences_in_python_objects():
    rows = ["a bank", ("the bank", "money"), {"text": "bank", "sense": "river"}, "nothing"]
    found = list(parse_occurrences(rows, WordForms("bank")))
    assert [(o.text, o.start, o.sense) for o in found] == [
        ("a bank", 2, ""),
        ("the bank", 4, "money"),
        ("bank", 0, "river"),
    ]
    assert list(parse_occurrences(found, WordForms("bank"))) == found
    with pytest.raises(ConfigError, match="must be a list of rows"):
        list(parse_occurrences({"text": "bank"}, WordForms("bank")))
    with pytest.raises(DataError, match="spring does not occur in the texts"):
        list(parse_occurrences(rows, WordForms("spring")))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("lines.txt", "no such word\n", r"bank does not occur in .*lines\.txt \(1 texts\)"),
        ("lines.txt", " \n", "contains no text"),
        ("empty.txt", "", "contains no text"),
        ("empty.tsv", "text\tlabel\n", "contains no text"),
        ("table.tsv", "texts\tlabel\nbank\tx\n", "no column 'text'; did you mean texts"),
        ("table.tsv", "text\tindex\na bank\t5\n", "line 2: the text has no such word; correct the index"),
        ("table.tsv", "text\tindex\na bank\t-1\n", "the text has no such word"),
        ("table.tsv", "text\tindex\na bank\tone\n", "column 'index' is not a number"),
        ("table.tsv", "text\tstart\tend\na bank\t4\t9\n", "the word is outside of the text; correct start and end"),
        ("table.tsv", "text\tlabel\na bank\tx\n\ty\n", "line 3: column 'text' is empty"),
    ],
)
def test_invalid_files(tmp_path, name, content, message):
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=message):
        read(tmp_path / name)


def test_unknown_column(tmp_path):
    with pytest.raises(ConfigError, match="'sens' is not a column"):
        read(tmp_path / "any.tsv", columns={"sens": "x"})


def test_reservoir_sample_is_uniform():
    items = list(range(100))
    assert reservoir_sample(items, 0, 0) == (items, 100) and reservoir_sample(iter(items), 200, 0) == (items, 100)
    sample, total = reservoir_sample(iter(items), 10, 1)
    assert total == 100 and len(set(sample)) == 10 and sample == sorted(sample)
    assert reservoir_sample(items, 10, 1)[0] == sample != reservoir_sample(items, 10, 2)[0]
    counts = [sum(item in reservoir_sample(items, 50, seed)[0] for seed in range(200)) for item in (0, 50, 99)]
    assert all(70 < count < 130 for count in counts)  # 100 each, with a standard deviation of 7
