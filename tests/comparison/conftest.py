"""A small generated text with one labelled dataset."""

import json

import pytest

from polyseme.datasets.town.generator import Town


@pytest.fixture(scope="session")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("town") / "town.jsonl"
    documents = Town(0).documents(400, "en")
    path.write_text("".join(json.dumps({"text": document}) + "\n" for document in documents), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def tasks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tasks")
    (folder / "topics").mkdir()
    for split, number in (("train", 40), ("dev", 10), ("test", 24)):
        rows = Town(0).labelled_rows("classify", number, split=split)
        rows = [{"text": " ".join(row["text"].split()[:8]), "label": row["label"]} for row in rows]
        (folder / "topics" / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder
