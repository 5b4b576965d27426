"""/v1/fill: masked-token prediction"""

from collections.abc import Sequence
from typing import Any

from polyseme.pretrained import Pretrained
from polyseme.server.endpoint import Endpoint, Service, as_list, encode_json
from polyseme.server.errors import ApiError
from polyseme.server.schemas.text import FillRequest, FillResponse

_MASK = "[MASK]"


async def fill(service: Service, request: FillRequest) -> bytes:
    """Predict the tokens at each [MASK]."""
    served = service.models.find(request.model, "fill")
    model, texts = served.model, as_list(request.input)
    spellings = _mask_spellings(model)
    for text in texts:
        if not any(mask in text for mask in spellings):
            raise ApiError(422, "no_mask", "a text has no mask; write [MASK] for each token to predict", param="input")

    def run(texts: Sequence[str]) -> list[list[dict[str, Any]]]:
        return [_fill_text(model, text, request.top) for text in texts]

    found = await service.run_batched(served, ("fill", request.top), run, texts)
    data = [{"index": index, "masks": masks} for index, masks in enumerate(found)]
    return encode_json({"model": served.name, "data": data})


def _mask_spellings(model: Pretrained) -> set[str]:
    """[MASK], and the mask token of the model."""
    tokenizer = model.require_tokenizer()
    own = tokenizer.specials.mask
    return {_MASK} if own is None else {_MASK, tokenizer.token(own)}


def _fill_text(model: Pretrained, text: str, top: int) -> list[dict[str, Any]]:
    spellings, spans, start = _mask_spellings(model), [], 0
    while found := [(text.find(mask, start), len(mask)) for mask in spellings if mask in text[start:]]:
        begin, length = min(found)
        start = begin + length
        spans.append((begin, start))
    return [
        {
            "start": begin,
            "end": end,
            "candidates": [{"text": one.token, "probability": one.probability} for one in candidates],
        }
        for (begin, end), candidates in zip(spans, model.fill(text, top=top), strict=False)
    ]


ENDPOINTS = (Endpoint(fill, FillRequest, FillResponse),)
