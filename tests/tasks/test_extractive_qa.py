"""Extractive question answering."""

import dataclasses
import random

import pytest
import torch
from tests.tasks.synthetic_examples import (
    ANIMALS,
    COLOURS,
    DIFFERENT,
    FILLERS,
    SOME,
    check_learning,
    examples,
    some,
    tuned,
    with_one,
)

from polyseme.datasets.squad import Answer
from polyseme.tasks.extractive_qa import ALWAYS_ANSWER, ExtractiveQaConfig


@pytest.mark.parametrize("family", SOME)
def test_every_input_format_learns(family):
    check_learning(family, "span")


def question(passage, answer="", *, question="which red"):
    answers = (Answer(answer, passage.index(answer)),) if answer else ()
    return dataclasses.replace(examples("span")[0], question=question, passage=passage, answers=answers)


LONG = " ".join([*FILLERS, "Red", "wine,", "红色的房子", *FILLERS, "blüe", *FILLERS])


@pytest.mark.parametrize("family", DIFFERENT)
@pytest.mark.parametrize("answer", ["Red wine", "红色", "blüe"])
def test_perfect_scores_give_the_answer(family, answer):
    """Scores that are highest at the labels are decoded to the text of the answer."""
    model = tuned(family, "span", stride=8)
    items = model.task.instances(model.formatter, [question(LONG, answer)])
    assert len(items) > 1 and all(len(row.ids) <= 40 for item in items for row in item.rows)
    scores = []
    for item in items:
        ends = torch.zeros(2, len(item.rows[-1].ids), dtype=torch.float64)
        for end, place in zip(ends, item.label, strict=True):
            end[place] = 9
        scores.append(ends)
    found = model.task.decode(items, scores)
    assert answer in found.text and len(found.text) <= len(answer) + 4  # words may not be cut in two
    best = found.answers.best[0]
    assert LONG[best.start : best.end] == best.text == found.text
    assert found.probabilities[0] == max(found.probabilities) and sum(found.probabilities) <= 1 + 1e-9


@pytest.mark.parametrize("family", ["bert", "gpt", "elmo", "skipgram"])
def test_answers_are_spans_of_the_passage(family):
    model, rng = tuned(family, "span", max_length=16, stride=5), random.Random(0)
    rows = [question(" ".join(rng.choices(LONG.split(), k=rng.randint(1, 30)))) for _ in range(8)]
    for row, answer in zip(rows, model.predict(rows), strict=True):
        assert answer.answers.best
        assert all(row.passage[best.start : best.end] == best.text for best in answer.answers.best)


@pytest.mark.parametrize("family", ["elmo", "skipgram"])
def test_bi_encoders_use_the_question(family):
    model = tuned(family, "span")
    answer = [model.predict([question("the red dog", question=text)])[0].answers for text in ("red", "dog cat")]
    assert answer[0].null_score != answer[1].null_score


def questions(number, seed):
    """Half are unanswerable, which neither the passage nor the question shows alone."""
    rng, rows = random.Random(seed), []
    for _ in range(number):
        there, wanted = (rng.choice([COLOURS, ANIMALS]) for _ in range(2))
        words = with_one(rng, some(rng, least=1, most=4), there)
        answer = next(word for word in words if word in there)
        text = " or ".join(wanted)
        rows.append(question(" ".join(words), answer if wanted is there else "", question=text))
    return rows


@pytest.mark.parametrize("family", ["gpt", "ulmfit", "nnlm"])
def test_unanswerable_questions_are_learned(family):
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


def test_targets_of_unanswerable_questions():
    model = tuned("bert", "span")
    rows = [question("the red dog", "red"), question("the old man")]
    items = model.task.instances(model.formatter, rows)
    assert tuple(items[1].label) == (0, 0)  # [CLS]
    other = dataclasses.replace(rows[0], answers=(Answer("crimson", None),))
    assert tuple(model.task.instances(model.formatter, [other])[0].label) == (-100, -100)

    found = model.predict(rows)
    scores = model.task.score(found, rows)
    assert scores["best_f1"] >= scores["f1"] and scores["threshold"] > ALWAYS_ANSWER
    model.task.config = model.task.config.calibrated(scores)  # as a model is kept
    again = model.predict(rows)
    assert model.task.score(again, rows)["f1"] == scores["best_f1"]
    assert [answer.answers for answer in again] == [answer.answers for answer in found]
    assert model.task.score(again[:1], rows[:1])["threshold"] == scores["threshold"]  # there is nothing to tune
    for threshold, answer in ((ALWAYS_ANSWER, 2), (1e6, 0)):
        model.task.config = model.task.config.replace(threshold=threshold)
        assert sum(answer.text != "" for answer in model.predict(rows)) == answer


def test_inferred_settings():
    rows = [question("the red dog", "red"), question("the old man")]
    assert ExtractiveQaConfig.infer_config(rows) == {"language": "en", "threshold": 0.0}
    chinese = [question("河边的银行 bank", "银行")]
    assert ExtractiveQaConfig.infer_config(chinese) == {"language": "zh", "threshold": ALWAYS_ANSWER}


def test_windows_overlap_by_two_thirds_by_default():
    model = tuned("bert", "span", max_length=36)
    windows = model.task.instances(model.formatter, [question(LONG)])[0].windows
    assert [window.passage_tokens.start for window in windows.windows[:3]] == [0, 12, 24]
