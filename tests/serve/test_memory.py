"""A server does not grow."""

import asyncio
import os
import random
from pathlib import Path

import pytest
from asking import ask_many
from test_bodies import raw_body, send_all
from test_load import sentences
from test_signals import process


def resident(pid):
    """Bytes of a process that are in memory."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def everything(port, seed):
    """Some of every kind, and some that leave in the middle."""
    chance, texts = random.Random(seed), sentences(100, seed)
    requests = [("/v1/embeddings", {"model": "bert", "input": texts[:20]})] * 20
    requests += [("/v1/embeddings", {"model": "bert", "input": text}) for text in texts]
    requests += [("/v1/completions", {"model": "gpt2", "prompt": text, "max_tokens": 20}) for text in texts[:40]]
    await ask_many(port, requests, at_once=16)
    await send_all(port, [raw_body(chance) for _ in range(300)])
    for _ in range(30):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b'POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\n{"model": "gp')
        await writer.drain()
        writer.close()


@pytest.mark.soak
def test_memory(folders, tell):
    with process(folders["bert"], folders["gpt2"], folders["tuned"]) as (running, client, _):
        for turn in range(12):  # tokenizers keep words that they have seen
            asyncio.run(everything(client.port, turn % 6))
        before = resident(running.pid)
        for turn in range(30):
            asyncio.run(everything(client.port, turn % 6))
        grown = resident(running.pid) - before
        tell("MB before and grown", f"{before / 1e6:.0f}, {grown / 1e6:.1f}")
        assert grown < 20e6
