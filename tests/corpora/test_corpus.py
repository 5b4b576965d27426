import csv
import gzip
import json
import os
import subprocess
import sys
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyseme.corpora.corpus import Corpus
from polyseme.corpora.file_readers import MAX_LINE_LENGTH
from polyseme.errors import DataError


def read(path, content, **options):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return Corpus(path, **options)


def test_blank_lines_separate_documents(tmp_path):
    corpus = read(tmp_path / "a.txt", "\ufeffone\r\ntwo\r\n\r\n \t\r\nthree\nfour\n\n\n\nfive")
    assert list(corpus) == ["one\ntwo", "three\nfour", "five"]
    assert corpus.num_documents == 3
    assert list(corpus) == list(corpus)


def test_json_csv_and_tsv(tmp_path):
    rows = ['{"text": "one"}', '"two"', "", '{"text": " ", "n": 1}', '{"text": null}', '{"text": "a\\u0000\\ud800b"}']
    corpus = read(tmp_path / "a.jsonl", "\n".join(rows))
    assert list(corpus) == ["one", "two", "a\ufffd\ufffdb"]
    assert list(read(tmp_path / "a.csv", 'n,body\n1,"a, ""b""\nc"\n2,d\n', column="body")) == ['a, "b"\nc', "d"]
    assert list(read(tmp_path / "a.tsv", 'text\tn\n"open\t1\nnext\t2\n')) == ['"open', "next"]


