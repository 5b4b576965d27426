"""A server process: its output, and graceful shutdown."""

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
from tests.server.client import Client

import polyseme

SOURCE = str(Path(polyseme.__file__).parents[1])


@contextmanager
def process(*arguments, environment=None):
    """`polyseme serve` on a free port: process, client and its JSON output."""
    command = [sys.executable, "-m", "polyseme", "serve", *map(str, arguments), "--port", "0", "--json"]
    settings = {**os.environ, "PYTHONPATH": SOURCE, "OMP_NUM_THREADS": "1", **(environment or {})}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=settings) as running:
        try:
            output = json.loads(running.stdout.readline())
            yield running, Client(int(output["url"].rpartition(":")[2])), output
        finally:
            if running.poll() is None:
                running.kill()
            running.stdout.close()
            running.stderr.close()


async def send_until_refused(port, number, accepted):
    """Clients that send requests until one is refused; the outcome of every request that was sent completely."""

    async def client(index):
        outcomes = []
        body = json.dumps({"model": "bert", "input": [f"the bank number {index} by the river"] * (1 + index % 5)})
        if index % 3 == 0:
            body = json.dumps(
                {"model": "gpt2", "prompt": "the", "max_tokens": 30, "temperature": 0, "stream": index % 2 == 0}
            )
        path = "completions" if index % 3 == 0 else "embeddings"
        head = f"POST /v1/{path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        request = f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode()
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            return outcomes
        while True:
            writer.write(request)
            try:
                lines = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            except (asyncio.IncompleteReadError, OSError) as error:
                partial = getattr(error, "partial", b"")
                outcomes.append("cut" if partial else "closed")  # before a byte: it was never admitted
                break
            status = int(lines.split()[1])
            try:
                if "chunked" in lines:
                    rest = await reader.readuntil(b"0\r\n\r\n")
                    outcomes.append(status if b"[DONE]" in rest else "cut")
                else:
                    length = int(re.search(r"content-length: (\d+)", lines)[1])
                    json.loads(await reader.readexactly(length))
                    outcomes.append(status)
            except (asyncio.IncompleteReadError, OSError):
                outcomes.append("cut")
            if outcomes[-1] == 200:
                accepted.set()
            if status != 200 or "connection: close" in lines:
                break
        writer.close()
        return outcomes

    return await asyncio.gather(*(client(index) for index in range(number)))


async def stop_under_load(running, port, number):
    accepted = asyncio.Event()
    sending = asyncio.ensure_future(send_until_refused(port, number, accepted))
    await asyncio.wait_for(accepted.wait(), 20)
    await asyncio.sleep(0.2)
    running.send_signal(signal.SIGTERM)
    started = time.monotonic()
    outcomes = await asyncio.wait_for(sending, 25)
    return [one for client in outcomes for one in client], time.monotonic() - started


def check_signal(folders, number=24):
    """Every admitted request is answered; others are closed without a byte, or refused with 503."""
    with process(folders["bert"], folders["gpt2"]) as (running, client, _):
        outcomes, seconds = asyncio.run(stop_under_load(running, client.port, number))
        assert running.wait(20) == 0
        assert seconds < 20, seconds
        assert set(outcomes) <= {200, 503, "closed"}, set(outcomes)
        assert outcomes.count(200) > number
        assert "Traceback" not in running.stderr.read()
        with pytest.raises(OSError):
            socket.create_connection(("127.0.0.1", client.port), timeout=1)
        return outcomes


def test_shutdown_under_load(folders):
    check_signal(folders)


@pytest.mark.soak
def test_twenty_shutdowns_under_load(folders, print_metric):
    outcomes = [one for _ in range(20) for one in check_signal(folders, 48)]
    print_metric("outcomes", {str(kind): outcomes.count(kind) for kind in set(outcomes)})


def test_not_ready_after_the_first_signal(folders):
    with process(folders["gpt2"]) as (running, client, output):
        assert output["models"] == ["gpt2"] and output["docs"].endswith("/docs") and output["pid"] == running.pid
        with socket.create_connection(("127.0.0.1", client.port), timeout=20) as waiting:
            body = b'{"max_tokens": 200, "stream": true, "n": 4, "seed": 1}'
            head = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            waiting.sendall(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
            assert waiting.recv(12) == b"HTTP/1.1 200"
            with socket.create_connection(("127.0.0.1", client.port), timeout=5) as idle:
                idle.sendall(b"GET /ready HTTP/1.1\r\nHost: localhost\r\n\r\n")
                first = b""
                while b"problems" not in first:
                    first += idle.recv(4096)
                assert b" 200 " in first
                running.send_signal(signal.SIGTERM)
                response = b""
                while part := idle.recv(4096):  # it is closed, or not ready
                    response += part
                assert not response or b" 503 " in response
            answer = b""
            while b"[DONE]" not in answer:
                part = waiting.recv(65536)
                assert part, "an admitted request must be answered"
                answer = answer[-100:] + part
        assert running.wait(20) == 0


def test_console_output(folders, tmp_path):
    command = [sys.executable, "-m", "polyseme", "serve", str(folders["bert"]), str(tmp_path / "none"), "--port", "0"]
    settings = {**os.environ, "PYTHONPATH": SOURCE, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=settings) as running:
        lines = []
        while not lines or "Ctrl-C" not in lines[-1]:
            lines.append(running.stderr.readline())
            assert lines[-1]
        running.send_signal(signal.SIGINT)
        assert running.wait(20) == 0
        assert running.stderr.read() == "stopped\n" and running.stdout.read() == ""
    output = "".join(lines)
    assert lines[0].startswith("none") and "does not exist" in lines[0]
    assert re.search(r"page  http://127\.0\.0\.1:\d+\n", output) and "/docs\n" in output
    assert "curl http://127.0.0.1" in output and '"model": "bert"' in output
