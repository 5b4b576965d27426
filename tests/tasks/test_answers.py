"""Predictions as JSON and as table rows, with offsets in the original text."""

import json

import pytest
from tests.tasks.synthetic_examples import KINDS, examples, tuned

from polyseme.datasets.labelled_files import parse_examples
from polyseme.datasets.qa_windows import PredictedAnswer, PredictedAnswers
from polyseme.datasets.squad import SpanExample
from polyseme.datasets.task_schemas import TagExample
from polyseme.tasks.classification import ClassPrediction
from polyseme.tasks.extractive_qa import ALWAYS_ANSWER, AnswerPrediction
from polyseme.tasks.sequence_labelling import TaggedWord, TagPrediction

TYPED = ["  the old  dog\tsaw a red\u3000house ", "他在 river 边看见red dog，又走了", "a"]
PASSAGES = ["The old man  saw a red house.", "老人在河边看见 red 房子。", "a"]


@pytest.mark.parametrize("kind", KINDS)
def test_predictions_as_json_and_rows(kind):
    model, rows = tuned("bert", kind), examples(kind)[:3]
    for example, answer in zip(rows, model.predict(rows), strict=True):
        described = answer.to_json(example)
        assert json.loads(json.dumps(described, allow_nan=False)) == described
        assert all(isinstance(cell, str) for cell in answer.to_row(example).values())


@pytest.mark.parametrize("family", ["bert", "gpt2", "elmo"])
def test_tagged_words_have_offsets_in_the_text(family):
    model, rows = tuned(family, "tag"), parse_examples(TagExample, TYPED)
    for text, answer, example in zip(TYPED, model.predict(rows), rows, strict=True):
        described = answer.to_json(example)
        assert [word["text"] for word in described["words"]] == list(example.words)
        for found in (*described["words"], *described["entities"]):
            assert text[found["start"] : found["end"]] == found["text"]


@pytest.mark.parametrize("family", ["bert", "gpt2", "elmo"])
def test_answers_have_offsets_in_the_passage(family):
    model = tuned(family, "span", threshold=ALWAYS_ANSWER)
    rows = parse_examples(SpanExample, [("which 房子", passage) for passage in PASSAGES])
    for example, answer in zip(rows, model.predict(rows), strict=True):
        described = answer.to_json(example)
        assert described["answer"] == example.passage[described["start"] : described["end"]] != ""
        assert len(described["best"]) >= 1
        for found in described["best"]:
            assert example.passage[found["start"] : found["end"]] == found["text"]


def tagged(text, tags):
    (example,) = parse_examples(TagExample, [text])
    spans = zip(example.spans, tags, strict=True)
    words = [TaggedWord(text=w, start=s, end=e, tag=tag, probability=0.5) for (w, s, e), tag in spans]
    return example, TagPrediction(words=tuple(words))


def test_entities_have_offsets_in_the_text():
    example, answer = tagged("张三 在北京", ["B-PER", "I-PER", "O", "B-LOC", "I-LOC"])
    assert answer.to_json(example)["entities"] == [
        {"name": "PER", "text": "张三", "start": 0, "end": 2},
        {"name": "LOC", "text": "北京", "start": 4, "end": 6},
    ]
    assert answer.to_row(example) == {"tags": "B-PER I-PER O B-LOC I-LOC", "entities": "张三 (PER), 北京 (LOC)"}
    example, answer = tagged("Ada  King left", ["B-PER", "I-PER", "O"])
    assert answer.to_row(example)["entities"] == "Ada  King (PER)"
    example, answer = tagged("Ada left", ["NOUN", "VERB"])
    assert answer.to_row(example) == {"tags": "NOUN VERB", "entities": ""}


def test_unanswerable_questions():
    (example,) = parse_examples(SpanExample, [{"question": "Who?", "passage": "A dog.", "id": "q7"}])
    best = [PredictedAnswer(text="dog", start=2, end=5, score=2.0)]
    answer = AnswerPrediction(
        answers=PredictedAnswers(best=best, null_score=1.0), probabilities=(0.25,), threshold=ALWAYS_ANSWER
    )
    assert answer.to_row(example) == {"answer": "dog", "characters": "2-5", "probability": "0.250"}
    silent = AnswerPrediction(answers=PredictedAnswers(best=best, null_score=1.0), probabilities=(0.25,), threshold=1.5)
    described = silent.to_json(example)
    assert [described[name] for name in ("id", "answer", "start", "end")] == ["q7", "", None, None]
    assert (described["probability"], described["margin"], described["best"][0]["text"]) == (0.75, 1.0, "dog")
    nothing = AnswerPrediction(
        answers=PredictedAnswers(best=[], null_score=1.0), probabilities=(), threshold=ALWAYS_ANSWER
    )
    assert (nothing.to_json(example)["margin"], nothing.to_row(example)["characters"]) == (None, "")


def test_probability_of_the_label():
    answer = ClassPrediction(label="good", probabilities={"bad": 0.25, "good": 0.75})
    (example,) = examples("classify")[:1]
    assert answer.to_json(example) == {"label": "good", "probability": 0.75, "probabilities": answer.probabilities}
    assert answer.to_row(example) == {"label": "good", "probability": "0.750"}
