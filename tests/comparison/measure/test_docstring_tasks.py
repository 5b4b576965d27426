"""Datasets derived from docstrings."""

import json

import pytest

from polyseme.comparison.measure.docstring_tasks import docstring_tasks
from polyseme.corpora.corpus import Corpus
from polyseme.datasets.builtin import sample_text
from polyseme.datasets.town.generator import Town


@pytest.mark.slow
def test_docstring_tasks():
    documents = list(Corpus(*sample_text("docstrings").dev))
    package, adjacency, parameters = docstring_tasks(documents, seed=0)
    assert [one.kind for one in (package, adjacency, parameters)] == ["classify", "pair", "tag"]
    for one in package.splits["test"]:
        assert one.label not in one.text.lower() and any(one.text in document for document in documents)
    lines = [line for document in documents for line in document.split("\n")]
    for one in adjacency.splits["test"][:40]:
        adjacent = any(one.text_a in line and one.text_b in line.split(one.text_a, 1)[1] for line in lines)
        assert adjacent == (one.label == "together")
    for one in parameters.splits["test"]:
        assert one.tags[0] == "B-NAME" and "B-TYPE" in one.tags
    for dataset in (package, adjacency, parameters):
        train, dev, test = (
            {text for one in dataset.splits[split] for text in ([one.words] if dataset.kind == "tag" else one.texts)}
            for split in ("train", "dev", "test")
        )
        assert train and dev and test
        assert not train & dev and not train & test and not dev & test
    assert json.dumps(package.describe())


def test_other_text_has_no_docstring_tasks():
    assert docstring_tasks(Town(0).documents(30), seed=0) == []
