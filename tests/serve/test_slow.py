"""Clients that take their time: they are closed, and the others do not notice."""

import asyncio
import json
import socket
import statistics
import time

import pytest
from asking import ask_many, read_all, serving

HEAD = b"POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
# Silence, and the many ways to go on for ever.
SLOW = {
    "says nothing": [b""],
    "half a request line": [b"POST /v1/emb"],
    "a header now and then": [HEAD, *[b"X-%d: a\r\n" % number for number in range(1000)]],
    "a letter of a header now and then": [HEAD, b"X: ", *[b"a"] * 1000],
    "half a body": [HEAD, b'Content-Length: 1000\r\n\r\n{"model":'],
    "a letter of a body now and then": [HEAD, b"Content-Length: 1000\r\n\r\n", *[b" "] * 1000],
    "a chunk now and then": [HEAD, b"Transfer-Encoding: chunked\r\n\r\n", *[b"1\r\n \r\n"] * 1000],
    "waits for a word that comes": [HEAD, b"Content-Length: 1000\r\nExpect: 100-continue\r\n\r\n"],
}


async def dawdle(port, parts, pause):
    """Send a part and wait, until the server has enough: what it said, after how many parts and seconds."""
    started = time.monotonic()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    told = asyncio.ensure_future(reader.read())
    try:
        for number, part in enumerate(parts, 1):  # noqa: B007
            writer.write(part)
            done, _ = await asyncio.wait([told], timeout=pause)
            if done:
                break
        said = await told
    except OSError:
        said = b""
    seconds = time.monotonic() - started
    writer.close()
    return said, number, seconds


async def slow_clients(server, number, *, limit):
    """Many that are slow, and an ordinary one beside them: what each was told, and how long it took."""
    kinds = list(SLOW.values())
    tasks = [
        asyncio.ensure_future(dawdle(server.port, kinds[place % len(kinds)], limit / 20)) for place in range(number)
    ]
    ordinary = []
    while not all(task.done() for task in tasks):
        ordinary += await ask_many(server.port, [("/v1/embeddings", {"model": "bert", "input": "a"})] * 5, at_once=1)
        await asyncio.sleep(0.01)
    return [task.result() for task in tasks], ordinary


def check_slow(folders, number, limit):
    with serving(folders["bert"], receiving=limit) as server:
        request = ("/v1/embeddings", {"model": "bert", "input": "a"})
        idle = [seconds for *_, seconds in asyncio.run(ask_many(server.port, [request] * 200, at_once=1))]
        told, ordinary = asyncio.run(slow_clients(server, number, limit=limit))
        assert all(status == 200 for status, *_ in ordinary)
        for said, number, _ in told:
            assert said.startswith((b"HTTP/1.1 408", b"HTTP/1.1 100")) and b" 408 " in said
            assert number < 500, "it was let go on for ever"
        settle(server.serving.guard)
        return percentile(idle), percentile([seconds for *_, seconds in ordinary]), max(told_at for *_, told_at in told)


def settle(guard):
    """Wait until nobody is waited for."""
    given_up = time.monotonic() + 20
    while guard.num_held or guard.num_admitted:
        assert time.monotonic() < given_up
        time.sleep(0.01)


def percentile(values, share=99):
    return statistics.quantiles(values, n=100)[share - 1]


def test_slow_clients_are_closed(folders):
    check_slow(folders, 24, 0.6)


def test_what_a_slow_client_sent_is_let_go_at_once(folders, monkeypatch):
    """Though its connection stays until it has read the answer."""
    monkeypatch.setattr("polyseme.serve.protocol._LINGER_SECONDS", 60)
    with (
        serving(folders["bert"], receiving=0.3) as server,
        socket.create_connection(("127.0.0.1", server.port), timeout=20) as slow,
    ):
        slow.sendall(HEAD + b"Content-Length: 100\r\n\r\nhalf")
        assert slow.recv(4096).startswith(b"HTTP/1.1 408")
        settle(server.serving.guard)


@pytest.mark.soak
def test_two_hundred_slow_clients(folders, tell):
    idle, beside, last = check_slow(folders, 200, 10.0)
    tell("p99 idle and beside, ms", f"{1e3 * idle:.1f}, {1e3 * beside:.1f}")
    assert beside < 3 * idle and last < 12.3


def test_a_client_that_keeps_its_connection_is_not_slow(server):
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
        for _ in range(3):
            connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert b" 200 " in connection.recv(4096)
            time.sleep(0.2)


def test_a_body_in_two_parts_is_no_crime(server):
    body = json.dumps({"model": "bert", "input": "the old bank"}).encode()
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
        connection.sendall(HEAD + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body[:9])
        time.sleep(0.1)
        connection.sendall(body[9:])
        assert read_all(connection).startswith(b"HTTP/1.1 200")


def test_who_does_not_read_a_stream_holds_nobody_up(folders):
    with serving(folders["gpt2"], answering=1.5) as server:
        body = json.dumps({"max_tokens": 4096, "n": 16, "stream": True, "logprobs": 20}).encode()
        with socket.create_connection(("127.0.0.1", server.port)) as deaf:
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            head = HEAD.replace(b"embeddings", b"completions")
            deaf.sendall(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
            time.sleep(0.2)
            assert server.post("embeddings", input="a").status == 200
            until = time.monotonic() + 20
            while server.serving.guard.num_admitted:
                assert time.monotonic() < until
                time.sleep(0.05)


def test_too_many_connections(folders):
    with serving(folders["bert"], connections=5) as server:
        open_ones = [socket.create_connection(("127.0.0.1", server.port), timeout=20) for _ in range(5)]
        time.sleep(0.1)
        with socket.create_connection(("127.0.0.1", server.port), timeout=20) as refused:
            assert refused.recv(4096).startswith(b"HTTP/1.1 429")
        for connection in open_ones:
            connection.close()
        time.sleep(0.1)
        assert server.get("/health").status == 200
