"""The call that writes on from a text, whole or piece by piece."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

from polyseme.serve.calls import Call, Service, encoded, listed
from polyseme.serve.errors import CallError
from polyseme.serve.models import Served
from polyseme.serve.pieces import Piece
from polyseme.serve.schema import AskCompletions, Completions
from polyseme.serve.writing import Manuscript, News, Writer, manuscript_of, settings


async def completions(service: Service, asked: AskCompletions) -> bytes | AsyncIterator[bytes]:
    """Write on from a text."""
    served = service.models.find(asked.model, "completions")
    if asked.best_of not in (None, asked.n or 1):
        raise CallError(422, "best_of", "best_of is n or nothing; choose among the n yourself", param="best_of")
    if asked.echo and asked.logprobs is not None:
        raise CallError(422, "echo", "echo and logprobs do not go together; ask /v1/score for a prompt", param="echo")
    model = served.model
    prompts = listed(asked.prompt)
    ids = [model.prompt_ids(prompt) for prompt in prompts]
    seed = secrets.randbits(32) if asked.seed is None else asked.seed % 2**63
    stop = tuple(listed(asked.stop)) if asked.stop else ()
    manuscripts = [
        manuscript_of(
            model,
            prompt,
            settings(
                max_tokens=asked.max_tokens,
                temperature=1.0 if asked.temperature is None else asked.temperature,
                top_p=asked.top_p,
                top_k=asked.top_k,
                repetition_penalty=asked.repetition_penalty,
                seed=(seed + number) % 2**63,
                stop=stop,
            ),
            asked.logprobs,
        )
        for prompt in ids
        for number in range(asked.n or 1)
    ]
    echoes = [prompt if asked.echo else "" for prompt in prompts for _ in range(asked.n or 1)]
    head = {
        "id": f"cmpl-{secrets.token_hex(12)}",
        "object": "text_completion",
        "created": int(time.time()),
        "model": served.name,
    }
    num_read = sum(map(len, ids))
    if asked.stream:
        usage = bool(asked.stream_options and asked.stream_options.get("include_usage"))
        return _stream(service, served, manuscripts, echoes, head, num_read, usage)
    with _written(service, served, manuscripts):
        choices = [
            await _whole(place, manuscript, echo)
            for place, (manuscript, echo) in enumerate(zip(manuscripts, echoes, strict=True))
        ]
    return encoded({**head, "choices": choices, "usage": _usage(num_read, manuscripts)})


@contextmanager
def _written(service: Service, served: Served, manuscripts: list[Manuscript]) -> Iterator[None]:
    """Let texts be written for as long as somebody waits for them."""
    writer: Writer = service.writer(served)
    for manuscript in manuscripts:
        writer.join(manuscript)
    service.worker.wake()
    try:
        yield
    finally:
        for manuscript in manuscripts:
            manuscript.left = True


async def _whole(place: int, manuscript: Manuscript, echo: str) -> dict[str, Any]:
    pieces: list[Piece] = []
    while True:
        news = await manuscript.news.get()
        pieces += news.pieces
        if news.ending:
            break
    return _choice(place, pieces, _ending(news), manuscript.num_logprobs is not None, echo)


async def _stream(
    service: Service,
    served: Served,
    manuscripts: list[Manuscript],
    echoes: list[str],
    head: dict[str, Any],
    num_read: int,
    usage: bool,
) -> AsyncIterator[bytes]:
    """Events with pieces of texts, whichever comes next."""
    told = manuscripts[0].num_logprobs is not None
    news: asyncio.Queue[tuple[int, News]] = asyncio.Queue()
    for place, manuscript in enumerate(manuscripts):
        manuscript.news = _Numbered(place, news)  # type: ignore[assignment]
    num_open = len(manuscripts)
    more = {"usage": None} if usage else {}
    with _written(service, served, manuscripts):
        for place, echo in enumerate(echoes):
            if echo:
                yield _event({**head, "choices": [_choice(place, [], None, False, echo)], **more})
        while num_open:
            waiting = [await news.get()]
            while not news.empty():
                waiting.append(news.get_nowait())
            events = []
            for place, one in waiting:
                num_open -= one.ending is not None
                if one.pieces or one.ending:
                    choice = _choice(place, one.pieces, _ending(one) if one.ending else None, told)
                    events.append(_event({**head, "choices": [choice], **more}))
            if events:
                yield b"".join(events)
    if usage:
        yield _event({**head, "choices": [], "usage": _usage(num_read, manuscripts)})
    yield b"data: [DONE]\n\n"


class _Numbered:
    """Where news of one of several texts is put."""

    def __init__(self, place: int, news: asyncio.Queue[tuple[int, News]]) -> None:
        self.place, self.news = place, news

    def put_nowait(self, news: News) -> None:
        self.news.put_nowait((self.place, news))


def _ending(news: News) -> str:
    if news.ending == "failed":
        raise CallError(500, "internal", "the server made a mistake, which is in its log; ask again")
    if news.ending == "stopped":
        raise CallError(503, "stopping", "the server stops before the text is written; ask again later")
    return str(news.ending)


def _choice(place: int, pieces: list[Piece], ending: str | None, told: bool, echo: str = "") -> dict[str, Any]:
    logprobs = None
    if told:
        logprobs = {
            "tokens": [piece.text for piece in pieces],
            "token_logprobs": [piece.told.logprob for piece in pieces],
            "top_logprobs": [piece.told.top for piece in pieces],
            "text_offset": [piece.start for piece in pieces],
        }
    text = echo + "".join(piece.text for piece in pieces)
    return {"index": place, "text": text, "logprobs": logprobs, "finish_reason": ending}


def _usage(num_read: int, manuscripts: list[Manuscript]) -> dict[str, int]:
    num_written = sum(manuscript.num_written for manuscript in manuscripts)
    return {"prompt_tokens": num_read, "completion_tokens": num_written, "total_tokens": num_read + num_written}


def _event(content: dict[str, Any]) -> bytes:
    return b"data: " + encoded(content) + b"\n\n"


CALLS = (Call(path="/v1/completions", asked=AskCompletions, answer=Completions, function=completions),)
