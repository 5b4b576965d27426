"""Calls that look inside a model: its words, its attention, the senses of a word."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from polyseme.inside.attention import Attention as Found
from polyseme.inside.neighbours import Neighbour, nearest_words
from polyseme.inside.occurrences import Forms
from polyseme.pretrained import Pretrained
from polyseme.serve.calls import Call, Service, encoded
from polyseme.serve.errors import CallError
from polyseme.serve.schema_tasks import (
    AskAnalogy,
    AskAttention,
    AskNeighbours,
    AskSenses,
    Attention,
    HeadTold,
    NearWords,
    Senses,
)
from polyseme.serve.scores import written
from polyseme.text.vocabulary import mend

MOST_TOKENS = 128  # whose attention is sent, at most
_MOST_WEIGHTS = 600_000  # numbers of an answer; with many heads, fewer tokens


async def neighbours(service: Service, asked: AskNeighbours) -> bytes:
    """Find the words whose vectors, before any context, are nearest to that of a word."""
    served = service.models.find(asked.model, "neighbours")
    model = served.model

    def run(words: Sequence[str]) -> list[list[dict[str, Any]]]:
        return [_near(model, model.neighbours(_known(model, word, "word"), top=asked.top)) for word in words]

    (found,) = await service.work(served, ("neighbours", asked.top), run, [asked.word])
    return encoded({"model": served.name, "data": found})


async def analogy(service: Service, asked: AskAnalogy) -> bytes:
    """Find what is to c as b is to a."""
    served = service.models.find(asked.model, "analogy")
    model = served.model

    def run(questions: Sequence[tuple[str, str, str]]) -> list[list[dict[str, Any]]]:
        return [
            _near(
                model,
                model.analogy(
                    *(_known(model, word, name) for word, name in zip(words, "abc", strict=True)), top=asked.top
                ),
            )
            for words in questions
        ]

    (found,) = await service.work(served, ("analogy", asked.top), run, [(asked.a, asked.b, asked.c)])
    return encoded({"model": served.name, "data": found})


def _known(model: Pretrained, word: str, param: str) -> str:
    """A word of the model; of one that it lacks, nothing is said but which ones are spelt like it."""
    assert model.tokenizer is not None
    word = mend(word).strip()
    if not word or model.space.find(word) is None:
        close = nearest_words(word, model.tokenizer.backend.get_vocab()) if word else []
        hint = f"; there are {', '.join(other for other in close if other != word)}" if close else ""
        raise CallError(
            422, "unknown_word", f"this is not one token of the model{hint}; give another word", param=param
        )
    return word


def _near(model: Pretrained, found: Sequence[Neighbour]) -> list[dict[str, Any]]:
    assert model.tokenizer is not None
    rows = []
    for one in found:
        id = model.tokenizer.id(one.word)
        text = one.word if id is None else written(model, id).strip() or one.word
        rows.append({"text": text, "similarity": one.score})
    return rows


async def attention(service: Service, asked: AskAttention) -> bytes:
    """Show where each token looks, in every head of every layer."""
    served = service.models.find(asked.model, "attention")
    model = served.model
    texts = [mend(text) for text in (asked.input, asked.second) if text is not None]
    if not all(text.strip() for text in texts):
        raise CallError(422, "empty", "there is no text to look at; give some", param="input")
    if asked.second is not None and model.encoder.layout != "framed":
        raise CallError(
            422, "pair", f"a {model.family} has no frame for two texts; leave the second away", param="second"
        )

    def run(asked: Sequence[Sequence[str]]) -> list[bytes]:
        return [_attention(model, served.name, list(texts)) for texts in asked]

    (found,) = await service.work(served, "attention", run, [texts])
    return bytes(found)


def _attention(model: Pretrained, name: str, texts: list[str]) -> bytes:
    assert model.tokenizer is not None
    tokens = model.tokenizer.encode(*texts)
    num_maps = getattr(model.encoder.config, "num_layers", 1) * getattr(model.encoder.config, "num_heads", 1)
    most = min(MOST_TOKENS, model.encoder.config.max_length, max(8, math.isqrt(_MOST_WEIGHTS // num_maps)))
    if len(tokens.ids) > most:
        message = f"the text has {len(tokens.ids)} tokens; attention is sent of at most {most} of this model's"
        raise CallError(422, "too_long", message, param="input")
    spans = _places(tokens.offsets, texts)
    return encoded(_shown(name, model.attention(*texts), spans))


Place = tuple[int, int, bool]


def _places(offsets: Sequence[tuple[int, int]], texts: Sequence[str]) -> list[Place]:
    """The characters of each token, and whether it is of the second text: that begins where offsets start again."""
    places: list[Place] = []
    last, second = -1, False
    for start, end in offsets:
        if end > start:
            second |= len(texts) > 1 and start < last
            last = start
        places.append((start, end, second))
    return places


def _shown(name: str, found: Found, spans: Sequence[Place] | None) -> dict[str, Any]:
    num_layers, num_heads, *_ = found.maps.shape
    crossing = found.seen is not found.line
    return {
        "model": name,
        "name": found.name,
        "tokens": _tokens(found.line.shown, None if crossing else spans),
        "seen": _tokens(found.seen.shown, spans) if crossing else None,
        "layers": num_layers,
        "heads": num_heads,
        "causal": found.causal,
        "weights": np.round(found.maps.astype(np.float64), 4).tolist(),
        "heads_told": [{key: _rounded(row[key]) for key in HeadTold.model_fields} for row in found.table()],
        "cross": _shown(name, found.cross, spans) if found.cross else None,
    }


def _rounded(value: Any) -> Any:
    return round(value, 4) if isinstance(value, float) else value


def _tokens(shown: Sequence[str], spans: Sequence[Place] | None) -> list[dict[str, Any]]:
    places = spans if spans is not None and len(spans) == len(shown) else [(0, 0, False)] * len(shown)
    return [
        {"text": text, "start": start, "end": end, "second": second}
        for text, (start, end, second) in zip(shown, places, strict=True)
    ]


async def senses(service: Service, asked: AskSenses) -> bytes:
    """Map every occurrence of a word in texts, in every layer."""
    served = service.models.find(asked.model, "senses")
    model = served.model
    texts = [mend(text) for text in asked.texts]
    word = mend(asked.word)
    if not word.strip(" ,，\t\n\r"):
        raise CallError(422, "empty", "there is no word to look for", param="word")
    forms = Forms(word)
    numbers = [number for number, text in enumerate(texts) for _ in forms.find(text)]
    if not numbers:
        raise CallError(
            422, "unknown_word", "the word stands nowhere in the texts; give its forms: bank,banks", param="word"
        )

    def run(asked: Sequence[tuple[str, Sequence[str]]]) -> list[dict[str, Any]]:
        return [_senses(model, word, texts, numbers) for word, texts in asked]

    # Occurrences are numbered above, so each request is worked on alone.
    (found,) = await service.work(served, ("senses", object()), run, [(word, texts)])
    return encoded({"model": served.name, **found})


def _senses(model: Pretrained, word: str, texts: Sequence[str], numbers: Sequence[int]) -> dict[str, Any]:
    found = model.senses(word, list(texts), most=0)
    layers = [
        {
            "layer": number,
            "self_similarity": layer.self_similarity,
            "points": [
                {"text": text, "start": one.start, "end": one.end, "x": round(x, 5), "y": round(y, 5)}
                for text, one, (x, y) in zip(numbers, found.occurrences, layer.points.tolist(), strict=True)
            ],
        }
        for number, layer in enumerate(found.layers)
    ]
    return {"word": found.word, "static": found.static, "layers": layers}


CALLS = (
    Call(path="/v1/neighbours", asked=AskNeighbours, answer=NearWords, function=neighbours),
    Call(path="/v1/analogy", asked=AskAnalogy, answer=NearWords, function=analogy),
    Call(path="/v1/attention", asked=AskAttention, answer=Attention, function=attention),
    Call(path="/v1/senses", asked=AskSenses, answer=Senses, function=senses),
)
