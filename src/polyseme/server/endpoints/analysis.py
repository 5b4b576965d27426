"""/v1/neighbours, /v1/analogy, /v1/attention and /v1/senses"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from polyseme.analysis.attention import Attention
from polyseme.analysis.occurrences import WordForms
from polyseme.inference.embedding_space import Neighbour
from polyseme.pretrained import Pretrained
from polyseme.server.endpoint import Endpoint, Service, encode_json
from polyseme.server.errors import ApiError
from polyseme.server.model_registry import ServedModel
from polyseme.server.schemas import analysis as schemas
from polyseme.tokenization.words import token_text

_MAX_TOKENS = 128  # of a text whose attention weights are returned
_MAX_WEIGHTS = 600_000  # of a response; models with many heads get fewer tokens
_HEAD_STATISTICS = tuple(schemas.HeadSummary.model_fields)

WordsRequest = schemas.NeighboursRequest | schemas.AnalogyRequest
TokenSpan = tuple[int, int, int]  # first character, the one after the last, segment


async def neighbours(service: Service, served: ServedModel, request: schemas.NeighboursRequest) -> bytes:
    """Find the words with the most similar context-free embeddings."""
    return await _similar_words(service, served, request, served.model.neighbours)


async def analogy(service: Service, served: ServedModel, request: schemas.AnalogyRequest) -> bytes:
    """Solve an analogy: b is to a as which words are to c?"""
    return await _similar_words(service, served, request, served.model.analogy)


async def _similar_words(
    service: Service, served: ServedModel, request: WordsRequest, find: Callable[..., list[Neighbour]]
) -> bytes:
    """Search with the words of a request, which have to be in the vocabulary."""
    model, top = served.model, request.top
    words = request.model_dump(exclude={"model", "top"})

    def run(batch: Sequence[dict[str, str]]) -> list[list[dict[str, Any]]]:
        known = [[_require_known(model, word, param) for param, word in item.items()] for item in batch]
        return [_to_json(model, find(*item, top=top)) for item in known]

    (found,) = await service.run_batched(served, (find.__name__, top), run, [words])
    return encode_json({"model": served.name, "data": found})


def _require_known(model: Pretrained, word: str, param: str) -> str:
    """A word that is in the vocabulary; for OOV words, an error with words of similar spelling."""
    word = word.strip()
    if not word or model.space.with_oov_words([word]).find(word) is None:
        similar = model.space.similar_words(word) if word else []
        advice = f"did you mean {', '.join(similar)}?" if similar else "try another word"
        raise ApiError(422, "unknown_word", f"{param} is not in the vocabulary of the model; {advice}", param=param)
    return word


def _to_json(model: Pretrained, neighbours: Sequence[Neighbour]) -> list[dict[str, Any]]:
    rows = []
    for one in neighbours:
        id = model.require_tokenizer().id(one.word)
        text = one.word if id is None else token_text(model.require_tokenizer(), id).strip() or one.word
        rows.append({"text": text, "similarity": one.score})
    return rows


async def attention(service: Service, served: ServedModel, request: schemas.AttentionRequest) -> bytes:
    """Return the attention weights of every head in every layer."""
    model = served.model
    texts = [text for text in (request.input, request.text_pair) if text is not None]
    if not all(text.strip() for text in texts):
        raise ApiError(422, "empty_text", "the text is empty; give one", param="input")
    if request.text_pair is not None and model.encoder.input_format != "cross_encoder":
        message = f"{model.family} does not encode text pairs; omit text_pair"
        raise ApiError(422, "unsupported_value", message, param="text_pair")

    def run(inputs: Sequence[list[str]]) -> list[bytes]:
        return [_attention(model, served.name, texts) for texts in inputs]

    (found,) = await service.run_batched(served, "attention", run, [texts])
    return bytes(found)


def _attention(model: Pretrained, name: str, texts: list[str]) -> bytes:
    tokens = model.require_tokenizer().encode(*texts)
    num_maps = getattr(model.encoder.config, "num_layers", 1) * getattr(model.encoder.config, "num_heads", 1)
    limit = min(_MAX_TOKENS, model.encoder.config.max_length, max(8, math.isqrt(_MAX_WEIGHTS // num_maps)))
    if len(tokens.ids) > limit:
        message = f"the text has {len(tokens.ids)} tokens, the limit for this model is {limit}; shorten it"
        raise ApiError(422, "text_too_long", message, param="input")
    return encode_json(_attention_json(name, model.attention(*texts), _token_spans(tokens.offsets, texts)))


def _token_spans(offsets: Sequence[tuple[int, int]], texts: Sequence[str]) -> list[TokenSpan]:
    """The character span and segment of each token; the second segment begins where offsets start again."""
    spans: list[TokenSpan] = []
    last, segment = -1, 0
    for start, end in offsets:
        if end > start:
            if len(texts) > 1 and start < last:
                segment = 1
            last = start
        spans.append((start, end, segment))
    return spans


def _attention_json(name: str, found: Attention, spans: Sequence[TokenSpan] | None) -> dict[str, Any]:
    num_layers, num_heads, *_ = found.weights.shape
    is_cross = found.keys is not found.queries
    return {
        "model": name,
        "name": found.name,
        "tokens": _tokens_json(found.queries.display, None if is_cross else spans),
        "key_tokens": _tokens_json(found.keys.display, spans) if is_cross else None,
        "layers": num_layers,
        "heads": num_heads,
        "causal": found.causal,
        "weights": np.round(found.weights.astype(np.float64), 4).tolist(),
        "head_statistics": [
            {key: round(row[key], 4) if isinstance(row[key], float) else row[key] for key in _HEAD_STATISTICS}
            for row in found.table()
        ],
        "cross_attention": _attention_json(name, found.cross, spans) if found.cross else None,
    }


def _tokens_json(texts: Sequence[str], spans: Sequence[TokenSpan] | None) -> list[dict[str, Any]]:
    matching = spans if spans is not None and len(spans) == len(texts) else [(0, 0, 0)] * len(texts)
    return [
        {"text": text, "start": start, "end": end, "segment": segment}
        for text, (start, end, segment) in zip(texts, matching, strict=True)
    ]


async def senses(service: Service, served: ServedModel, request: schemas.SensesRequest) -> bytes:
    """Project every occurrence of a word in sentences to two dimensions, in every layer."""
    texts, word = request.texts, request.word
    if not word.strip(" ,，\t\n\r"):
        raise ApiError(422, "empty_text", "the word is empty; give one", param="word")
    forms = WordForms(word)
    text_indices = [index for index, text in enumerate(texts) for _ in forms.find(text)]
    if not text_indices:
        message = "the word does not occur in the texts; list its forms, separated by commas: bank,banks"
        raise ApiError(422, "unknown_word", message, param="word")

    def run(_: Sequence[Any]) -> list[dict[str, Any]]:
        return [_senses_json(served.model, word, texts, text_indices)]

    # The unique name keeps each request in a batch of its own.
    (found,) = await service.run_batched(served, ("senses", object()), run, [(word, texts)])
    return encode_json({"model": served.name, **found})


def _senses_json(model: Pretrained, word: str, texts: Sequence[str], text_indices: Sequence[int]) -> dict[str, Any]:
    found = model.senses(word, list(texts), max_occurrences=0)
    layers = [
        {
            "layer": index,
            "self_similarity": layer.metrics["self_similarity"],
            "points": [
                {"text": text, "start": one.start, "end": one.end, "x": round(x, 5), "y": round(y, 5)}
                for text, one, (x, y) in zip(text_indices, found.occurrences, layer.points.tolist(), strict=True)
            ],
        }
        for index, layer in enumerate(found.layers)
    ]
    return {"word": found.word, "static": found.static, "layers": layers}


ENDPOINTS = (
    Endpoint(neighbours, schemas.NeighboursRequest, schemas.NeighboursResponse),
    Endpoint(analogy, schemas.AnalogyRequest, schemas.NeighboursResponse),
    Endpoint(attention, schemas.AttentionRequest, schemas.AttentionResponse),
    Endpoint(senses, schemas.SensesRequest, schemas.SensesResponse),
)
