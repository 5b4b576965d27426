"""Sequence labelling."""

import pytest
import torch
from tests.tasks.synthetic_examples import DIFFERENT, SOME, check_learning, examples, tuned

from polyseme.batch import IGNORED
from polyseme.datasets.task_schemas import TagExample

ODD = ("Redd", "\u200b", "blueish-dog", "X" * 60, "红色", "new york", "cat")


@pytest.mark.parametrize("family", SOME)
def test_every_input_format_learns(family):
    check_learning(family, "tag")


def sentence(words, tags=None):
    position = examples("tag")[0]
    return TagExample(file=position.file, row=1, words=tuple(words), tags=tuple(tags or ["O"] * len(words)))


@pytest.mark.parametrize("family", DIFFERENT)
def test_every_word_has_a_tag_and_offsets(family):
    model = tuned(family, "tag", max_length=12)
    words = [*ODD, *examples("tag")[0].words, *ODD]  # much longer than a row
    plain, empty = model.predict([sentence(words), sentence([])])
    text = " ".join(words)
    assert [word.text for word in plain.words] == words and empty.words == ()
    assert all(text[word.start : word.end] == word.text for word in plain.words)
    assert all(1 / 3 <= word.probability <= 1 for word in plain.words)
    items = model.task.instances(model.formatter, [sentence(words)])
    assert len(items) > 1 and all(len(item.rows[0].ids) <= 12 for item in items)
    assert [word for item in items for word, _, _ in item.words] == words


@pytest.mark.parametrize(("family", "last"), [("bert", False), ("roberta", False), ("gpt2", True), ("ulmfit", True)])
def test_words_are_predicted_at_one_token(family, last):
    model = tuned(family, "tag")
    words = ("the", "blueish", "dog")
    (item,) = model.task.instances(model.formatter, [sentence(words, ["O", "B-COLOUR", "B-ANIMAL"])])
    (row,) = item.rows
    positions = [position for position, number in enumerate(item.label) if number != IGNORED]
    assert positions == list(item.positions) and len(positions) == 3
    assert [model.task.labels[tag] for tag in ("O", "B-COLOUR", "B-ANIMAL")] == [
        item.label[position] for position in positions
    ]
    text = " ".join(words)
    tokens, first = model.formatter.tokenizer.encode(text, specials=False), len(model.formatter.single.added[0])
    assert row.ids[first : first + len(tokens.ids)] == tokens.ids
    for position, word, start in zip(positions, words, (0, 4, 12), strict=True):
        begin, end = tokens.offsets[position - first]
        piece = text[begin:end].strip()
        assert (word.endswith if last else word.startswith)(piece) and start - 1 <= begin < end <= start + len(word)


def test_entities_have_offsets():
    model = tuned("bert", "tag", labels=("O", "B-COLOUR", "I-COLOUR"))
    (item,) = model.task.instances(model.formatter, [sentence(("a", "red", "and", "blue"))])
    scores = torch.zeros(len(item.rows[0].ids), 3, dtype=torch.float64)
    for position, number in zip(item.positions, (0, 1, 2, 0), strict=True):
        scores[position, number] = 5
    answer = model.task.decode([item], [scores])
    assert answer.tags == ("O", "B-COLOUR", "I-COLOUR", "O") and answer.entities == [("COLOUR", 2, 9)]
    gold = [sentence(("a", "red", "and", "blue"), answer.tags)]
    assert model.task.score([answer], gold) == {"accuracy": 1, "precision": 1, "recall": 1, "f1": 1}


def test_accuracy_of_tags_without_entities():
    model = tuned("bert", "tag", labels=("NOUN", "VERB"))
    rows = [sentence(("red", "dog"), ("NOUN", "VERB"))]
    assert model.task.selection_metric == "accuracy"
    assert set(model.task.score(model.predict(rows), rows)) == {"accuracy"}