def test_large_csv_fields_are_read(tmp_path):
    with (tmp_path / "a.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["text"], ["word " * 60_000]])
    assert list(Corpus(tmp_path / "a.csv")) == ["word " * 60_000]


def test_parquet(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    texts = [f"document {number} 中" for number in range(1000)] + [None, ""]
    parquet.write_table(arrow.table({"text": texts, "n": list(range(1002))}), tmp_path / "a.parquet")
    corpus = Corpus(tmp_path / "a.parquet")
    assert list(corpus) == texts[:1000]
    with pytest.raises(DataError, match="no column 'body'; choose one of n, text"):
        list(Corpus(tmp_path / "a.parquet", column="body"))
    (tmp_path / "b.parquet").write_bytes(b"PAR1 nonsense")
    with pytest.raises(DataError, match="not a readable Parquet file"):
        list(Corpus(tmp_path / "b.parquet"))


def test_compressed_files_and_progress(tmp_path):
    zstandard = pytest.importorskip("zstandard")
    documents = [f"document {number} {os.urandom(200).hex()}" for number in range(5000)]
    content = "\n\n".join(documents).encode()
    (tmp_path / "a.txt").write_bytes(content)
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(content))
    (tmp_path / "a.txt.zst").write_bytes(zstandard.compress(content) + zstandard.compress(b"\n\nlast"))
    for name, expected in [("a.txt", documents), ("a.txt.gz", documents), ("a.txt.zst", [*documents, "last"])]:
        corpus = Corpus(tmp_path / name)
        seen = [(document, corpus.bytes_read) for document in corpus]
        positions = [position for _, position in seen]
        assert [document for document, _ in seen] == expected
        assert positions == sorted(positions)
        assert 0 < positions[0] < corpus.num_bytes / 2
        assert corpus.bytes_read == corpus.num_bytes == (tmp_path / name).stat().st_size


def test_folders_and_patterns(tmp_path):
    for name in ["b/2.txt", "a.jsonl", "b/1.txt", "b/.hidden.txt", ".git/x.txt", "image.png"]:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(json.dumps(name))
    assert [file.name for file in Corpus(tmp_path).files] == ["a.jsonl", "1.txt", "2.txt"]
    assert [file.name for file in Corpus(tmp_path / "b/*.txt").files] == ["1.txt", "2.txt"]
    assert [file.name for file in Corpus(f"{tmp_path}/**/2.*", tmp_path / "image.png").files] == ["2.txt", "image.png"]
    assert list(Corpus(tmp_path / "image.png")) == ['"image.png"']


def test_fingerprint_depends_on_content_not_names(tmp_path):
    one, two = read(tmp_path / "a.txt", "text"), read(tmp_path / "b.txt", "text")
    assert one.fingerprint() == two.fingerprint()
    assert one.fingerprint() != read(tmp_path / "c.txt", "texts").fingerprint()
    assert one.fingerprint() != read(tmp_path / "a.jsonl", "text").fingerprint()
    read(tmp_path / "d.txt", "te"), read(tmp_path / "e.txt", "xt")
    assert Corpus(tmp_path / "d.txt", tmp_path / "e.txt").fingerprint() != one.fingerprint()


def error_of(corpus):
    with pytest.raises(DataError) as caught:
        list(corpus() if callable(corpus) else corpus)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_errors_are_one_line(tmp_path):
    (tmp_path / "reviews.txt").write_text("x")
    assert "did you mean reviews.txt?" in error_of(lambda: Corpus(tmp_path / "review.txt"))
    assert "no such file; check the path" in error_of(lambda: Corpus(tmp_path / "no" / "where"))
    (tmp_path / "empty").mkdir()
    assert "no readable files in this folder" in error_of(lambda: Corpus(tmp_path / "empty"))
    assert "no readable files in this pattern" in error_of(lambda: Corpus(tmp_path / "*.csv"))
    assert "no corpus was named" in error_of(lambda: Corpus())
    assert "no such file" in error_of(lambda: Corpus("a\0b"))
    assert "holds no text" in error_of(read(tmp_path / "a.txt", " \n\n\t\n"))
    assert "a.jsonl, line 2: not JSON" in error_of(read(tmp_path / "a.jsonl", '"a"\n{"text": \n'))
    assert "line 1: not JSON (nested too deeply)" in error_of(read(tmp_path / "b.jsonl", "[" * 100_000))
    assert "line 1: no column 'text'; did you mean txt?" in error_of(read(tmp_path / "c.jsonl", '{"txt": "a"}'))
    assert "line 1: 'text' is not a string" in error_of(read(tmp_path / "d.jsonl", '{"text": 5}'))
    assert "no column 'text'; choose one of a, b" in error_of(read(tmp_path / "a.csv", "a,b\n1,2\n"))
    assert "over 16 MB" in error_of(read(tmp_path / "e.jsonl", '"a"\n"' + "a " * 8_100_000 + '"'))
    assert "damaged or truncated" in error_of(read(tmp_path / "a.txt.gz", b"nonsense"))
    whole = gzip.compress(os.urandom(100_000).hex().encode())
    assert "damaged or truncated" in error_of(read(tmp_path / "b.txt.gz", whole[:-5000]))
    pytest.importorskip("zstandard")
    assert "damaged or truncated" in error_of(read(tmp_path / "b.txt.zst", b"nonsense"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root can read every file")
def test_unreadable_file(tmp_path):
    corpus = read(tmp_path / "a.txt", "x")
    (tmp_path / "a.txt").chmod(0)
    assert "check the path and its permissions" in error_of(corpus)


def test_deleted_file(tmp_path):
    corpus = read(tmp_path / "a.txt", "x")
    (tmp_path / "a.txt").unlink()
    assert "a.txt cannot be read (No such file or directory)" in error_of(corpus)


def test_other_encodings_are_detected(tmp_path):
    text = "数学是利用符号语言研究数量、结构、变化的一门学科。\n" * 5000
    message = error_of(read(tmp_path / "a.txt", text.encode("gb18030")))
    assert "is not UTF-8 (" in message
    assert f"iconv -f gb18030 -t utf-8 {tmp_path}/a.txt > {tmp_path}/a.txt.utf8" in message
    assert "iconv -f utf-16" in error_of(read(tmp_path / "b.txt", text.encode("utf-16")))
    assert "is not UTF-8" in error_of(read(tmp_path / "c.txt", "plain text\n" * 9 + "\0" * 50))
    latin = "Où êtes-vous allé après l'été dernier ?\n".encode("latin-1") * 50
    assert "iconv -f windows-1252" in error_of(read(tmp_path / "d.txt", latin))


def test_few_invalid_bytes_are_replaced_and_counted(tmp_path):
    corpus = read(
        tmp_path / "a.txt", b"good \xff text\0 and a genuine \xef\xbf\xbd\n" + b"fine text\n" * 100 + b"\xe4\xb8"
    )
    (document,) = corpus
    assert document.startswith("good \ufffd text\ufffd and a genuine \ufffd\n")


@given(st.lists(st.binary(max_size=200), max_size=5), st.sampled_from(["txt", "jsonl", "csv", "tsv", "txt.gz"]))
def test_any_bytes_raise_only_data_errors(tmp_path_factory, blocks, ending):
    path = tmp_path_factory.mktemp("hostile") / f"a.{ending}"
    path.write_bytes(b"text\n".join(blocks))
    try:
        for document in Corpus(path):
            document.encode()
            assert "\0" not in document
    except DataError as error:
        assert "\n" not in str(error)


def test_long_lines_are_split_without_loss(tmp_path):
    for text in ["word " * 700_000, "他说，这是真的。" * 400_000]:
        corpus = read(tmp_path / "a.txt", text)
        documents = list(corpus)
        assert "".join(documents) == text
        assert max(map(len, documents)) <= MAX_LINE_LENGTH
        assert all(document[-1] in " 。" for document in documents)
        assert len(documents) > 3


def test_long_documents_end_at_a_line_end(tmp_path):
    text = ("a line of a book\n" * 200_000).rstrip("\n")
    for corpus in (read(tmp_path / "a.txt", text), read(tmp_path / "a.jsonl", json.dumps({"text": text}))):
        documents = list(corpus)
        assert "\n".join(documents) == text
        assert max(map(len, documents)) <= MAX_LINE_LENGTH


def test_long_lines_without_spaces_are_refused(tmp_path):
    assert "a.txt, line 2: is not text" in error_of(read(tmp_path / "a.txt", "fine\n" + "A" * (MAX_LINE_LENGTH + 1)))
    assert "is not text" in error_of(read(tmp_path / "b.txt", "head " + "A" * (MAX_LINE_LENGTH + 1)))


def test_progress_can_be_polled_while_another_thread_reads(tmp_path):
    corpus = read(tmp_path / "a.txt", "text\n\n" * 100_000)
    thread = threading.Thread(target=lambda: sum(1 for _ in corpus))
    thread.start()
    while thread.is_alive():
        assert 0 <= corpus.bytes_read <= corpus.num_bytes
    assert corpus.bytes_read == corpus.num_bytes


def test_a_line_of_100_mb_takes_little_memory(tmp_path):
    program = """
import resource, sys
from polyseme.corpora.corpus import Corpus
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
length = sum(map(len, Corpus(sys.argv[1])))
print(length, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    with (tmp_path / "a.txt").open("wb") as file:
        for _ in range(100):
            file.write(b"four score and " * 66_667)
    output = subprocess.run(
        [sys.executable, "-c", program, tmp_path / "a.txt"], capture_output=True, text=True, check=True
    ).stdout
    length, kilobytes = map(int, output.split())
    assert length == 100 * 15 * 66_667
    assert kilobytes < 50_000
