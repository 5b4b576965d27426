"""The connection: uvicorn's, with limits that it does not have.

A request that is not there after ten seconds is given up, header lines have 16 kB together, only so many connections
are open, and whoever leaves is told to those who work for them.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from polyseme.serve.errors import CallError
from polyseme.serve.guard import HEADERS, LEFT, Limits

MOST_HEADER_BYTES = 16_384
_LINGER_SECONDS = 1.0


def connection_with(limits: Limits) -> type[Connection]:
    """Connections that have other limits."""
    return type("Connection", (Connection,), {"limits": limits})


class Connection(HttpToolsProtocol):
    """A connection with a client."""

    limits = Limits()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._in_head = True  # whether header lines are coming in
        self._num_bytes = 0  # of header lines
        self._timer: asyncio.TimerHandle | None = None
        self._refused = False
        if len(self.connections) > self.limits.connections:
            refusal = CallError(429, "busy", "too many connections; ask again later", headers={"retry-after": "1"})
            self._refuse(refusal)
            return
        self._await_request()

    def connection_lost(self, exc: Exception | None) -> None:
        self._received()
        super().connection_lost(exc)
        self._tell_left()

    def data_received(self, data: bytes) -> None:
        if self._is_over:
            return
        if self._timer is None and self._in_head:
            self._await_request()
        if self._in_head:
            self._num_bytes += len(data)
        super().data_received(data)
        if self._in_head and self._num_bytes > MOST_HEADER_BYTES:
            self._refuse_headers()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head, self._num_bytes = True, 0
        if self._timer is None:
            self._await_request()

    def on_headers_complete(self) -> None:
        self._in_head = False
        size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        if size > MOST_HEADER_BYTES:
            self._refuse_headers()
            return
        if self.parser.get_http_version() not in ("1.0", "1.1"):
            self.send_400_response("")
            return
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        if not self._is_over:
            super().on_body(body)

    def on_message_complete(self) -> None:
        self._in_head = True
        self._num_bytes = 0
        self._received()
        if not self._is_over:
            super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        self._received()
        self._refuse(CallError(400, "http", "this is not HTTP as a server may accept it"))

    @property
    def _is_over(self) -> bool:
        """Whether nothing that comes in matters any more."""
        return self._refused or self.transport.is_closing()

    def _await_request(self) -> None:
        self._timer = self.loop.call_later(self.limits.receiving, self._too_slow)

    def _received(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _too_slow(self) -> None:
        self._timer = None
        if self._is_over:
            return
        if self.cycle is not None and self.cycle.response_started and not self.cycle.response_complete:
            self.transport.abort()  # it was answered while its body still came in
            return
        self._refuse(CallError(408, "slow", f"the request was not there after {self.limits.receiving:.0f} s"))

    def _refuse_headers(self) -> None:
        self._received()
        self._refuse(CallError(431, "headers", f"header lines have {MOST_HEADER_BYTES // 1024} kB together at most"))

    def _refuse(self, refusal: CallError) -> None:
        """Answer outside of any request, and close."""
        self._received()
        if self._is_over:
            return
        body = refusal.body()
        headers: list[tuple[bytes, bytes]] = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
            (b"connection", b"close"),
            *HEADERS,
            *((name.encode(), value.encode()) for name, value in refusal.headers.items()),
        ]
        lines = [b"%b: %b\r\n" % pair for pair in [*self.server_state.default_headers, *headers]]
        self.transport.write(b"".join([STATUS_LINE[refusal.status], *lines, b"\r\n", body]))
        # A client that is still sending into a closed connection would be told so, and lose the answer.
        self._refused = True
        self.transport.write_eof()
        self.loop.call_later(_LINGER_SECONDS, self.transport.close)
        self._tell_left()  # nobody is answered any more

    def _tell_left(self) -> None:
        for cycle in [self.cycle, *(cycle for cycle, _ in self.pipeline)]:
            if cycle is not None:
                cycle.disconnected = not cycle.response_complete
                cycle.message_event.set()
                left: Any = cycle.scope.get(LEFT)
                if left is not None:
                    left()
