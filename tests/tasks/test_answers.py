"""What answers look like to a person and to a program, with characters of the text as it was typed."""

import json

import pytest
from made_up import KINDS, examples, tuned

from polyseme.tasks.classify import Classified
from polyseme.tasks.span import ALWAYS, Answered
from polyseme.tasks.tag import Tagged, TaggedWord
from polyseme.text.forms import SpanExample, TagExample
from polyseme.text.labelled import examples_of
from polyseme.text.windows import Answer, Answers

TYPED = ["  the old  dog\tsaw a red\u3000house ", "他在 river 边看见red dog，又走了", "a"]
PASSAGES = ["The old man  saw a red house.", "老人在河边看见 red 房子。", "a"]


@pytest.mark.parametrize("kind", KINDS)
def test_answers_are_json_and_cells(kind):
    model, rows = tuned("bert", kind), examples(kind)[:3]
    for example, answer in zip(rows, model.predict(rows), strict=True):
        described = answer.describe(example)
        assert json.loads(json.dumps(described, allow_nan=False)) == described
        assert all(isinstance(cell, str) for cell in answer.outline(example).values())


@pytest.mark.parametrize("family", ["bert", "gpt2", "elmo"])
def test_tags_have_the_characters_that_were_typed(family):
    model, rows = tuned(family, "tag"), examples_of(TagExample, TYPED)
    for text, answer, example in zip(TYPED, model.predict(rows), rows, strict=True):
        described = answer.describe(example)
        assert [word["text"] for word in described["words"]] == list(example.words)
        for found in (*described["words"], *described["entities"]):
            assert text[found["start"] : found["end"]] == found["text"]


@pytest.mark.parametrize("family", ["bert", "gpt2", "elmo"])
def test_answers_have_the_characters_of_the_passage(family):
    model = tuned(family, "span", threshold=ALWAYS)
    rows = examples_of(SpanExample, [("which 房子", passage) for passage in PASSAGES])
    for example, answer in zip(rows, model.predict(rows), strict=True):
        described = answer.describe(example)
        assert described["answer"] == example.passage[described["start"] : described["end"]] != ""
        assert len(described["best"]) >= 1
        for found in described["best"]:
            assert example.passage[found["start"] : found["end"]] == found["text"]


def tagged(text, tags):
    (example,) = examples_of(TagExample, [text])
    spans = zip(example.spans, tags, strict=True)
    words = [TaggedWord(text=w, start=s, end=e, tag=tag, probability=0.5) for (w, s, e), tag in spans]
    return example, Tagged(words=tuple(words))


def test_entities_are_cut_from_the_text():
    example, answer = tagged("张三 在北京", ["B-PER", "I-PER", "O", "B-LOC", "I-LOC"])
    assert answer.describe(example)["entities"] == [
        {"name": "PER", "text": "张三", "start": 0, "end": 2},
        {"name": "LOC", "text": "北京", "start": 4, "end": 6},
    ]
    assert answer.outline(example) == {"tags": "B-PER I-PER O B-LOC I-LOC", "entities": "张三 (PER), 北京 (LOC)"}
    example, answer = tagged("Ada  King left", ["B-PER", "I-PER", "O"])
    assert answer.outline(example)["entities"] == "Ada  King (PER)"
    example, answer = tagged("Ada left", ["NOUN", "VERB"])
    assert answer.outline(example) == {"tags": "NOUN VERB", "entities": ""}


def test_what_is_not_answered():
    (example,) = examples_of(SpanExample, [{"question": "Who?", "passage": "A dog.", "id": "q7"}])
    best = [Answer(text="dog", start=2, end=5, score=2.0)]
    answer = Answered(answers=Answers(best=best, null=1.0), probabilities=(0.25,), threshold=ALWAYS)
    assert answer.outline(example) == {"answer": "dog", "characters": "2-5", "probability": "0.250"}
    silent = Answered(answers=Answers(best=best, null=1.0), probabilities=(0.25,), threshold=1.5)
    described = silent.describe(example)
    assert [described[name] for name in ("id", "answer", "start", "end")] == ["q7", "", None, None]
    assert (described["probability"], described["margin"], described["best"][0]["text"]) == (0.75, 1.0, "dog")
    nothing = Answered(answers=Answers(best=[], null=1.0), probabilities=(), threshold=ALWAYS)
    assert (nothing.describe(example)["margin"], nothing.outline(example)["characters"]) == (None, "")


def test_probabilities_are_those_of_the_label():
    answer = Classified(label="good", probabilities={"bad": 0.25, "good": 0.75})
    (example,) = examples("classify")[:1]
    assert answer.describe(example) == {"label": "good", "probability": 0.75, "probabilities": answer.probabilities}
    assert answer.outline(example) == {"label": "good", "probability": "0.750"}
