"""Calls of fine-tuned models, and those that others answer in another way: how alike, which goes on, translate."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from polyseme.pretrained import Pretrained
from polyseme.serve.calls import Call, Service, encoded, listed
from polyseme.serve.errors import CallError
from polyseme.serve.models import Served
from polyseme.serve.schema_tasks import (
    Answered,
    AskAnswer,
    AskChoose,
    AskClassify,
    AskPair,
    AskSimilarity,
    AskTag,
    AskTranslate,
    Choice,
    Judgements,
    Similarities,
    Tagged,
    Translations,
)
from polyseme.tasks.metrics import find_entities, marks_entities
from polyseme.tasks.span import ALWAYS
from polyseme.text.vocabulary import IDEOGRAPHS, mend

_IDEOGRAPH = re.compile(f"[{IDEOGRAPHS}\u3000-\u30ff\uff00-\uffef]")


async def _predict(service: Service, served: Served, task: str, rows: Sequence[Any]) -> list[Any]:
    model = served.model

    def run(rows: Sequence[Any]) -> list[Any]:
        return model.predict(rows, task=task)

    return await service.work(served, ("predict", task), run, rows)


def _readable(texts: Sequence[str], param: str) -> list[str]:
    if not all(text.strip() for text in texts):
        raise CallError(422, "empty", "a text is empty; leave it away", param=param)
    return [mend(text) for text in texts]


async def classify(service: Service, asked: AskClassify) -> bytes:
    """Say which class texts belong to."""
    served = service.models.find(asked.model, "classify")
    task = served.task(asked.task, "classify")
    texts = _readable(listed(asked.input), "input")
    return _judged(served, task, await _predict(service, served, task, texts))


async def pair(service: Service, asked: AskPair) -> bytes:
    """Say how pairs of texts are related."""
    served = service.models.find(asked.model, "pair")
    task = served.task(asked.task, "pair")
    pairs = [_readable(texts, "pairs") for texts in asked.pairs]
    return _judged(served, task, await _predict(service, served, task, pairs))


def _judged(served: Served, task: str, found: Sequence[Any]) -> bytes:
    data = [
        {"index": place, "label": one.label, "probabilities": dict(one.probabilities)}
        for place, one in enumerate(found)
    ]
    return encoded({"model": served.name, "task": task, "data": data})


async def tag(service: Service, asked: AskTag) -> bytes:
    """Find what texts name, or tag their words."""
    served = service.models.find(asked.model, "tag")
    task = served.task(asked.task, "tag")
    texts = _readable(listed(asked.input), "input")
    found = await _predict(service, served, task, texts)
    entities = marks_entities(getattr(served.model.tasks[task], "labels", ()))
    data = [
        {"index": place, "spans": _spans(text, one.words, entities)}
        for place, (text, one) in enumerate(zip(texts, found, strict=True))
    ]
    return encoded({"model": served.name, "task": task, "data": data})


def _spans(text: str, words: Sequence[Any], entities: bool) -> list[dict[str, Any]]:
    """Entities, each as likely as the least likely of its words; or words."""
    if entities:
        found = find_entities([word.tag for word in words])
        groups = [(entity.name, words[entity.start : entity.end]) for entity in found]
    else:
        groups = [(word.tag, [word]) for word in words]
    return [
        {
            "start": some[0].start,
            "end": some[-1].end,
            "text": text[some[0].start : some[-1].end],
            "label": name,
            "probability": min(word.probability for word in some),
        }
        for name, some in groups
    ]


async def similarity(service: Service, asked: AskSimilarity) -> bytes:
    """Say how alike two texts are: by a head that was trained for it, or by the cosine of their vectors."""
    served = service.models.find(asked.model, "similarity")
    if "similarity" in served.kinds.values():
        pairs = [_readable(texts, "pairs") for texts in asked.pairs]
        task = served.task(asked.task, "similarity")
        by, scores = "head", [one.score for one in await _predict(service, served, task, pairs)]
    else:
        by, scores = "cosine", await _cosines(service, served, [text for pair in asked.pairs for text in pair])
    data = [{"index": place, "score": score} for place, score in enumerate(scores)]
    return encoded({"model": served.name, "by": by, "data": data})


async def _cosines(service: Service, served: Served, texts: Sequence[str]) -> list[float]:
    model = served.model

    def run(texts: Sequence[str]) -> list[Any]:
        return list(model.embed(texts))

    vectors = np.stack(await service.work(served, "similarity", run, texts)).astype(np.float64)
    lengths = np.linalg.norm(vectors, axis=1)
    first, second = vectors[::2], vectors[1::2]
    products = (first * second).sum(1) / np.maximum(lengths[::2] * lengths[1::2], 1e-30)
    return list(np.clip(products, -1, 1).tolist())


async def answer(service: Service, asked: AskAnswer) -> bytes:
    """Find the answer to a question in a passage, or say that it has none."""
    served = service.models.find(asked.model, "answer")
    task = served.task(asked.task, "span")
    question, passage = _readable([asked.question], "question")[0], _readable([asked.passage], "passage")[0]
    (found,) = await _predict(service, served, task, [{"question": question, "passage": passage}])
    chosen = found.chosen
    return encoded(
        {
            "model": served.name,
            "answer": chosen.text if chosen else None,
            "start": chosen.start if chosen else None,
            "end": chosen.end if chosen else None,
            "probability": min(1.0, max(0.0, found.probability)),
            "null_probability": min(1.0, max(0.0, 1 - math.fsum(found.probabilities))),
            "threshold": found.threshold if found.threshold > ALWAYS else None,
        }
    )


async def choose(service: Service, asked: AskChoose) -> bytes:
    """Say which text goes on from another: by a head that was trained for it, or by likelihood."""
    served = service.models.find(asked.model, "choose")
    if "choice" in served.kinds.values():
        task = served.task(asked.task, "choice")
        context, *choices = _readable([asked.context, *asked.choices], "choices")
        (found,) = await _predict(service, served, task, [{"context": context, "choices": choices}])
        by, probabilities = "head", list(found.probabilities)
    else:
        by, probabilities = "likelihood", await _likelihoods(service, served, asked.context, asked.choices)
    choice = probabilities.index(max(probabilities))
    return encoded({"model": served.name, "choice": choice, "probabilities": probabilities, "by": by})


async def _likelihoods(service: Service, served: Served, context: str, choices: Sequence[str]) -> list[float]:
    """How likely each is to follow, beside the others."""
    model = served.model

    def run(pairs: Sequence[tuple[str, str]]) -> list[float]:
        scores = model.score([text for _, text in pairs], after=[before for before, _ in pairs])
        return [score.nats for score in scores]

    rows = [(mend(context), _following(mend(context), mend(choice))) for choice in choices]
    nats = np.array(await service.work(served, "choose", run, rows))
    chances = np.exp(nats.min() - nats)
    return list((chances / chances.sum()).tolist())


def _following(context: str, choice: str) -> str:
    """A choice with the space between it and what it goes on from, where the script has one."""
    apart = context[-1:].isspace() or choice[0].isspace() or not context
    return choice if apart or _IDEOGRAPH.match(context[-1]) else f" {choice}"


async def translate(service: Service, asked: AskTranslate) -> bytes:
    """Translate texts."""
    served = service.models.find(asked.model, "translate")
    model: Pretrained = served.model

    def run(texts: Sequence[str]) -> list[str]:
        return model.translate(texts)

    found = await service.work(served, "translate", run, [mend(text) for text in listed(asked.input)])
    return encoded({"model": served.name, "data": [{"index": n, "text": text} for n, text in enumerate(found)]})


CALLS = (
    Call(path="/v1/classify", asked=AskClassify, answer=Judgements, function=classify),
    Call(path="/v1/pair", asked=AskPair, answer=Judgements, function=pair),
    Call(path="/v1/tag", asked=AskTag, answer=Tagged, function=tag),
    Call(path="/v1/similarity", asked=AskSimilarity, answer=Similarities, function=similarity),
    Call(path="/v1/answer", asked=AskAnswer, answer=Answered, function=answer),
    Call(path="/v1/choose", asked=AskChoose, answer=Choice, function=choose),
    Call(path="/v1/translate", asked=AskTranslate, answer=Translations, function=translate),
)
