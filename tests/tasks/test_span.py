"""The answer to a question, where a passage has it."""

import dataclasses
import random

import pytest
import torch
from made_up import DIFFERENT, FILLERS, check_learning, examples, tuned

from polyseme.tasks.span import ALWAYS
from polyseme.text.labelled import Answer


@pytest.mark.parametrize("family", DIFFERENT)
def test_every_family_learns(family):
    check_learning(family, "span")


def asked(passage, answer="", *, question="which red"):
    answers = (Answer(answer, passage.index(answer)),) if answer else ()
    return dataclasses.replace(examples("span")[0], question=question, passage=passage, answers=answers)


LONG = " ".join([*FILLERS, "Red", "wine,", "红色的房子", *FILLERS, "blüe", *FILLERS])


@pytest.mark.parametrize("family", DIFFERENT)
@pytest.mark.parametrize("answer", ["Red wine", "红色", "blüe"])
def test_a_perfect_model_gives_the_answer(family, answer):
    """Scores that point at the labels are turned back into the characters of the passage."""
    model = tuned(family, "span", stride=8)
    items = model.task.items(model.layout, [asked(LONG, answer)])
    assert len(items) > 1 and all(len(row.ids) <= 40 for item in items for row in item.rows)
    scores = []
    for item in items:
        sides = torch.zeros(2, len(item.rows[-1].ids), dtype=torch.float64)
        for side, place in zip(sides, item.label, strict=True):
            side[place] = 9
        scores.append(sides)
    found = model.task.answer(items, scores)
    assert answer in found.text and len(found.text) <= len(answer) + 4  # words may not be cut in two
    best = found.answers.best[0]
    assert LONG[best.start : best.end] == best.text == found.text
    assert found.probabilities[0] == max(found.probabilities) and sum(found.probabilities) <= 1 + 1e-9


@pytest.mark.parametrize("family", ["bert", "gpt", "elmo", "skipgram"])
def test_answers_are_pieces_of_the_passage(family):
    model, chance = tuned(family, "span", max_length=16, stride=5), random.Random(0)
    rows = [asked(" ".join(chance.choices(LONG.split(), k=chance.randint(1, 30)))) for _ in range(8)]
    for row, answer in zip(rows, model.predict(rows), strict=True):
        assert answer.answers.best
        assert all(row.passage[best.start : best.end] == best.text for best in answer.answers.best)


@pytest.mark.parametrize("family", ["elmo", "skipgram"])
def test_families_that_read_apart_hear_the_question(family):
    model = tuned(family, "span")
    said = [model.predict([asked("the red dog", question=text)])[0].answers for text in ("red", "dog cat")]
    assert said[0].null != said[1].null


def test_none_is_an_answer():
    model = tuned("bert", "span")
    rows = [asked("the red dog", "red"), asked("the old man")]
    items = model.task.items(model.layout, rows)
    assert tuple(items[1].label) == (0, 0)  # [CLS]
    other = dataclasses.replace(rows[0], answers=(Answer("crimson", None),))
    assert tuple(model.task.items(model.layout, [other])[0].label) == (-100, -100)

    found = model.predict(rows)
    scores = model.task.score(found, rows)
    assert scores["best_f1"] >= scores["f1"] and scores["threshold"] > ALWAYS
    tuned_ = [dataclasses.replace(answer, threshold=scores["threshold"]) for answer in found]
    assert model.task.score(tuned_, rows)["f1"] == scores["best_f1"]
    assert [dataclasses.replace(answer, threshold=1e6).text for answer in found] == ["", ""]
    assert model.task.score(found[:1], rows[:1])["threshold"] == ALWAYS
