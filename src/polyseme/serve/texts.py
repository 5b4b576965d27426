"""Calls about texts: vectors, blanks, and how likely a text is."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyseme.pretrained import Pretrained
from polyseme.serve.calls import Call, Service, encoded, listed
from polyseme.serve.errors import CallError
from polyseme.serve.schema import AskEmbeddings, AskFill, AskScore, Embeddings, Filled, Scores
from polyseme.serve.scores import score_tokens
from polyseme.text.vocabulary import mend

Vector = tuple[NDArray[np.float32], int]  # and the tokens that it is the mean of

_BLANK = "[MASK]"


async def embeddings(service: Service, asked: AskEmbeddings) -> bytes:
    """Turn texts into vectors."""
    served = service.models.find(asked.model, "embeddings")
    model, texts = served.model, listed(asked.input)
    widths = model.encoder.widths
    if not -len(widths) <= asked.layer < len(widths):
        raise CallError(422, "layer", f"there is no such layer; the layers are 0 to {len(widths) - 1}", param="layer")
    width = widths[asked.layer]
    if asked.dimensions not in (None, width):
        raise CallError(422, "dimensions", f"vectors of this model have {width} numbers", param="dimensions")

    def run(texts: Sequence[str]) -> list[Vector]:
        vectors, lengths = model.embed_counted(texts, pool=asked.pool, layer=asked.layer)
        return list(zip(vectors, lengths, strict=True))

    found: list[Vector] = await service.work(served, ("embeddings", asked.layer, asked.pool), run, texts)
    number = sum(length for _, length in found)
    if asked.encoding_format == "base64":
        rows = [b'"' + base64.b64encode(vector.astype("<f4").tobytes()) + b'"' for vector, _ in found]
    else:
        rows = [encoded(vector.tolist()) for vector, _ in found]
    # Written out by hand: a model of pydantic would take longer than a small encoder.
    data = b",".join(
        b'{"object":"embedding","index":%d,"embedding":%b}' % (place, row) for place, row in enumerate(rows)
    )
    usage = b'{"prompt_tokens":%d,"completion_tokens":0,"total_tokens":%d}' % (number, number)
    return b'{"object":"list","data":[%b],"model":%b,"usage":%b}' % (data, encoded(served.name), usage)


async def fill(service: Service, asked: AskFill) -> bytes:
    """Say what may stand in the blanks of texts, written [MASK]."""
    served = service.models.find(asked.model, "fill")
    model, texts = served.model, listed(asked.input)
    for text in texts:
        if not any(token in text for token in _blanks(model)):
            raise CallError(
                422, "no_blank", "a text has no blank; write [MASK] where the word is missing", param="input"
            )

    def run(texts: Sequence[str]) -> list[list[dict[str, Any]]]:
        return [_filled(model, text, asked.top) for text in texts]

    found = await service.work(served, ("fill", asked.top), run, texts)
    data = [{"index": place, "blanks": blanks} for place, blanks in enumerate(found)]
    return encoded({"model": served.name, "data": data})


def _blanks(model: Pretrained) -> list[str]:
    """How a blank may be written: as BERT has it, or as the model itself."""
    tokenizer = model.tokenizer
    own = tokenizer.specials.mask if tokenizer else None
    return [_BLANK, *([tokenizer.token(own)] if tokenizer and own is not None else [])]


def _filled(model: Pretrained, text: str, top: int) -> list[dict[str, Any]]:
    assert model.tokenizer is not None
    places = []
    start = 0
    while True:
        found = [(text.find(blank, start), len(blank)) for blank in set(_blanks(model)) if blank in text[start:]]
        if not found:
            break
        start, length = min(found)
        places.append((start, start + length))
        start += length
    guesses = model.fill(text, top=top)
    return [
        {
            "start": start,
            "end": end,
            "candidates": [{"text": guess.token, "probability": guess.probability} for guess in some],
        }
        for (start, end), some in zip(places, guesses, strict=False)
    ]


async def score(service: Service, asked: AskScore) -> bytes:
    """Say how likely texts are, and each of their tokens; masked models on a scale of their own."""
    served = service.models.find(asked.model, "score")
    model, texts = served.model, [mend(text) for text in listed(asked.input)]

    def run(texts: Sequence[str]) -> list[dict[str, Any]]:
        return score_tokens(model, texts, top=asked.top)

    found = await service.work(served, ("score", asked.top), run, texts)
    return encoded({"model": served.name, "data": [{"index": place, **row} for place, row in enumerate(found)]})


CALLS = (
    Call(path="/v1/embeddings", asked=AskEmbeddings, answer=Embeddings, function=embeddings),
    Call(path="/v1/fill", asked=AskFill, answer=Filled, function=fill),
    Call(path="/v1/score", asked=AskScore, answer=Scores, function=score),
)
