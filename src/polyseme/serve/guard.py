"""What stands between the network and the calls: plain ASGI, because every request passes through it.

It checks the host and the key, counts bodies while they come in, admits so many requests and no more, ends what takes
too long, gives up what nobody waits for, and answers every mistake in one form and without repeating what was sent.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import logging
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from polyseme.errors import PolysemeError
from polyseme.serve.calls import Call, Service, refused
from polyseme.serve.errors import CallError, not_as_described
from polyseme.serve.metrics import Metrics

logger = logging.getLogger(__name__)

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_MOST_HELD = 64_000_000  # bytes of all bodies that are coming in
LEFT = "polyseme.left"
"""Where the connection finds whom to tell when its client leaves."""

_LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})
_OPEN = ("/health", "/ready", "/openapi.json", "/docs")  # what needs no key, beside the pages
_JSON_KIND = re.compile(rb'\s*application/json\s*(;\s*charset="?utf-?8"?\s*)?', re.IGNORECASE)
_HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]{2,45})\]|([A-Za-z0-9._-]{1,253}))(?::([0-9]{1,5}))?")

# Whatever an answer is, a browser runs nothing in it, frames it nowhere and sends no one there.
HEADERS = (
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)
_JSON = ((b"content-type", b"application/json"), *HEADERS)
_EVENTS = ((b"content-type", b"text/event-stream; charset=utf-8"), *HEADERS)


@dataclass(kw_only=True)
class Limits:
    """How much at once."""

    requests: int = 128  # admitted and not answered
    connections: int = 1024
    num_bytes: int = 2_000_000  # of a body
    receiving: float = 10.0  # seconds in which a request has to come in
    answering: float = 30.0  # seconds in which it has to be answered


@dataclass(kw_only=True)
class Guard:
    """The outermost application."""

    app: App
    service: Service
    calls: Mapping[str, Call]
    metrics: Metrics
    hosts: frozenset[str] = _LOCAL
    key: str = ""
    limits: Limits = field(default_factory=Limits)
    stopping: bool = False
    num_admitted: int = 0
    num_held: int = 0  # bytes of bodies that are coming in

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = time.perf_counter()
        call: Call | None = self.calls.get(scope["path"])
        sent = _Sent(send)
        try:
            try:
                await self._answer(scope, receive, sent, call)
            except CallError as refusal:
                await sent.refuse(refusal)
        except Exception as error:
            if sent.status:  # too late for another answer; the connection is closed
                raise
            logger.error("a request failed", exc_info=error)
            await sent.refuse(CallError(500, "internal", "the server made a mistake, which is in its log; ask again"))
        finally:
            self.metrics.request(call.name if call else "other", sent.status, time.perf_counter() - started)

    async def _answer(self, scope: Scope, receive: Receive, sent: _Sent, call: Call | None) -> None:
        named = self._check(scope)
        if call is None:
            if scope["method"] == "HEAD":
                scope = {**scope, "method": "GET"}  # whose body the server leaves away
            await self.app(scope, receive, sent)
            return
        if scope["method"] != "POST":
            raise CallError(405, "method", "this call is asked by POST", headers={"allow": "POST"})
        if not _JSON_KIND.fullmatch(named.get(b"content-type", b"application/json")):
            raise CallError(415, "content_type", "send the body as application/json, in UTF-8")
        if named.get(b"content-encoding", b"identity").lower() != b"identity":
            raise CallError(415, "content_encoding", "send the body as it is, not compressed")
        body = await self._body(named, receive)
        if self.stopping:
            raise CallError(503, "stopping", "the server is about to stop", headers={"retry-after": "5", **_CLOSE})
        if self.num_admitted >= self.limits.requests:
            raise CallError(429, "busy", "too many requests are waiting; ask again later", headers={"retry-after": "1"})
        self.num_admitted += 1
        task = asyncio.current_task()
        left = _Left(task)
        scope[LEFT] = left
        try:
            async with asyncio.timeout(self.limits.answering):
                await self._call(call, body, sent)
        except TimeoutError:
            if not sent.status:
                seconds = f"{self.limits.answering:.0f} s"
                raise CallError(504, "timeout", f"this took longer than {seconds}; ask for less at once") from None
            await sent.fail(CallError(504, "timeout", "this took too long; ask for less at once"))
        except asyncio.CancelledError:
            if not left.told:  # the time to stop is over
                stopping = CallError(503, "stopping", "the server has stopped before this was done; ask again")
                await (sent.fail(stopping) if sent.status else sent.refuse(stopping))
        finally:
            self.num_admitted -= 1
            scope[LEFT] = None

    async def _call(self, call: Call, body: bytes, sent: _Sent) -> None:
        try:
            asked = call.asked.model_validate_json(body)
        except ValidationError as error:
            raise not_as_described(error) from None
        try:
            answer = await call.function(self.service, asked)
        except PolysemeError as error:
            raise refused(error) from None
        if isinstance(answer, bytes):
            await sent.whole(200, _JSON, answer)
        else:
            await self._stream(answer, sent)

    async def _stream(self, events: AsyncIterator[bytes], sent: _Sent) -> None:
        await sent({"type": "http.response.start", "status": 200, "headers": list(_EVENTS)})
        try:
            async for event in events:
                await sent({"type": "http.response.body", "body": event, "more_body": True})
        except CallError as refusal:
            await sent.fail(refusal)
            return
        await sent({"type": "http.response.body", "body": b"", "more_body": False})

    def _check(self, scope: Scope) -> dict[bytes, bytes]:
        """The headers by name, once host and key are right."""
        named: dict[bytes, bytes] = {}
        num_hosts = 0
        for name, value in scope["headers"]:
            named[name] = value
            num_hosts += name == b"host"
        if num_hosts != 1:
            raise CallError(400, "host", "a request has one Host header", headers=_CLOSE)
        host = _HOST.fullmatch(named[b"host"].decode("latin-1"))
        if host is None:
            raise CallError(400, "host", "the Host header makes no sense", headers=_CLOSE)
        if not self._is_mine((host[1] or host[2]).lower().rstrip(".")):
            raise CallError(
                421, "host", "this server does not go by that name; start it with --allow-host", headers=_CLOSE
            )
        path = scope["path"]
        if named.get(b"expect", b"100-continue").lower() != b"100-continue":
            raise CallError(417, "expect", "nothing but 100-continue can be expected", headers=_CLOSE)
        if self.key and (path.startswith("/v1/") or path == "/metrics"):
            self._check_key(named.get(b"authorization", b""))
        return named

    def _is_mine(self, host: str) -> bool:
        if host in self.hosts:
            return True
        if not self.key:  # then only this machine can ask, and only by the names above
            return False
        try:
            ipaddress.ip_address(host)
        except ValueError:
            return False
        return True  # a page that was lured here by its own name would say that name

    def _check_key(self, given: bytes) -> None:
        scheme, _, key = given.partition(b" ")
        # Of digests, so that neither the length nor the first difference shows in the time it takes.
        right = hmac.compare_digest(hashlib.sha256(key.strip()).digest(), hashlib.sha256(self.key.encode()).digest())
        if scheme.lower() != b"bearer" or not right:
            raise CallError(
                401, "key", "give the key as 'Authorization: Bearer KEY'", headers={"www-authenticate": "Bearer"}
            )

    async def _body(self, named: Mapping[bytes, bytes], receive: Receive) -> bytes:
        """The body, counted while it comes in."""
        most = self.limits.num_bytes
        length = named.get(b"content-length", b"")
        if length.isdigit() and (len(length) > 15 or int(length) > most):
            raise self._too_large()
        parts: list[bytes] = []
        number = 0
        try:
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    raise CallError(400, "left", "the body ended early")
                part = message.get("body", b"")
                number += len(part)
                self.num_held += len(part)
                if number > most:
                    raise self._too_large()
                if self.num_held > _MOST_HELD:
                    raise CallError(
                        429, "busy", "too much is coming in; ask again later", headers={"retry-after": "1", **_CLOSE}
                    )
                parts.append(part)
                if not message.get("more_body"):
                    return parts[0] if len(parts) == 1 else b"".join(parts)
        finally:
            self.num_held -= number

    def _too_large(self) -> CallError:
        size = f"{self.limits.num_bytes / 1e6:.0f} MB"
        return CallError(413, "too_large", f"a body has {size} at most; send less at once", headers=_CLOSE)


_CLOSE = {"connection": "close"}


class _Left:
    """Stops the work for a client that has left."""

    def __init__(self, task: asyncio.Task[Any] | None) -> None:
        self.task, self.told = task, False

    def __call__(self) -> None:
        self.told = True
        if self.task is not None:
            self.task.cancel()


class _Sent:
    """Sends, remembers the status, and adds the headers that every answer has."""

    def __init__(self, send: Send) -> None:
        self.send, self.status = send, 0

    async def __call__(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            names = {name for name, _ in message["headers"]}
            message["headers"] = [*message["headers"], *(pair for pair in HEADERS if pair[0] not in names)]
        await self.send(message)

    async def whole(self, status: int, headers: Iterable[tuple[bytes, bytes]], body: bytes) -> None:
        """All of an answer."""
        self.status = status
        length = (b"content-length", str(len(body)).encode())
        await self.send({"type": "http.response.start", "status": status, "headers": [*headers, length]})
        await self.send({"type": "http.response.body", "body": body})

    async def refuse(self, refusal: CallError) -> None:
        """An answer that says no."""
        more = [(name.encode(), value.encode()) for name, value in refusal.headers.items()]
        await self.whole(refusal.status, [*_JSON, *more], refusal.body())

    async def fail(self, refusal: CallError) -> None:
        """The end of a stream that cannot go on, as OpenAI's clients understand it."""
        await self.send(
            {"type": "http.response.body", "body": b"data: " + refusal.body() + b"\n\n", "more_body": False}
        )
