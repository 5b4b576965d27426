"""A corpus is divided once: no document on two sides, and the same ones on each every time."""

import json

import pytest

from polyseme.comparison.splitting import SIDES, count_sides, open_text, position, shares, split_text
from polyseme.errors import DataError


def written(folder, documents, name="text.jsonl"):
    path = folder / name
    path.write_text("".join(json.dumps({"text": document}) + "\n" for document in documents), encoding="utf-8")
    return str(path)


def made_up(number):
    return [
        f"Document {n} tells of the old town and its {n * n} people. {'They sleep well. ' * 20}" for n in range(number)
    ]


def divided(folder, corpus, *, dev_characters=20_000):
    return split_text(open_text(corpus, "text"), folder, dev_characters=dev_characters)


def read(split):
    return {side: [document for _, document in split.documents(side)] for side in SIDES}


def test_no_document_is_on_two_sides_and_none_is_lost(tmp_path):
    documents = made_up(300)
    found = read(divided(tmp_path / "text", (written(tmp_path, documents),)))
    assert sorted([*found["train"], *found["dev"], *found["test"]]) == sorted(documents)
    assert not {*found["train"]} & {*found["dev"], *found["test"]} and not {*found["dev"]} & {*found["test"]}
    assert len(found["dev"]) > 3 and len(found["test"]) > 10 and len(found["train"]) > 240


def test_copies_fall_on_one_side(tmp_path):
    documents = made_up(100)
    found = read(divided(tmp_path / "text", (written(tmp_path, documents + documents[::-1]),)))
    for document in documents:
        assert sorted(side.count(document) for side in found.values()) == [0, 0, 2]


def test_the_text_alone_decides(tmp_path):
    """Other files, another order, white space around: the same sides."""
    documents = made_up(200)
    one = read(divided(tmp_path / "one", (written(tmp_path, documents),)))
    (tmp_path / "parts").mkdir()
    written(tmp_path / "parts", documents[100:], "a.jsonl")
    written(tmp_path / "parts", [f" {document}\n" for document in documents[:100]], "b.jsonl")
    other = read(divided(tmp_path / "other", (str(tmp_path / "parts"),)))
    assert {side: sorted(map(str.strip, found)) for side, found in one.items()} == {
        side: sorted(map(str.strip, found)) for side, found in other.items()
    }
    assert position("a") == position(" a\n") != position("b")


def test_dev_and_test_are_bounded():
    assert shares(1_000_000, dev_characters=10_000) == (0.01, 0.1)
    assert shares(10_000_000, dev_characters=10**9) == (0.05, 0.05)
    dev, test = shares(1_000_000_000, dev_characters=100_000)
    assert dev * 1e9 == pytest.approx(100_000) and test * 1e9 == pytest.approx(2_000_000)


def test_languages_have_files_of_their_own(tmp_path):
    english, german = made_up(60), [document.replace("town", "Stadt") for document in made_up(60)]
    paths = (f"en={written(tmp_path, english, 'en.jsonl')}", f"de={written(tmp_path, german, 'de.jsonl')}")
    split = divided(tmp_path / "text", paths)
    assert split.named("train") == [f"{name}={tmp_path}/text/{name}.train.jsonl" for name in ("en", "de")]
    assert {language for language, _ in split.documents("test")} == {"en", "de"}
    assert sum(side.documents for side in count_sides(split).values()) == 120


@pytest.mark.parametrize(
    ("documents", "said"),
    [(made_up(5), "5 documents, too few to divide"), (["Little."] * 30, "210 characters, too few to learn from")],
)
def test_too_little_text_is_refused(tmp_path, documents, said):
    with pytest.raises(DataError, match=said):
        divided(tmp_path / "text", (written(tmp_path, documents),))
    assert not list((tmp_path / "text").glob("*.jsonl"))
