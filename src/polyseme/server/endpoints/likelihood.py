"""/v1/score: log probability of texts and tokens"""

import math
from collections.abc import Sequence
from typing import Any

from polyseme.inference.scores import Score
from polyseme.pretrained import Pretrained
from polyseme.server.endpoint import Endpoint, Service, as_list, encode_rows
from polyseme.server.model_registry import ServedModel
from polyseme.server.schemas.text import ScoreRequest, ScoreResponse
from polyseme.tokenization.words import token_text


async def score(service: Service, served: ServedModel, request: ScoreRequest) -> bytes:
    """Compute the log probability of texts and of each of their tokens."""
    model, texts = served.model, as_list(request.input)

    def run(texts: Sequence[str]) -> list[dict[str, Any]]:
        scores = model.score(texts, top=request.top)
        return [_to_json(model, text, one) for text, one in zip(texts, scores, strict=True)]

    found = await service.run_batched(served, ("score", request.top), run, texts)
    return encode_rows(served, found)


def _to_json(model: Pretrained, text: str, score: Score) -> dict[str, Any]:
    bits, tokenizer = score.bits_per_character, model.require_tokenizer()
    tokens = [
        {
            "text": text[token.start : token.end],
            "start": token.start,
            "end": token.end,
            "log_probability": -token.nats,
            "alternatives": [
                {"text": token_text(tokenizer, id), "log_probability": -nats} for id, nats in token.alternatives
            ],
        }
        for token in score.tokens
    ]
    return {
        "log_probability": -score.nats,
        "bits_per_character": bits if math.isfinite(bits) else None,
        "scale": model.likelihood_scale,
        "tokens": tokens,
    }


ENDPOINTS = (Endpoint(score, ScoreRequest, ScoreResponse),)
