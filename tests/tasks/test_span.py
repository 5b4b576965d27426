"""The answer to a question, where a passage has it."""

import dataclasses
import random

import pytest
import torch
from made_up import ANIMALS, COLOURS, DIFFERENT, FILLERS, SOME, check_learning, examples, some, tuned, with_one

from polyseme.tasks.span import ALWAYS, SpanConfig
from polyseme.text.forms import Answer


@pytest.mark.parametrize("family", SOME)
def test_every_way_to_read_learns(family):
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


def questions(number, seed):
    """Half of them are about what their passage does not say; neither it nor the question tells that alone."""
    chance, rows = random.Random(seed), []
    for _ in range(number):
        there, wanted = (chance.choice([COLOURS, ANIMALS]) for _ in range(2))
        words = with_one(chance, some(chance, least=1, most=4), there)
        answer = next(word for word in words if word in there)
        question = " or ".join(wanted)
        rows.append(asked(" ".join(words), answer if wanted is there else "", question=question))
    return rows


@pytest.mark.parametrize("family", ["gpt", "ulmfit", "nnlm"])
def test_questions_without_an_answer_are_known(family):
    model, fresh = tuned(family, "span", sizes={"num_layers": 1}, language_model=0.0), questions(64, seed=1)
    for _ in model.learner(questions(256, seed=0), num_rows=32, steps=120).steps():
        pass
    found = [answer.text for answer in model.predict(fresh)]
    for answerable in (True, False):
        right = [
            text == "".join(answer.text for answer in example.answers)
            for text, example in zip(found, fresh, strict=True)
            if bool(example.answers) is answerable
        ]
        assert len(right) > 20 and sum(right) / len(right) > 0.8


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
    model.task.config = model.task.config.tuned(scores)  # as a model is kept
    again = model.predict(rows)
    assert model.task.score(again, rows)["f1"] == scores["best_f1"]
    assert [answer.answers for answer in again] == [answer.answers for answer in found]
    assert model.task.score(again[:1], rows[:1])["threshold"] == scores["threshold"]  # there is nothing to tune
    for threshold, said in ((ALWAYS, 2), (1e6, 0)):
        model.task.config = model.task.config.replace(threshold=threshold)
        assert sum(answer.text != "" for answer in model.predict(rows)) == said


def test_what_examples_tell():
    rows = [asked("the red dog", "red"), asked("the old man")]
    assert SpanConfig.told_by(rows) == {"language": "en", "threshold": 0.0}
    chinese = [asked("河边的银行 bank", "银行")]
    assert SpanConfig.told_by(chinese) == {"language": "zh", "threshold": ALWAYS}


def test_windows_overlap_by_two_thirds_if_nothing_is_said():
    model = tuned("bert", "span", max_length=36)
    windows = model.task.items(model.layout, [asked(LONG)])[0].windows
    assert [row.tokens.start for row in windows.rows[:3]] == [0, 12, 24]
