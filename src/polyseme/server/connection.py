"""HTTP connections: uvicorn's, with limits on header size, arrival time and number of connections.

Requests that are disconnected by their client are cancelled.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from polyseme.server.errors import ApiError
from polyseme.server.gateway import DISCONNECT_CALLBACK, Limits, error_headers

MAX_HEADER_BYTES = 16_384
_LINGER_SECONDS = 1.0


def connection_class(limits: Limits) -> type[Connection]:
    """Connections with these limits."""
    return type("Connection", (Connection,), {"limits": limits})


class Connection(HttpToolsProtocol):
    """A connection with a client."""

    limits = Limits()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._in_header = True  # whether the request line and headers are arriving
        self._num_header_bytes = 0
        self._timer: asyncio.TimerHandle | None = None
        self._refused = False
        if len(self.connections) > self.limits.connections:
            self._refuse(ApiError(429, "busy", "too many connections; try again later", headers={"retry-after": "1"}))
            return
        self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)
        self._cancel_requests()

    def data_received(self, data: bytes) -> None:
        if self._is_over:
            return
        if self._in_header:
            self._start_timer()
            self._num_header_bytes += len(data)
        super().data_received(data)
        if self._in_header and self._num_header_bytes > MAX_HEADER_BYTES:
            self._refuse_header()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_header, self._num_header_bytes = True, 0
        self._start_timer()

    def on_headers_complete(self) -> None:
        self._in_header = False
        size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        if size > MAX_HEADER_BYTES:
            self._refuse_header()
            return
        if self.parser.get_http_version() not in ("1.0", "1.1"):
            self.send_400_response("")
            return
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        if not self._is_over:
            super().on_body(body)

    def on_message_complete(self) -> None:
        self._in_header, self._num_header_bytes = True, 0
        self._stop_timer()
        if not self._is_over:
            super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        self._refuse(ApiError(400, "bad_request", "invalid HTTP request; send HTTP/1.1"))

    @property
    def _is_over(self) -> bool:
        """Whether further input is ignored."""
        return self._refused or self.transport.is_closing()

    def _start_timer(self) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(self.limits.receive_seconds, self._time_out)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _time_out(self) -> None:
        self._timer = None
        if self._is_over:
            return
        if self.cycle is not None and self.cycle.response_started and not self.cycle.response_complete:
            self.transport.abort()  # the response began while the body was still arriving
            return
        seconds = f"{self.limits.receive_seconds:.0f} s"
        self._refuse(ApiError(408, "request_timeout", f"the request did not arrive within {seconds}; send it again"))

    def _refuse_header(self) -> None:
        limit = f"{MAX_HEADER_BYTES // 1024} kB"
        self._refuse(ApiError(431, "headers_too_large", f"the headers are larger than {limit}; send fewer"))

    def _refuse(self, error: ApiError) -> None:
        """Send an error outside of any request, and close."""
        self._stop_timer()
        if self._is_over:
            return
        body = error.body()
        headers = [*self.server_state.default_headers, *error_headers(error)]
        headers += [(b"content-length", str(len(body)).encode()), (b"connection", b"close")]
        lines = [b"%b: %b\r\n" % pair for pair in headers]
        self.transport.write(b"".join([STATUS_LINE[error.status], *lines, b"\r\n", body]))
        # A client that is still sending to a closed connection gets a reset, and loses the response.
        self._refused = True
        self.transport.write_eof()
        self.loop.call_later(_LINGER_SECONDS, self.transport.close)
        self._cancel_requests()  # their responses can no longer be sent

    def _cancel_requests(self) -> None:
        for cycle in [self.cycle, *(cycle for cycle, _ in self.pipeline)]:
            if cycle is not None:
                cycle.disconnected = not cycle.response_complete
                cycle.message_event.set()
                cancel: Any = cycle.scope.get(DISCONNECT_CALLBACK)
                if cancel is not None:
                    cancel()
