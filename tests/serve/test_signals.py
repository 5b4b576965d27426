"""A server as a process: what it prints, and how it goes when it is told to."""

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from asking import Client

import polyseme

SOURCE = str(Path(polyseme.__file__).parents[1])


@contextmanager
def process(*arguments, environment=None):
    """polyseme serve on a free port, and the lines that it says."""
    command = [sys.executable, "-m", "polyseme", "serve", *map(str, arguments), "--port", "0", "--json"]
    settings = {**os.environ, "PYTHONPATH": SOURCE, "OMP_NUM_THREADS": "1", **(environment or {})}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=settings) as running:
        try:
            told = json.loads(running.stdout.readline())
            yield running, Client(int(told["url"].rpartition(":")[2])), told
        finally:
            if running.poll() is None:
                running.kill()
            running.stdout.close()
            running.stderr.close()


async def ask_until_refused(port, number, accepted):
    """Clients that ask on and on; of every request that was sent whole, what became of it."""

    async def client(place):
        found = []
        body = json.dumps({"model": "bert", "input": [f"the bank number {place} by the river"] * (1 + place % 5)})
        if place % 3 == 0:
            body = json.dumps(
                {"model": "gpt2", "prompt": "the", "max_tokens": 30, "temperature": 0, "stream": place % 2 == 0}
            )
        path = "completions" if place % 3 == 0 else "embeddings"
        head = f"POST /v1/{path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        sent = f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode()
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            return found
        while True:
            writer.write(sent)
            try:
                lines = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            except (asyncio.IncompleteReadError, OSError) as error:
                partial = getattr(error, "partial", b"")
                found.append("cut" if partial else "closed")  # closed before a byte: it was never accepted
                break
            status = int(lines.split()[1])
            try:
                if "chunked" in lines:
                    rest = await reader.readuntil(b"0\r\n\r\n")
                    found.append(status if b"[DONE]" in rest else "cut")
                else:
                    length = int(re.search(r"content-length: (\d+)", lines)[1])
                    json.loads(await reader.readexactly(length))
                    found.append(status)
            except (asyncio.IncompleteReadError, OSError):
                found.append("cut")
            if found[-1] == 200:
                accepted.set()
            if status != 200 or "connection: close" in lines:
                break
        writer.close()
        return found

    return await asyncio.gather(*(client(place) for place in range(number)))


async def stop_under_load(running, port, number):
    accepted = asyncio.Event()
    asking = asyncio.ensure_future(ask_until_refused(port, number, accepted))
    await asyncio.wait_for(accepted.wait(), 20)
    await asyncio.sleep(0.2)
    running.send_signal(signal.SIGTERM)
    started = time.monotonic()
    found = await asyncio.wait_for(asking, 25)
    return [one for some in found for one in some], time.monotonic() - started


def check_signal(folders, number=24):
    """Every request that was accepted is answered; one that was not is closed without a byte, or told 503."""
    with process(folders["bert"], folders["gpt2"]) as (running, client, _):
        found, seconds = asyncio.run(stop_under_load(running, client.port, number))
        assert running.wait(20) == 0
        assert seconds < 20, seconds
        assert set(found) <= {200, 503, "closed"}, set(found)
        assert found.count(200) > number
        assert "Traceback" not in running.stderr.read()
        with pytest.raises(OSError):
            socket.create_connection(("127.0.0.1", client.port), timeout=1)
        return found


def test_a_signal_under_load(folders):
    check_signal(folders)


@pytest.mark.soak
def test_twenty_signals_under_load(folders, tell):
    found = [one for _ in range(20) for one in check_signal(folders, 48)]
    tell("answers", {str(kind): found.count(kind) for kind in set(found)})


def test_not_ready_at_once(folders):
    with process(folders["gpt2"]) as (running, client, told):
        assert told["models"] == ["gpt2"] and told["docs"].endswith("/docs") and told["pid"] == running.pid
        with socket.create_connection(("127.0.0.1", client.port), timeout=20) as waiting:
            body = b'{"max_tokens": 200, "stream": true, "n": 4, "seed": 1}'
            head = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            waiting.sendall(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
            assert waiting.recv(12) == b"HTTP/1.1 200"
            with socket.create_connection(("127.0.0.1", client.port), timeout=5) as kept:
                kept.sendall(b"GET /ready HTTP/1.1\r\nHost: localhost\r\n\r\n")
                first = b""
                while b"problems" not in first:
                    first += kept.recv(4096)
                assert b" 200 " in first
                running.send_signal(signal.SIGTERM)
                told = b""
                while part := kept.recv(4096):  # it is closed, or says that it is not ready
                    told += part
                assert not told or b" 503 " in told
            answer = b""
            while b"[DONE]" not in answer:
                part = waiting.recv(65536)
                assert part, "a request that was accepted has to be answered"
                answer = answer[-100:] + part
        assert running.wait(20) == 0


def test_what_it_says(folders, tmp_path):
    command = [sys.executable, "-m", "polyseme", "serve", str(folders["bert"]), str(tmp_path / "none"), "--port", "0"]
    settings = {**os.environ, "PYTHONPATH": SOURCE, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=settings) as running:
        lines = []
        while not lines or not lines[-1].startswith("Ctrl-C"):
            lines.append(running.stderr.readline())
            assert lines[-1]
        running.send_signal(signal.SIGINT)
        assert running.wait(20) == 0
        assert running.stderr.read() == "stopped\n" and running.stdout.read() == ""
    said = "".join(lines)
    assert lines[0].startswith("none is not served: ") and "does not exist" in lines[0]
    assert re.search(r"page  http://127\.0\.0\.1:\d+\n", said) and "/docs\n" in said
    assert "curl http://127.0.0.1" in said and '"model": "bert"' in said
