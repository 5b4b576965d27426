"""Slow clients are disconnected and do not affect others."""

import asyncio
import json
import socket
import statistics
import time

import pytest
from tests.server.client import post_many, read_all, serving

HEAD = b"POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
# Ways never to finish a request.
SLOW = {
    "sends nothing": [b""],
    "half a request line": [b"POST /v1/emb"],
    "a header now and then": [HEAD, *[b"X-%d: a\r\n" % number for number in range(1000)]],
    "a byte of a header now and then": [HEAD, b"X: ", *[b"a"] * 1000],
    "half a body": [HEAD, b'Content-Length: 1000\r\n\r\n{"model":'],
    "a byte of a body now and then": [HEAD, b"Content-Length: 1000\r\n\r\n", *[b" "] * 1000],
    "a chunk now and then": [HEAD, b"Transfer-Encoding: chunked\r\n\r\n", *[b"1\r\n \r\n"] * 1000],
    "waits for 100 Continue": [HEAD, b"Content-Length: 1000\r\nExpect: 100-continue\r\n\r\n"],
}


async def send_slowly(port, parts, pause):
    """Send parts with pauses until the server closes; returns its output, and the number of parts and seconds."""
    started = time.monotonic()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    reading = asyncio.ensure_future(reader.read())
    try:
        for number, part in enumerate(parts, 1):  # noqa: B007
            writer.write(part)
            done, _ = await asyncio.wait([reading], timeout=pause)
            if done:
                break
        output = await reading
    except OSError:
        output = b""
    seconds = time.monotonic() - started
    writer.close()
    return output, number, seconds


async def slow_clients(server, number, *, limit):
    """Slow clients beside an ordinary one: the results of both."""
    kinds = list(SLOW.values())
    tasks = [
        asyncio.ensure_future(send_slowly(server.port, kinds[index % len(kinds)], limit / 20))
        for index in range(number)
    ]
    ordinary = []
    while not all(task.done() for task in tasks):
        ordinary += await post_many(
            server.port, [("/v1/embeddings", {"model": "bert", "input": "a"})] * 5, concurrency=1
        )
        await asyncio.sleep(0.01)
    return [task.result() for task in tasks], ordinary


def check_slow(folders, number, limit):
    with serving(folders["bert"], receive_seconds=limit) as server:
        request = ("/v1/embeddings", {"model": "bert", "input": "a"})
        idle = [seconds for *_, seconds in asyncio.run(post_many(server.port, [request] * 200, concurrency=1))]
        slow, ordinary = asyncio.run(slow_clients(server, number, limit=limit))
        assert all(status == 200 for status, *_ in ordinary)
        for output, number, _ in slow:
            assert output.startswith((b"HTTP/1.1 408", b"HTTP/1.1 100")) and b" 408 " in output
            assert number < 500, "the client was not disconnected"
        wait_until_idle(server.server.gateway)
        return percentile(idle), percentile([seconds for *_, seconds in ordinary]), max(seconds for *_, seconds in slow)


def wait_until_idle(gateway):
    deadline = time.monotonic() + 20
    while gateway.num_buffered_bytes or gateway.num_admitted:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def percentile(values, share=99):
    return statistics.quantiles(values, n=100)[share - 1]


def test_slow_clients_are_disconnected(folders):
    check_slow(folders, 24, 0.6)


def test_body_of_a_slow_client_is_freed_at_once(folders, monkeypatch):
    """Even while its connection lingers."""
    monkeypatch.setattr("polyseme.server.connection._LINGER_SECONDS", 60)
    with (
        serving(folders["bert"], receive_seconds=0.3) as server,
        socket.create_connection(("127.0.0.1", server.port), timeout=20) as slow,
    ):
        slow.sendall(HEAD + b"Content-Length: 100\r\n\r\nhalf")
        assert slow.recv(4096).startswith(b"HTTP/1.1 408")
        wait_until_idle(server.server.gateway)


@pytest.mark.soak
def test_two_hundred_slow_clients(folders, print_metric):
    idle, beside, last = check_slow(folders, 200, 10.0)
    print_metric("p99 idle and beside slow clients, ms", f"{1e3 * idle:.1f}, {1e3 * beside:.1f}")
    assert beside < 3 * idle and last < 12.3


def test_idle_keep_alive_connection_is_not_slow(server):
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
        for _ in range(3):
            connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert b" 200 " in connection.recv(4096)
            time.sleep(0.2)


def test_body_in_two_parts(server):
    body = json.dumps({"model": "bert", "input": "the old bank"}).encode()
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
        connection.sendall(HEAD + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body[:9])
        time.sleep(0.1)
        connection.sendall(body[9:])
        assert read_all(connection).startswith(b"HTTP/1.1 200")


def test_client_that_does_not_read_its_stream_blocks_nobody(folders):
    with serving(folders["gpt2"], response_seconds=1.5) as server:
        body = json.dumps({"max_tokens": 4096, "n": 16, "stream": True, "logprobs": 20}).encode()
        with socket.create_connection(("127.0.0.1", server.port)) as reader:
            reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            head = HEAD.replace(b"embeddings", b"completions")
            reader.sendall(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
            time.sleep(0.2)
            assert server.post("embeddings", input="a").status == 200
            until = time.monotonic() + 20
            while server.server.gateway.num_admitted:
                assert time.monotonic() < until
                time.sleep(0.05)


def test_too_many_connections(folders):
    with serving(folders["bert"], connections=5) as server:
        open_connections = [socket.create_connection(("127.0.0.1", server.port), timeout=20) for _ in range(5)]
        time.sleep(0.1)
        with socket.create_connection(("127.0.0.1", server.port), timeout=20) as refused:
            assert refused.recv(4096).startswith(b"HTTP/1.1 429")
        for connection in open_connections:
            connection.close()
        time.sleep(0.1)
        assert server.get("/health").status == 200
