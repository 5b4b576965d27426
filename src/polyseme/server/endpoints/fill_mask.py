"""/v1/fill: masked-token prediction"""

import re
from collections.abc import Sequence
from typing import Any

from polyseme.inference.fill_mask import MaskPrediction
from polyseme.pretrained import Pretrained
from polyseme.server.endpoint import Endpoint, Service, as_list, encode_rows
from polyseme.server.errors import ApiError
from polyseme.server.model_registry import ServedModel
from polyseme.server.schemas.text import FillRequest, FillResponse
from polyseme.tokenization.words import token_text

_MASK = "[MASK]"


async def fill(service: Service, served: ServedModel, request: FillRequest) -> bytes:
    """Predict the tokens at each [MASK]."""
    model, texts, pattern = served.model, as_list(request.input), _mask_pattern(served.model)
    if not all(map(pattern.search, texts)):
        raise ApiError(422, "no_mask", "a text has no mask; write [MASK] for each token to predict", param="input")

    def run(texts: Sequence[str]) -> list[list[dict[str, Any]]]:
        return [_fill_text(model, pattern, text, request.top) for text in texts]

    found = await service.run_batched(served, ("fill", request.top), run, texts)
    return encode_rows(served, ({"masks": masks} for masks in found))


def _mask_pattern(model: Pretrained) -> re.Pattern[str]:
    """Matches [MASK] and the mask token of the model."""
    tokenizer = model.require_tokenizer()
    own = tokenizer.specials.mask
    spellings = {_MASK} if own is None else {_MASK, tokenizer.token(own)}
    return re.compile("|".join(map(re.escape, sorted(spellings, key=len))))


def _fill_text(model: Pretrained, pattern: re.Pattern[str], text: str, top: int) -> list[dict[str, Any]]:
    return [
        {
            "start": mask.start(),
            "end": mask.end(),
            "candidates": [{"text": _text(model, one), "probability": one.probability} for one in candidates],
        }
        for mask, candidates in zip(pattern.finditer(text), model.fill(text, top=top), strict=False)
    ]


def _text(model: Pretrained, candidate: MaskPrediction) -> str:
    id = model.require_tokenizer().id(candidate.token)
    return candidate.token if id is None else token_text(model.require_tokenizer(), id)


ENDPOINTS = (Endpoint(fill, FillRequest, FillResponse),)
