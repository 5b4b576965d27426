"""/v1/completions: text generation, whole or as a stream"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

from polyseme.inference.detokenizer import TextPiece
from polyseme.inference.generation import GenerationConfig
from polyseme.server.continuous_batching import Chunk, GenerationRequest
from polyseme.server.endpoint import Endpoint, Service, as_list, encode_json
from polyseme.server.errors import ApiError, internal_error
from polyseme.server.model_registry import ServedModel
from polyseme.server.schemas.text import CompletionsRequest, CompletionsResponse


async def completions(service: Service, request: CompletionsRequest) -> bytes | AsyncIterator[bytes]:
    """Generate text from a prompt."""
    served = service.models.find(request.model, "completions")
    if request.best_of not in (None, request.n or 1):
        raise ApiError(422, "unsupported_value", "best_of must equal n; omit it", param="best_of")
    if request.echo and request.logprobs is not None:
        raise ApiError(
            422, "unsupported_value", "echo and logprobs cannot be combined; score prompts with /v1/score", param="echo"
        )
    prompts = as_list(request.prompt)
    prompt_ids = [served.model.prompt_ids(prompt) for prompt in prompts]
    seed = secrets.randbits(32) if request.seed is None else request.seed % 2**63
    generations = [
        GenerationRequest(
            prompt=ids,
            config=_generation_config(request, seed=(seed + index) % 2**63),
            num_logprobs=request.logprobs,
        )
        for ids in prompt_ids
        for index in range(request.n or 1)
    ]
    echoes = [prompt if request.echo else "" for prompt in prompts for _ in range(request.n or 1)]
    header = {
        "id": f"cmpl-{secrets.token_hex(12)}",
        "object": "text_completion",
        "created": int(time.time()),
        "model": served.name,
    }
    num_prompt_tokens = sum(map(len, prompt_ids))
    if request.stream:
        include_usage = bool(request.stream_options and request.stream_options.get("include_usage"))
        return _stream(service, served, generations, echoes, header, num_prompt_tokens, include_usage)
    with _submitted(service, served, generations):
        choices = [
            await _collect(index, generation, echo)
            for index, (generation, echo) in enumerate(zip(generations, echoes, strict=True))
        ]
    return encode_json({**header, "choices": choices, "usage": _usage(num_prompt_tokens, generations)})


def _generation_config(request: CompletionsRequest, *, seed: int) -> GenerationConfig:
    values = {
        "max_tokens": request.max_tokens,
        "temperature": 1.0 if request.temperature is None else request.temperature,
        "top_p": request.top_p,
        "top_k": request.top_k,
        "repetition_penalty": request.repetition_penalty,
        "seed": seed,
        "stop": tuple(as_list(request.stop)) if request.stop else (),
    }
    return GenerationConfig(**{name: value for name, value in values.items() if value is not None})


@contextmanager
def _submitted(service: Service, served: ServedModel, generations: list[GenerationRequest]) -> Iterator[None]:
    """Generate texts inside the block; cancel what is unfinished at its end."""
    scheduler = service.generation_scheduler(served)
    for generation in generations:
        scheduler.submit(generation)
    service.scheduler.wake()
    try:
        yield
    finally:
        for generation in generations:
            generation.cancelled = True


async def _collect(index: int, generation: GenerationRequest, echo: str) -> dict[str, Any]:
    """Wait for a whole text."""
    pieces: list[TextPiece] = []
    while True:
        chunk = await generation.chunks.get()
        pieces += chunk.pieces
        if chunk.finish_reason:
            break
    return _choice(index, pieces, _finish_reason(chunk), generation.num_logprobs is not None, echo)


async def _stream(
    service: Service,
    served: ServedModel,
    generations: list[GenerationRequest],
    echoes: list[str],
    header: dict[str, Any],
    num_prompt_tokens: int,
    include_usage: bool,
) -> AsyncIterator[bytes]:
    """Server-sent events with parts of the texts, in the order in which they are generated."""
    with_logprobs = generations[0].num_logprobs is not None
    chunks: asyncio.Queue[tuple[int, Chunk]] = asyncio.Queue()
    for index, generation in enumerate(generations):
        generation.chunks = _IndexedQueue(index, chunks)  # type: ignore[assignment]
    num_unfinished = len(generations)
    extra = {"usage": None} if include_usage else {}
    with _submitted(service, served, generations):
        for index, echo in enumerate(echoes):
            if echo:
                yield _event({**header, "choices": [_choice(index, [], None, False, echo)], **extra})
        while num_unfinished:
            arrived = [await chunks.get()]
            while not chunks.empty():
                arrived.append(chunks.get_nowait())
            events = []
            for index, chunk in arrived:
                num_unfinished -= chunk.finish_reason is not None
                if chunk.pieces or chunk.finish_reason:
                    finish_reason = _finish_reason(chunk) if chunk.finish_reason else None
                    choice = _choice(index, chunk.pieces, finish_reason, with_logprobs)
                    events.append(_event({**header, "choices": [choice], **extra}))
            if events:
                yield b"".join(events)
    if include_usage:
        yield _event({**header, "choices": [], "usage": _usage(num_prompt_tokens, generations)})
    yield b"data: [DONE]\n\n"


class _IndexedQueue:
    """Puts the chunks of one of several texts into their common queue."""

    def __init__(self, index: int, queue: asyncio.Queue[tuple[int, Chunk]]) -> None:
        self.index, self.queue = index, queue

    def put_nowait(self, chunk: Chunk) -> None:
        self.queue.put_nowait((self.index, chunk))


def _finish_reason(chunk: Chunk) -> str:
    if chunk.finish_reason == "error":
        raise internal_error()
    if chunk.finish_reason == "shutdown":
        raise ApiError(503, "shutting_down", "the server is shutting down; try again later")
    return str(chunk.finish_reason)


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


def _usage(num_prompt_tokens: int, generations: list[GenerationRequest]) -> dict[str, int]:
    num_generated = sum(generation.num_generated for generation in generations)
    return {
        "prompt_tokens": num_prompt_tokens,
        "completion_tokens": num_generated,
        "total_tokens": num_prompt_tokens + num_generated,
    }


def _event(content: dict[str, Any]) -> bytes:
    return b"data: " + encode_json(content) + b"\n\n"


ENDPOINTS = (
    Endpoint(
        path="/v1/completions",
        request=CompletionsRequest,
        response=CompletionsResponse,
        function=completions,
        streams=True,
    ),
)
