"""/v1/embeddings"""

import base64
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from polyseme.server.endpoint import Endpoint, Service, as_list, encode_json
from polyseme.server.errors import ApiError
from polyseme.server.model_registry import ServedModel
from polyseme.server.schemas.text import EmbeddingsRequest, EmbeddingsResponse

EmbeddedText = tuple[NDArray[np.float32], int]  # embedding and number of tokens


async def embeddings(service: Service, served: ServedModel, request: EmbeddingsRequest) -> bytes:
    """Embed texts."""
    model, texts = served.model, as_list(request.input)
    widths = model.encoder.widths
    if not -len(widths) <= request.layer < len(widths):
        message = f"the model has layers 0 to {len(widths) - 1}; choose one of these"
        raise ApiError(422, "invalid_layer", message, param="layer")
    width = widths[request.layer]
    if request.dimensions not in (None, width):
        message = f"the embeddings have {width} dimensions; omit dimensions"
        raise ApiError(422, "invalid_dimensions", message, param="dimensions")

    def run(texts: Sequence[str]) -> list[EmbeddedText]:
        vectors, lengths = model.embed_with_counts(texts, pool=request.pool, layer=request.layer)
        return list(zip(vectors, lengths, strict=True))

    queue = ("embeddings", request.layer, request.pool)
    found: list[EmbeddedText] = await service.run_batched(served, queue, run, texts)
    num_tokens = sum(length for _, length in found)
    if request.encoding_format == "base64":
        rows = [b'"' + base64.b64encode(vector.astype("<f4").tobytes()) + b'"' for vector, _ in found]
    else:
        rows = [encode_json(vector.tolist()) for vector, _ in found]
    # Serialized by hand: a pydantic model would take longer than a small encoder.
    data = b",".join(
        b'{"object":"embedding","index":%d,"embedding":%b}' % (index, row) for index, row in enumerate(rows)
    )
    usage = b'{"prompt_tokens":%d,"completion_tokens":0,"total_tokens":%d}' % (num_tokens, num_tokens)
    return b'{"object":"list","data":[%b],"model":%b,"usage":%b}' % (data, encode_json(served.name), usage)


ENDPOINTS = (Endpoint(embeddings, EmbeddingsRequest, EmbeddingsResponse),)
