"""Fine-tuned tasks, and those that work without fine-tuning: similarity, multiple choice, translation."""

import math
import re
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from scipy.special import softmax

from polyseme.corpora.scripts import EAST_ASIAN
from polyseme.server.endpoint import Endpoint, Service, as_list, encode_json, encode_rows
from polyseme.server.errors import ApiError
from polyseme.server.model_registry import ServedModel
from polyseme.server.schemas import tasks as schemas
from polyseme.tasks.extractive_qa import ALWAYS_ANSWER
from polyseme.tasks.metrics import find_entities, marks_entities

_EAST_ASIAN = re.compile(f"[{EAST_ASIAN}]")


async def _predict(service: Service, served: ServedModel, task: str, rows: Sequence[Any]) -> list[Any]:
    return await service.run_batched(served, ("predict", task), partial(served.model.predict, task=task), rows)


def _require_text(texts: Sequence[str], param: str) -> list[str]:
    if not all(text.strip() for text in texts):
        raise ApiError(422, "empty_text", "a text is empty; remove it", param=param)
    return list(texts)


async def classify(service: Service, served: ServedModel, request: schemas.ClassifyRequest) -> bytes:
    """Classify texts."""
    task = served.find_task(request.task, "classify")
    texts = _require_text(as_list(request.input), "input")
    return _classifications(served, task, await _predict(service, served, task, texts))


async def pair(service: Service, served: ServedModel, request: schemas.PairRequest) -> bytes:
    """Classify sentence pairs."""
    task = served.find_task(request.task, "pair")
    pairs = [_require_text(texts, "pairs") for texts in request.pairs]
    return _classifications(served, task, await _predict(service, served, task, pairs))


def _classifications(served: ServedModel, task: str, predictions: Sequence[Any]) -> bytes:
    rows = ({"label": one.label, "probabilities": dict(one.probabilities)} for one in predictions)
    return encode_rows(served, rows, task=task)


async def tag(service: Service, served: ServedModel, request: schemas.TagRequest) -> bytes:
    """Label the entities or words of texts."""
    task = served.find_task(request.task, "tag")
    texts = _require_text(as_list(request.input), "input")
    predictions = await _predict(service, served, task, texts)
    entities = marks_entities(getattr(served.model.tasks[task], "labels", ()))
    rows = ({"spans": _spans(text, one.words, entities)} for text, one in zip(texts, predictions, strict=True))
    return encode_rows(served, rows, task=task)


def _spans(text: str, words: Sequence[Any], entities: bool) -> list[dict[str, Any]]:
    """Entities, with the lowest probability of their words; or single words."""
    if entities:
        found = find_entities([word.tag for word in words])
        groups = [(entity.name, words[entity.start : entity.end]) for entity in found]
    else:
        groups = [(word.tag, [word]) for word in words]
    return [
        {
            "start": group[0].start,
            "end": group[-1].end,
            "text": text[group[0].start : group[-1].end],
            "label": label,
            "probability": min(word.probability for word in group),
        }
        for label, group in groups
    ]


async def similarity(service: Service, served: ServedModel, request: schemas.SimilarityRequest) -> bytes:
    """Compute the semantic similarity of sentence pairs, by a fine-tuned head or the cosine of their embeddings."""
    if "similarity" in served.task_kinds.values():
        pairs = [_require_text(texts, "pairs") for texts in request.pairs]
        task = served.find_task(request.task, "similarity")
        method, scores = "head", [one.score for one in await _predict(service, served, task, pairs)]
    else:
        texts = [text for pair in request.pairs for text in pair]
        method, scores = "cosine", await _cosines(service, served, texts)
    return encode_rows(served, ({"score": score} for score in scores), method=method)


async def _cosines(service: Service, served: ServedModel, texts: Sequence[str]) -> list[float]:
    """The cosine similarity of each text at an even index with the next one."""
    vectors = np.array(await service.run_batched(served, "similarity", served.model.embed, texts), dtype=np.float64)
    norms = np.linalg.norm(vectors, axis=1)
    products = (vectors[::2] * vectors[1::2]).sum(1) / np.maximum(norms[::2] * norms[1::2], 1e-30)
    return list(np.clip(products, -1, 1).tolist())


async def answer(service: Service, served: ServedModel, request: schemas.AnswerRequest) -> bytes:
    """Find the answer to a question in a passage, or report that it has none."""
    task = served.find_task(request.task, "span")
    (question,), (passage,) = _require_text([request.question], "question"), _require_text([request.passage], "passage")
    (found,) = await _predict(service, served, task, [{"question": question, "passage": passage}])
    chosen = found.chosen
    return encode_json(
        {
            "model": served.name,
            "answer": chosen.text if chosen else None,
            "start": chosen.start if chosen else None,
            "end": chosen.end if chosen else None,
            "probability": min(1.0, max(0.0, found.probability)),
            "null_probability": min(1.0, max(0.0, 1 - math.fsum(found.probabilities))),
            "threshold": found.threshold if found.threshold > ALWAYS_ANSWER else None,
        }
    )


async def choose(service: Service, served: ServedModel, request: schemas.ChooseRequest) -> bytes:
    """Choose the best continuation of a text, by a fine-tuned head or by likelihood."""
    if "choice" in served.task_kinds.values():
        task = served.find_task(request.task, "choice")
        context, *choices = _require_text([request.context, *request.choices], "choices")
        (found,) = await _predict(service, served, task, [{"context": context, "choices": choices}])
        method, probabilities = "head", list(found.probabilities)
    else:
        method, probabilities = "likelihood", await _likelihoods(service, served, request.context, request.choices)
    choice = probabilities.index(max(probabilities))
    return encode_json({"model": served.name, "choice": choice, "probabilities": probabilities, "method": method})


async def _likelihoods(service: Service, served: ServedModel, context: str, choices: Sequence[str]) -> list[float]:
    """The likelihood of each continuation, normalized over the choices."""
    model = served.model

    def run(pairs: Sequence[tuple[str, str]]) -> list[float]:
        scores = model.score([text for _, text in pairs], after=[before for before, _ in pairs])
        return [-score.nats for score in scores]

    rows = [(context, _with_space(context, choice)) for choice in choices]
    log_likelihoods = await service.run_batched(served, "choose", run, rows)
    return list(softmax(log_likelihoods).tolist())


def _with_space(context: str, choice: str) -> str:
    """A continuation with the space that precedes it, if the script has one."""
    separate = context[-1:].isspace() or choice[0].isspace() or not context
    return choice if separate or _EAST_ASIAN.match(context[-1]) else f" {choice}"


async def translate(service: Service, served: ServedModel, request: schemas.TranslateRequest) -> bytes:
    """Translate texts."""
    found = await service.run_batched(served, "translate", served.model.translate, as_list(request.input))
    return encode_rows(served, ({"text": text} for text in found))


ENDPOINTS = (
    Endpoint(classify, schemas.ClassifyRequest, schemas.ClassificationResponse),
    Endpoint(pair, schemas.PairRequest, schemas.ClassificationResponse),
    Endpoint(tag, schemas.TagRequest, schemas.TagResponse),
    Endpoint(similarity, schemas.SimilarityRequest, schemas.SimilarityResponse),
    Endpoint(answer, schemas.AnswerRequest, schemas.AnswerResponse),
    Endpoint(choose, schemas.ChooseRequest, schemas.ChooseResponse),
    Endpoint(translate, schemas.TranslateRequest, schemas.TranslateResponse),
)
