"""Splits are disjoint, complete and reproducible."""

import json

import pytest

from polyseme.datasets.splits import SPLITS, count_splits, hash_fraction, open_by_language, split_fractions, split_text
from polyseme.errors import CheckpointError, DataError


def write_jsonl(folder, documents, name="text.jsonl"):
    path = folder / name
    path.write_text("".join(json.dumps({"text": document}) + "\n" for document in documents), encoding="utf-8")
    return str(path)


def make_documents(number):
    return [
        f"Document {n} describes the old town and its {n * n} people. {'They sleep well. ' * 20}" for n in range(number)
    ]


def split_corpus(folder, corpus, *, dev_characters=20_000):
    return split_text(open_by_language(corpus, "text"), folder, dev_characters=dev_characters)


def read(split):
    return {name: [document for _, document in split.documents(name)] for name in SPLITS}


def test_splits_are_disjoint_and_complete(tmp_path):
    documents = make_documents(300)
    found = read(split_corpus(tmp_path / "text", (write_jsonl(tmp_path, documents),)))
    assert sorted([*found["train"], *found["dev"], *found["test"]]) == sorted(documents)
    assert not {*found["train"]} & {*found["dev"], *found["test"]} and not {*found["dev"]} & {*found["test"]}
    assert len(found["dev"]) > 3 and len(found["test"]) > 10 and len(found["train"]) > 240


def test_duplicates_fall_into_one_split(tmp_path):
    documents = make_documents(100)
    found = read(split_corpus(tmp_path / "text", (write_jsonl(tmp_path, documents + documents[::-1]),)))
    for document in documents:
        assert sorted(documents.count(document) for documents in found.values()) == [0, 0, 2]


def test_splits_depend_on_the_text_only(tmp_path):
    """Files, order and surrounding white space do not matter."""
    documents = make_documents(200)
    one = read(split_corpus(tmp_path / "one", (write_jsonl(tmp_path, documents),)))
    (tmp_path / "parts").mkdir()
    write_jsonl(tmp_path / "parts", documents[100:], "a.jsonl")
    write_jsonl(tmp_path / "parts", [f" {document}\n" for document in documents[:100]], "b.jsonl")
    other = read(split_corpus(tmp_path / "other", (str(tmp_path / "parts"),)))
    assert {name: sorted(map(str.strip, texts)) for name, texts in one.items()} == {
        name: sorted(map(str.strip, texts)) for name, texts in other.items()
    }
    assert hash_fraction("a") == hash_fraction(" a\n") != hash_fraction("b")


def test_sizes_of_dev_and_test_are_bounded():
    assert split_fractions(1_000_000, dev_characters=10_000) == (0.01, 0.1)
    assert split_fractions(10_000_000, dev_characters=10**9) == (0.05, 0.05)
    dev, test = split_fractions(1_000_000_000, dev_characters=100_000)
    assert dev * 1e9 == pytest.approx(100_000) and test * 1e9 == pytest.approx(2_000_000)


def test_each_language_has_its_own_files(tmp_path):
    english, german = make_documents(60), [document.replace("town", "Stadt") for document in make_documents(60)]
    paths = (f"en={write_jsonl(tmp_path, english, 'en.jsonl')}", f"de={write_jsonl(tmp_path, german, 'de.jsonl')}")
    split = split_corpus(tmp_path / "text", paths)
    assert split.as_options("train") == [f"{name}={tmp_path}/text/{name}.train.jsonl" for name in ("en", "de")]
    assert {language for language, _ in split.documents("test")} == {"en", "de"}
    assert sum(size.documents for size in count_splits(split).values()) == 120


@pytest.mark.parametrize(
    ("documents", "expected"),
    [(make_documents(5), "5 documents, too few"), (["Little."] * 30, "210 characters, too few")],
)
def test_too_little_text_is_refused(tmp_path, documents, expected):
    with pytest.raises(DataError, match=expected):
        split_corpus(tmp_path / "text", (write_jsonl(tmp_path, documents),))
    assert not list((tmp_path / "text").glob("*.jsonl"))


@pytest.mark.parametrize("name", ["train.jsonl", "dev.jsonl", "test.jsonl", "checksums.json"])
@pytest.mark.parametrize("damage", ["changed", "truncated", "deleted", "not JSON"])
def test_damaged_splits_are_written_again(tmp_path, name, damage):
    corpus = (write_jsonl(tmp_path, make_documents(100)),)
    split_corpus(tmp_path / "text", corpus)
    before = {path.name: path.read_bytes() for path in (tmp_path / "text").iterdir()}
    path = tmp_path / "text" / name
    if damage == "deleted":
        path.unlink()
    else:
        content = path.read_bytes()
        changed = {"changed": content.replace(b"e", b"x"), "truncated": content[:-5], "not JSON": b"\xff[" * 9}
        path.write_bytes(changed[damage])
    split_corpus(tmp_path / "text", corpus)
    assert {path.name: path.read_bytes() for path in (tmp_path / "text").iterdir()} == before


def test_intact_splits_are_not_written_again(tmp_path):
    corpus = (write_jsonl(tmp_path, make_documents(100)),)
    split_corpus(tmp_path / "text", corpus)
    before = {path: path.stat().st_ino for path in (tmp_path / "text").iterdir()}
    split_corpus(tmp_path / "text", corpus)
    assert {path: path.stat().st_ino for path in (tmp_path / "text").iterdir()} == before


def test_a_file_in_place_of_the_folder_is_an_error(tmp_path):
    (tmp_path / "text").write_text("")
    with pytest.raises(CheckpointError, match="text cannot be written"):
        split_corpus(tmp_path / "text", (write_jsonl(tmp_path, make_documents(100)),))
