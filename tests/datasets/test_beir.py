"""Folders of the BEIR format: what is read, and one-line errors."""

import gzip
import json

import pytest

from polyseme.datasets.beir import find_beir_folders, read_beir
from polyseme.errors import DataError

HEADER = "query-id\tcorpus-id\tscore\n"


def lines(*rows):
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "animals"
    (place / "qrels").mkdir(parents=True)
    (place / "corpus.jsonl").write_text(
        lines(
            {"_id": "d1", "title": "Bats", "text": "They fly.", "metadata": {}},
            {"_id": "d2", "title": "", "text": "Dogs bark."},
            {"_id": 3, "text": "猫会叫。"},
            {"_id": "d4", "title": "", "text": ""},  # occurs in published sets
        )
    )
    (place / "queries.jsonl").write_text(
        lines({"_id": "q1", "text": "what flies"}, {"_id": "q2", "text": "叫"}, {"_id": "q3", "text": "no match"})
    )
    (place / "qrels" / "test.tsv").write_text(f"{HEADER}q1\td1\t2\nq1\td2\t0\nq2\t3\t1\nq2\td2\t1\nq3\td1\t0\n")
    return place


def test_reading(folder):
    data = read_beir(folder)
    assert data.name == "animals"
    assert data.documents == {"d1": "Bats\nThey fly.", "d2": "Dogs bark.", "3": "猫会叫。", "d4": ""}
    assert data.queries == {"q1": "what flies", "q2": "叫"}  # q3 has no relevant document
    assert data.relevance == {"q1": {"d1": 2.0}, "q2": {"3": 1.0, "d2": 1.0}}
    (folder / "qrels" / "dev.tsv").write_text(f"{HEADER}q3\td4\t1\n")
    assert read_beir(folder, split="dev").relevance == {"q3": {"d4": 1.0}}


def test_finding_folders(folder, tmp_path):
    assert find_beir_folders(folder) == find_beir_folders(tmp_path) == [folder]
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "a.txt").write_text("text")
    assert find_beir_folders(tmp_path / "text") == find_beir_folders(tmp_path / "text" / "a.txt") == []


@pytest.mark.parametrize(
    ("file", "content", "error"),
    [
        ("corpus.jsonl", None, "corpus.jsonl does not exist"),
        ("queries.jsonl", None, "queries.jsonl does not exist"),
        ("qrels/test.tsv", None, "test.tsv does not exist; .*another split"),
        ("corpus.jsonl", "", "corpus.jsonl holds no texts"),
        ("corpus.jsonl", '{"_id": "d1"}\n', "corpus.jsonl, line 1|no column 'text'"),
        ("corpus.jsonl", '{"id": "d1", "text": "a"}\n', "no column '_id'; did you mean id"),
        ("corpus.jsonl", lines({"_id": "d1", "text": "a"}, {"_id": "d1", "text": "b"}), r"line 2: .*same _id.*\(d1\)"),
        ("corpus.jsonl", lines({"_id": "d1", "text": "a"}, {"_id": "", "text": "b"}), "line 2: column '_id' is empty"),
        ("corpus.jsonl", lines({"_id": "d1", "text": "a"}, {"_id": "d2", "text": 5}), "line 2: .* is not a string"),
        ("corpus.jsonl", lines({"_id": "d1", "text": "a"}) + "{\n", "line 2: not JSON"),
        ("corpus.jsonl", lines({"_id": "d1", "text": "a"}) + "[1]\n", "line 2: not a row"),
        ("queries.jsonl", lines({"_id": "q1", "text": " "}), "line 1: the query is empty"),
        ("qrels/test.tsv", "q1\td1\t1\nq2\td2\t1\n", "no column 'query-id'"),
        ("qrels/test.tsv", f"{HEADER}q1\td9\t1\n", r"line 2: .*corpus.jsonl \(d9\)"),
        ("qrels/test.tsv", f"{HEADER}q1\td1\t1\nq9\td1\t1\n", r"line 3: .*queries.jsonl \(q9\)"),
        ("qrels/test.tsv", f"{HEADER}q1\td1\t1\nq1\td1\t0\n", "line 3: .*judged twice"),
        ("qrels/test.tsv", f"{HEADER}q1\td1\tyes\n", "line 2: column 'score' is not a number"),
        ("qrels/test.tsv", f"{HEADER}q1\td1\n", "line 2: column 'score' is empty"),
        ("qrels/test.tsv", f"{HEADER}q1\td1\t1\t1\n", "line 2: more fields than columns"),
        ("qrels/test.tsv", f"{HEADER}q1\td1\t0\n", "has no relevant documents"),
    ],
)
def test_errors(folder, file, content, error):
    if content is None:
        (folder / file).unlink()
    else:
        (folder / file).write_text(content)
    with pytest.raises(DataError, match=error) as raised:
        read_beir(folder)
    assert "\n" not in str(raised.value) and str(folder) in str(raised.value)


def test_a_compressed_file_is_damaged(folder):
    (folder / "qrels" / "test.tsv").write_bytes(gzip.compress(b"x")[:5])
    with pytest.raises(DataError):
        read_beir(folder)
