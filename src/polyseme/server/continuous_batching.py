"""Continuous batching of text generation: requests join at the next token and leave when they end.

Each text has its own KV cache or recurrent state. A prompt is read alone; after that, one forward pass per step extends
all texts by a token. A text is the same, bit for bit, whichever others are generated with it.
"""

import asyncio
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

from polyseme.inference.detokenizer import Detokenizer, TextPiece
from polyseme.inference.generation import DecodingGroup, GeneratedSequence, GenerationConfig, step_groups
from polyseme.layers.linear import MAX_ROWS
from polyseme.pretrained import Pretrained
from polyseme.server.metrics import Metrics
from polyseme.tokenization.words import token_text

FinishReason = Literal["stop", "length", "shutdown", "error"]


@dataclass(frozen=True, kw_only=True)
class TokenLogprobs:
    """The log probability of a generated token, and the most probable tokens at its position."""

    logprob: float
    top: dict[str, float]


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """The text that was generated since the last chunk."""

    pieces: list[TextPiece]  # with TokenLogprobs, if requested
    finish_reason: FinishReason | None = None


@dataclass(eq=False, kw_only=True)
class GenerationRequest:
    """A prompt, and the queue that receives the chunks of its text, with an index because texts can share a queue."""

    index: int
    prompt: list[int]
    config: GenerationConfig
    num_logprobs: int | None
    chunks: asyncio.Queue[tuple[int, Chunk]]
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    cancelled: bool = False
    num_generated: int = 0


class GenerationScheduler:
    """All texts that one model generates."""

    def __init__(self, model: Pretrained, metrics: Metrics) -> None:
        self.model = model.language_model
        self.tokenizer = model.require_tokenizer()
        self.waiting: list[GenerationRequest] = []
        self.active: dict[DecodingGroup, tuple[GenerationRequest, Detokenizer]] = {}  # a group for each text
        self.metrics = metrics
        self._lock = threading.Lock()

    @property
    def num_unfinished(self) -> int:
        """Requests that are active or waiting."""
        return len(self.active) + len(self.waiting)

    def submit(self, request: GenerationRequest) -> None:
        """Begin a request at the next step with room for it."""
        with self._lock:
            self.waiting.append(request)

    def step(self) -> bool:
        """Extend each text by one token; returns whether any is unfinished."""
        with self._lock:
            self.waiting = [one for one in self.waiting if not one.cancelled]
            self.active = {group: text for group, text in self.active.items() if not text[0].cancelled}
            room = MAX_ROWS - len(self.active)
            new, self.waiting = self.waiting[:room], self.waiting[room:]
        for request in new:
            group = DecodingGroup(self.model, [request.prompt], request.config)
            self.active[group] = request, Detokenizer(self.tokenizer, request.prompt, request.config.stop)
        chunks: list[tuple[GenerationRequest, Chunk]] = []
        with torch.inference_mode():
            for groups, logits in step_groups(self.model, [*self.active]):
                for group, scores in zip(groups, logits, strict=True):
                    request, detokenizer = self.active[group]
                    chunk = self._extend(group.sequences[0], request, detokenizer, scores)
                    chunks.append((request, chunk))
                    if chunk.finish_reason:
                        del self.active[group]
        _deliver(chunks)
        with self._lock:
            return bool(self.active or self.waiting)

    def stop(self, reason: Literal["shutdown", "error"]) -> None:
        """End all texts."""
        with self._lock:
            ended = [*(request for request, _ in self.active.values()), *self.waiting]
            self.active, self.waiting = {}, []
        _deliver([(request, Chunk(pieces=[], finish_reason=reason)) for request in ended])

    def _extend(
        self, sequence: GeneratedSequence, request: GenerationRequest, detokenizer: Detokenizer, logits: Tensor
    ) -> Chunk:
        token = sequence.extend(logits, self.model.end)
        if token is None:
            return Chunk(pieces=detokenizer.flush(), finish_reason="stop")
        request.num_generated = sequence.num_generated
        self.metrics.generated_tokens.inc()
        logprobs = None
        if request.num_logprobs is not None:
            logprobs = self._logprobs(detokenizer, logits, token, request.num_logprobs)
        pieces = detokenizer.add(token, logprobs)
        if detokenizer.stopped:
            return Chunk(pieces=pieces, finish_reason="stop")
        if sequence.finished:
            return Chunk(pieces=[*pieces, *detokenizer.flush()], finish_reason="length")
        return Chunk(pieces=pieces)

    def _logprobs(self, detokenizer: Detokenizer, logits: Tensor, token: int, num_top: int) -> TokenLogprobs:
        logprobs = logits.log_softmax(-1)
        top: dict[str, float] = {}
        if num_top:
            best = logprobs.topk(min(num_top, len(logprobs)))
            for id, value in zip(best.indices.tolist(), best.values.tolist(), strict=True):
                text = detokenizer.preview(id)
                if not text or "\ufffd" in text:
                    text = token_text(self.tokenizer, id)
                if text in top:
                    text = self.tokenizer.token(id)
                top[text] = value
        return TokenLogprobs(logprob=float(logprobs[token]), top=top)


def _deliver(chunks: Sequence[tuple[GenerationRequest, Chunk]]) -> None:
    """Put chunks into the queues of their requests in the event loop, all at once."""

    def put() -> None:
        for request, chunk in chunks:
            request.chunks.put_nowait((request.index, chunk))

    if chunks:
        call_in_loop(chunks[0][0].loop, put)


def call_in_loop(loop: asyncio.AbstractEventLoop, function: Callable[[], None]) -> None:
    """Call a function in the event loop of another thread, unless the loop is closed and nobody waits."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(function)
