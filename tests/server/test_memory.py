"""A server does not leak memory."""

import asyncio
import os
import random
from pathlib import Path

import pytest
from tests.server.client import post_many
from tests.server.test_load import sentences
from tests.server.test_request_bodies import raw_body, send_all
from tests.server.test_signals import process


def resident(pid):
    """Resident memory of a process in bytes."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def everything(port, seed):
    """Requests of every kind, some of which disconnect early."""
    rng, texts = random.Random(seed), sentences(100, seed)
    requests = [("/v1/embeddings", {"model": "bert", "input": texts[:20]})] * 20
    requests += [("/v1/embeddings", {"model": "bert", "input": text}) for text in texts]
    requests += [("/v1/completions", {"model": "gpt2", "prompt": text, "max_tokens": 20}) for text in texts[:40]]
    await post_many(port, requests, concurrency=16)
    await send_all(port, [raw_body(rng) for _ in range(300)])
    for _ in range(30):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b'POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\n{"model": "gp')
        await writer.drain()
        writer.close()


@pytest.mark.soak
def test_memory(folders, print_metric):
    with process(folders["bert"], folders["gpt2"], folders["tuned"]) as (running, client, _):
        for turn in range(12):  # tokenizers cache words
            asyncio.run(everything(client.port, turn % 6))
        before = resident(running.pid)
        for turn in range(30):
            asyncio.run(everything(client.port, turn % 6))
        growth = resident(running.pid) - before
        print_metric("MB before, growth", f"{before / 1e6:.0f}, {growth / 1e6:.1f}")
        assert growth < 20e6
