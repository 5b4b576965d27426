"""The ASGI application: authentication, routing, limits, timeouts and errors.

It checks the Host header and the API key, counts bodies while they arrive, limits the number of concurrent requests,
cancels requests that take too long or whose client disconnected, and gives every error the same format. Plain ASGI,
because every request passes through it.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import logging
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from polyseme.errors import PolysemeError
from polyseme.server.endpoint import Endpoint, HttpResponse, Resource, Service
from polyseme.server.errors import CLOSE, ApiError, internal_error, library_error, unknown_path, validation_error

logger = logging.getLogger(__name__)

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Headers = Mapping[bytes, bytes]

DISCONNECT_CALLBACK = "polyseme.disconnect_callback"
"""Key of the ASGI scope under which the connection finds what to call when its client disconnects."""

LOCAL_HOSTS = frozenset({"localhost", "127.0.0.1", "::1"})
_MAX_BUFFERED_BYTES = 64_000_000  # of all bodies that are arriving
_MAX_NAME = 500  # characters of a model, run or report name
_JSON_TYPE = re.compile(rb'\s*application/json\s*(;\s*charset="?utf-?8"?\s*)?', re.IGNORECASE)
_HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]{2,45})\]|([A-Za-z0-9._-]{1,253}))(?::([0-9]{1,5}))?")

# Unless a response sets its own policy, a browser runs nothing in it, does not frame it and sends no referrer.
SECURITY_HEADERS = (
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)
_JSON = ((b"content-type", b"application/json"), *SECURITY_HEADERS)
_EVENT_STREAM = ((b"content-type", b"text/event-stream; charset=utf-8"), *SECURITY_HEADERS)


@dataclass(kw_only=True)
class Limits:
    """Limits of the server."""

    requests: int = 128  # admitted and not answered
    connections: int = 1024
    body_bytes: int = 2_000_000
    receive_seconds: float = 10.0  # for a request to arrive
    response_seconds: float = 30.0  # for a request to be answered


@dataclass
class Gateway:
    """The ASGI application."""

    service: Service
    endpoints: Mapping[str, Endpoint]
    resources: Sequence[Resource]
    allowed_hosts: frozenset[str]
    key: str
    limits: Limits
    num_admitted: int = 0
    num_buffered_bytes: int = 0  # of bodies that are arriving

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = time.perf_counter()
        endpoint = self.endpoints.get(scope["path"])
        sender = _Sender(send)
        try:
            try:
                headers = self._check_headers(scope)
                if endpoint is None:
                    await self._get(scope, headers, sender)
                else:
                    await self._post(endpoint, scope, headers, receive, sender)
            except ApiError as error:
                await sender.send_error(error)
        except Exception as error:
            if sender.status:  # the response has begun; the connection is closed
                raise
            logger.error("a request failed", exc_info=error)
            await sender.send_error(internal_error())
        finally:
            name, seconds = endpoint.name if endpoint else "other", time.perf_counter() - started
            self.service.metrics.observe_request(name, sender.status, seconds)

    async def _get(self, scope: Scope, headers: Headers, sender: _Sender) -> None:
        resource, name = self._find_resource(scope["path"])
        if scope["method"] not in ("GET", "HEAD"):  # the HTTP server omits the body of HEAD responses
            raise ApiError(405, "method_not_allowed", "method not allowed; use GET", headers={"allow": "GET"})
        if resource.tag and len(name) > _MAX_NAME:
            raise ApiError(422, "invalid_value", f"a name has at most {_MAX_NAME} characters; see /docs")
        if resource.blocking:
            response = await asyncio.to_thread(resource.function, self.service, name, headers)
        else:
            response = resource.function(self.service, name, headers)
        await sender.send_http_response(response)

    def _find_resource(self, path: str) -> tuple[Resource, str]:
        for resource in self.resources:
            if path == resource.path:
                return resource, ""
            if resource.prefix and path.startswith(resource.prefix):
                name = path[len(resource.prefix) :]
                if resource.exists(name):
                    return resource, name
        raise unknown_path(path)

    async def _post(
        self, endpoint: Endpoint, scope: Scope, headers: Headers, receive: Receive, sender: _Sender
    ) -> None:
        if scope["method"] != "POST":
            raise ApiError(405, "method_not_allowed", "method not allowed; use POST", headers={"allow": "POST"})
        if not _JSON_TYPE.fullmatch(headers.get(b"content-type", b"application/json")):
            raise ApiError(415, "content_type", "unsupported Content-Type; send application/json in UTF-8")
        if headers.get(b"content-encoding", b"identity").lower() != b"identity":
            raise ApiError(415, "content_encoding", "unsupported Content-Encoding; send the body uncompressed")
        body = await self._receive_body(headers, receive)
        if self.service.stopping:
            retry = {"retry-after": "5", **CLOSE}
            raise ApiError(503, "shutting_down", "the server is shutting down; try again later", headers=retry)
        if self.num_admitted >= self.limits.requests:
            raise ApiError(429, "busy", "too many requests are waiting; try again later", headers={"retry-after": "1"})
        task, disconnected = asyncio.current_task(), False

        def cancel() -> None:
            nonlocal disconnected
            disconnected = True
            if task is not None:
                task.cancel()

        self.num_admitted += 1
        scope[DISCONNECT_CALLBACK] = cancel
        try:
            async with asyncio.timeout(self.limits.response_seconds):
                await self._run(endpoint, body, sender)
        except TimeoutError:
            message = f"the request took longer than {self.limits.response_seconds:.0f} s; send less at once"
            await sender.send_error(ApiError(504, "timeout", message))
        except asyncio.CancelledError:
            if not disconnected:  # the time for a graceful shutdown is over
                message = "the server shut down before the response; try again"
                await sender.send_error(ApiError(503, "shutting_down", message))
        finally:
            self.num_admitted -= 1
            scope[DISCONNECT_CALLBACK] = None

    async def _run(self, endpoint: Endpoint, body: bytes, sender: _Sender) -> None:
        try:
            request = endpoint.request.model_validate_json(body)
        except ValidationError as error:
            raise validation_error(error) from None
        try:
            answer = await endpoint.answer(self.service, request)
        except PolysemeError as error:
            raise library_error(error) from None
        if isinstance(answer, bytes):
            await sender.send_response(200, _JSON, answer)
        else:
            await sender.send_stream(answer)

    def _check_headers(self, scope: Scope) -> Headers:
        """The headers by name, after checks of host and key."""
        headers: dict[bytes, bytes] = dict(scope["headers"])
        if sum(name == b"host" for name, _ in scope["headers"]) != 1:
            raise ApiError(400, "invalid_host", "send exactly one Host header", headers=CLOSE)
        host = _HOST.fullmatch(headers[b"host"].decode("latin-1"))
        if host is None:
            raise ApiError(400, "invalid_host", "invalid Host header; send NAME or NAME:PORT", headers=CLOSE)
        if not self._allows_host((host[1] or host[2]).lower().rstrip(".")):
            raise ApiError(421, "unknown_host", "unknown Host header; add it with --allow-host", headers=CLOSE)
        if headers.get(b"expect", b"100-continue").lower() != b"100-continue":
            raise ApiError(417, "expectation_failed", "unsupported Expect header; send 100-continue", headers=CLOSE)
        if self.key and (scope["path"].startswith("/v1/") or scope["path"] == "/metrics"):
            self._check_key(headers.get(b"authorization", b""))
        return headers

    def _allows_host(self, host: str) -> bool:
        if host in self.allowed_hosts:
            return True
        if not self.key:  # then only this machine has access, by the names above
            return False
        try:
            ipaddress.ip_address(host)
        except ValueError:
            return False
        return True  # in a DNS rebinding attack the header holds a name

    def _check_key(self, authorization: bytes) -> None:
        scheme, _, key = authorization.partition(b" ")
        # Compare digests, so that the time reveals neither the length of the key nor the first difference.
        equal = hmac.compare_digest(hashlib.sha256(key.strip()).digest(), hashlib.sha256(self.key.encode()).digest())
        if scheme.lower() != b"bearer" or not equal:
            message = "missing or wrong API key; send 'Authorization: Bearer KEY'"
            raise ApiError(401, "invalid_api_key", message, headers={"www-authenticate": "Bearer"})

    async def _receive_body(self, headers: Headers, receive: Receive) -> bytes:
        """Receive a body, counting its bytes as they arrive."""
        limit = self.limits.body_bytes
        length = headers.get(b"content-length", b"")
        if length.isdigit() and (len(length) > 15 or int(length) > limit):
            raise self._too_large()
        parts: list[bytes] = []
        num_bytes = 0
        try:
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    raise ApiError(400, "incomplete_body", "the body ended early; send Content-Length bytes")
                part = message.get("body", b"")
                num_bytes += len(part)
                self.num_buffered_bytes += len(part)
                if num_bytes > limit:
                    raise self._too_large()
                if self.num_buffered_bytes > _MAX_BUFFERED_BYTES:
                    retry = {"retry-after": "1", **CLOSE}
                    raise ApiError(429, "busy", "too much data is arriving; try again later", headers=retry)
                parts.append(part)
                if not message.get("more_body"):
                    return b"".join(parts)
        finally:
            self.num_buffered_bytes -= num_bytes

    def _too_large(self) -> ApiError:
        limit = f"{self.limits.body_bytes / 1e6:.0f} MB"
        return ApiError(413, "body_too_large", f"the body is larger than {limit}; send less at once", headers=CLOSE)


class _Sender:
    """Sends a response and remembers its status."""

    def __init__(self, send: Send) -> None:
        self.send, self.status = send, 0

    async def send_response(self, status: int, headers: Iterable[tuple[bytes, bytes]], body: bytes) -> None:
        self.status = status
        length = [(b"content-length", str(len(body)).encode())] if status != 304 else []
        await self.send({"type": "http.response.start", "status": status, "headers": [*headers, *length]})
        await self.send({"type": "http.response.body", "body": body})

    async def send_http_response(self, response: HttpResponse) -> None:
        """The response of a resource, with the security headers that it does not set."""
        own = {name.encode(): value.encode() for name, value in response.headers.items()}
        await self.send_response(response.status, {**dict(SECURITY_HEADERS), **own}.items(), response.body)

    async def send_stream(self, events: AsyncIterator[bytes]) -> None:
        """Server-sent events, as they are generated."""
        self.status = 200
        await self.send({"type": "http.response.start", "status": 200, "headers": list(_EVENT_STREAM)})
        async for event in events:
            await self.send({"type": "http.response.body", "body": event, "more_body": True})
        await self.send({"type": "http.response.body", "body": b""})

    async def send_error(self, error: ApiError) -> None:
        """An error response or, in a stream that has begun, a last event, which OpenAI's clients raise."""
        if self.status:
            await self.send({"type": "http.response.body", "body": b"data: " + error.body() + b"\n\n"})
        else:
            await self.send_response(error.status, error_headers(error), error.body())


def error_headers(error: ApiError) -> list[tuple[bytes, bytes]]:
    """Headers of the response to a request that is refused or has failed."""
    return [*_JSON, *((name.encode(), value.encode()) for name, value in error.headers.items())]
