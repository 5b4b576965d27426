"""The prompts of the suite for a person: one's own questions, after examples of one's own."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from pydantic import Field

from polyseme.config import Config
from polyseme.errors import ConfigError, DataError
from polyseme.evaluate.prompts import Writer, count_tokens, weigh
from polyseme.evaluate.questions import Item, Questions, item, question_task, read_questions, translation_template
from polyseme.evaluate.templates import language_of
from polyseme.scoring import Score


class AskConfig(Config):
    """What a model is asked to do, and what it is told before."""

    task: Literal["answer", "summarise", "translate", "choose"] = "answer"
    passage: str = ""  # what questions are about; they may be about nothing
    choices: tuple[str, ...] = ()  # to choose from
    shots: str = ""  # a file of examples, as `evaluate --suite prompts` reads them
    most: int = Field(5, ge=1)  # that are shown of these, the first ones; fewer where the model is too short for all
    language: Literal["auto", "en", "zh"] = "auto"  # of the words around a question; auto: as it is
    max_tokens: int = Field(0, ge=0)  # to write at most; 0: as usual for the task
    seed: int = Field(0, ge=0)


@dataclass(frozen=True, kw_only=True)
class Reply:
    """What a model was shown, and what it made of it."""

    text: str
    prompt: str
    answer: str
    num_shown: int = 0  # examples before the question
    choices: Mapping[str, float] = field(default_factory=dict)  # the share of each, by its likelihood per token


def ask(model: Writer, texts: Sequence[str], told: AskConfig) -> list[Reply]:
    """Put each text to a model: a question, something to summarise or to translate, or to choose about."""
    model.score([], after=[])  # which says at once if it cannot
    if told.task == "choose" and len(told.choices) < 2:
        raise ConfigError("there is nothing to choose from; give two choices or more")
    pool = read_questions(told.shots, told.language) if told.shots else None
    if pool and pool.task != told.task:
        raise DataError(f"{pool.file} has examples to {pool.task}, not to {told.task}; say --task {pool.task}")
    items = [_put(text, told, pool) for text in texts]
    shown = [one for one in pool.items if one.answers][: told.most] if pool else []
    fitting = [_fitting(model, one, shown) for one in items]
    prompts = [prompt for prompt, _ in fitting]
    if told.task == "choose":
        found = [_choice(one, scores) for one, scores in zip(items, weigh(model, items, prompts), strict=True)]
    else:
        written = [
            model.generate([prompt], **one.template.sampling(told.seed))[0]
            for one, prompt in zip(items, prompts, strict=True)
        ]
        found = [(one.template.cut(text), {}) for one, text in zip(items, written, strict=True)]
    return [
        Reply(text=text, prompt=prompt, num_shown=num_shown, answer=answer, choices=choices)
        for text, (prompt, num_shown), (answer, choices) in zip(texts, fitting, found, strict=True)
    ]


def _put(text: str, told: AskConfig, pool: Questions | None) -> Item:
    """A text as the task has it, without answers."""
    if told.task == "translate":
        source = language_of([text])
        # Without examples the only direction that a text tells is out of Chinese.
        target = pool.language if pool else "en"
        words = translation_template(told.language, source, target)
        asked = Item(question=words.question(source=text), answers=(), template=words)
    else:
        language = language_of([told.passage + text]) if told.language == "auto" else told.language
        values = {
            "answer": {"passage": told.passage, "question": text},
            "summarise": {"text": text},
            "choose": {"context": text},
        }[told.task]
        name = question_task(text) if told.task == "choose" else told.task
        asked = replace(item(name, language, [], **values), choices=told.choices)
    if told.max_tokens:
        asked = replace(asked, template=asked.template.replace(max_tokens=told.max_tokens))
    return asked


def _fitting(model: Writer, asked: Item, shown: Sequence[Item]) -> tuple[str, int]:
    """The question after as many examples as leave the model some room to answer, the last ones; and how many."""
    limit = model.encoder.config.max_length
    for num_shown in range(len(shown), -1, -1):
        prompt = asked.template.join((one.example for one in shown[len(shown) - num_shown :]), asked.question)
        if count_tokens(model, [prompt])[0] <= limit - min(limit // 4, asked.template.max_tokens):
            break
    return prompt, num_shown


def _choice(asked: Item, scores: Sequence[Score]) -> tuple[str, dict[str, float]]:
    """The likeliest choice, and the share of each."""
    costs = [score.nats / max(1, score.num_tokens) for score in scores]
    weights = [math.exp(min(costs) - cost) for cost in costs]
    shares = {choice: weight / math.fsum(weights) for choice, weight in zip(asked.choices, weights, strict=True)}
    return max(shares, key=shares.__getitem__), shares
