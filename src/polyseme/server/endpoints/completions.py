"""/v1/completions: text generation, whole or as a stream"""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator
from itertools import product
from typing import Any

from polyseme.inference.detokenizer import TextPiece
from polyseme.inference.generation import GenerationConfig
from polyseme.server.continuous_batching import Chunk, GenerationRequest
from polyseme.server.endpoint import Endpoint, Service, as_list, encode_json
from polyseme.server.errors import ApiError, internal_error
from polyseme.server.model_registry import ServedModel
from polyseme.server.schemas.text import CompletionsRequest, CompletionsResponse


async def completions(
    service: Service, served: ServedModel, request: CompletionsRequest
) -> bytes | AsyncIterator[bytes]:
    """Generate text from a prompt."""
    if request.best_of not in (None, request.n or 1):
        raise ApiError(422, "unsupported_value", "best_of must equal n; omit it", param="best_of")
    if request.echo and request.logprobs is not None:
        message = "echo and logprobs cannot be combined; score prompts with /v1/score"
        raise ApiError(422, "unsupported_value", message, param="echo")
    prompts, n = as_list(request.prompt), request.n or 1
    prompt_ids = [served.model.prompt_ids(prompt) for prompt in prompts]
    seed = secrets.randbits(32) if request.seed is None else request.seed % 2**63
    chunks: asyncio.Queue[tuple[int, Chunk]] = asyncio.Queue()
    generations = [
        GenerationRequest(
            index=index,
            prompt=ids,
            config=_generation_config(request, seed=(seed + copy) % 2**63),
            num_logprobs=request.logprobs,
            chunks=chunks,
        )
        for index, (ids, copy) in enumerate(product(prompt_ids, range(n)))
    ]
    echoes = [prompt if request.echo else "" for prompt in prompts for _ in range(n)]
    header = {
        "id": f"cmpl-{secrets.token_hex(12)}",
        "object": "text_completion",
        "created": int(time.time()),
        "model": served.name,
    }
    if request.stream:
        return _stream(service, served, request, generations, echoes, header)
    pieces: list[list[TextPiece]] = [[] for _ in generations]
    finish_reasons: dict[int, str | None] = {}
    async for arrived in _generate(service, served, generations):
        for index, chunk in arrived:
            pieces[index] += chunk.pieces
            finish_reasons[index] = _finish_reason(chunk)
    choices = [
        _choice(index, pieces[index], finish_reasons[index], request.logprobs is not None, echo)
        for index, echo in enumerate(echoes)
    ]
    return encode_json({**header, "choices": choices, "usage": _usage(request, generations)})


def _generation_config(request: CompletionsRequest, *, seed: int) -> GenerationConfig:
    names = {"max_tokens", "temperature", "top_p", "top_k", "repetition_penalty"}
    settings = {"temperature": 1.0, **request.model_dump(include=names, exclude_none=True)}
    return GenerationConfig(**settings, seed=seed, stop=tuple(as_list(request.stop)) if request.stop else ())


async def _generate(
    service: Service, served: ServedModel, generations: list[GenerationRequest]
) -> AsyncIterator[list[tuple[int, Chunk]]]:
    """Generate texts, yielding the chunks that have arrived since the last ones; cancel those unfinished at the end."""
    scheduler = service.generation_scheduler(served)
    for generation in generations:
        scheduler.submit(generation)
    service.scheduler.wake()
    chunks, num_unfinished = generations[0].chunks, len(generations)
    try:
        while num_unfinished:
            arrived = [await chunks.get()]
            while not chunks.empty():
                arrived.append(chunks.get_nowait())
            num_unfinished -= sum(chunk.finish_reason is not None for _, chunk in arrived)
            yield arrived
    finally:
        for generation in generations:
            generation.cancelled = True


async def _stream(
    service: Service,
    served: ServedModel,
    request: CompletionsRequest,
    generations: list[GenerationRequest],
    echoes: list[str],
    header: dict[str, Any],
) -> AsyncIterator[bytes]:
    """Server-sent events with pieces of the texts, in the order in which they are generated."""
    include_usage = request.stream_options and request.stream_options.get("include_usage")
    extra = {"usage": None} if include_usage else {}
    for index, echo in enumerate(echoes):
        if echo:
            yield _event({**header, "choices": [_choice(index, [], None, False, echo)], **extra})
    async for arrived in _generate(service, served, generations):
        choices = [
            _choice(index, chunk.pieces, _finish_reason(chunk), request.logprobs is not None)
            for index, chunk in arrived
            if chunk.pieces or chunk.finish_reason
        ]
        if choices:
            yield b"".join(_event({**header, "choices": [choice], **extra}) for choice in choices)
    if include_usage:
        yield _event({**header, "choices": [], "usage": _usage(request, generations)})
    yield b"data: [DONE]\n\n"


def _finish_reason(chunk: Chunk) -> str | None:
    if chunk.finish_reason == "error":
        raise internal_error()
    if chunk.finish_reason == "shutdown":
        raise ApiError(503, "shutting_down", "the server is shutting down; try again later")
    return chunk.finish_reason


def _choice(
    index: int, pieces: list[TextPiece], finish_reason: str | None, with_logprobs: bool, echo: str = ""
) -> dict[str, Any]:
    logprobs = None
    if with_logprobs:
        logprobs = {
            "tokens": [piece.text for piece in pieces],
            "token_logprobs": [piece.logprobs.logprob for piece in pieces],
            "top_logprobs": [piece.logprobs.top for piece in pieces],
            "text_offset": [piece.start for piece in pieces],
        }
    text = echo + "".join(piece.text for piece in pieces)
    return {"index": index, "text": text, "logprobs": logprobs, "finish_reason": finish_reason}


def _usage(request: CompletionsRequest, generations: list[GenerationRequest]) -> dict[str, int]:
    num_prompt_tokens = sum(len(one.prompt) for one in generations[:: request.n or 1])  # each prompt once
    num_generated = sum(one.num_generated for one in generations)
    total = num_prompt_tokens + num_generated
    return {"prompt_tokens": num_prompt_tokens, "completion_tokens": num_generated, "total_tokens": total}


def _event(content: dict[str, Any]) -> bytes:
    return b"data: " + encode_json(content) + b"\n\n"


ENDPOINTS = (Endpoint(completions, CompletionsRequest, CompletionsResponse, streams=True),)
