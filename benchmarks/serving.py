"""A server under load: `polyseme serve`, and the server that one writes first, side by side.

One BERT of the size `small` with random weights and a vocabulary of real text; requests are single sentences of real
text. The other side is FastAPI and transformers: one request, one forward pass, in the threads that FastAPI has for
this. Both are processes of their own on the same machine as the clients, which are coroutines of this process that send
the next request when they have the answer. The sides take turns, and the best turn of each counts. `p50` and `p99` are
milliseconds. `429` counts requests that were refused because too many waited; each has to be told so within 50 ms.

Then one GPT-2 of the size `small` writes: one stream, and eight at a time.

    python benchmarks/serving.py [--seconds 5] [--long] [--json out.json]
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pydantic import BaseModel

import bench
from polyseme.models import FAMILIES
from polyseme.objectives import build_objective
from polyseme.pretrained import Pretrained
from polyseme.text.corpus import Corpus
from polyseme.text.samples import sample_text
from polyseme.text.sentences import split_sentences
from polyseme.text.tokenizer import Tokenizer
from polyseme.train.recipe import Recipe

CLIENTS = (1, 8, 64, 256)
WRITTEN = 100  # tokens of a stream


def random_model(family: str, documents: Sequence[str], folder: Path) -> None:
    """A directory of a small model that has learnt nothing but its vocabulary; how fast it is does not depend on it."""
    recipe = Recipe.preset(family, "small")
    tokenizer = Tokenizer.train(recipe.tokenizer, documents, vocab_size=recipe.model.vocab_size)
    torch.manual_seed(0)
    encoder = FAMILIES[family](recipe.model.replace(vocab_size=tokenizer.vocab_size))
    objective = build_objective(recipe.objective, encoder, tokenizer.specials)
    parts: dict[str, Any] = {"encoder": encoder.eval(), "objective": objective.eval(), "tokenizer": tokenizer}
    Pretrained(folder=folder, family=family, recipe=None, **parts).save(folder)


class Asked(BaseModel):
    """What the other server is asked; here, because FastAPI looks for it among the names of the module."""

    input: str


def naive(folder: str, port: int) -> None:
    """The server that one writes first."""
    import fastapi
    import transformers
    import uvicorn

    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(folder).eval()
    app = fastapi.FastAPI()

    @app.post("/v1/embeddings")
    def embed(asked: Asked) -> dict[str, Any]:
        tokens = tokenizer(asked.input, return_tensors="pt", truncation=True, max_length=128)
        with torch.inference_mode():
            vector = model(**tokens).last_hidden_state[0].mean(0)
        return {"object": "list", "data": [{"object": "embedding", "index": 0, "embedding": vector.tolist()}]}

    @app.get("/ready")
    def ready() -> dict[str, str]:
        return {"status": "ready"}

    uvicorn.run(app, host="127.0.0.1", port=port, log_level="error", access_log=False)


@contextmanager
def running(*command: str) -> Iterator[int]:
    """A server in a process of its own; its port, once it is ready."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    arguments = [word.replace("PORT", str(port)) for word in command]
    with subprocess.Popen([sys.executable, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            for _ in range(600):
                try:
                    with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
                        connection.sendall(b"GET /ready HTTP/1.1\r\nHost: localhost\r\n\r\n")
                        if b" 200 " in connection.recv(4096):
                            break
                except OSError:
                    time.sleep(0.1)
                if server.poll() is not None:
                    raise SystemExit(f"a server did not start: {' '.join(arguments)}")
            yield port
        finally:
            server.send_signal(signal.SIGTERM)
            try:
                server.wait(25)
            except subprocess.TimeoutExpired:
                server.kill()


@dataclass
class Turn:
    """What clients have seen in some seconds."""

    seconds: float = 0.0
    statuses: dict[int, int] = field(default_factory=dict)
    waits: list[float] = field(default_factory=list)  # seconds, of answers
    refusals: list[float] = field(default_factory=list)  # seconds, until too many were told so

    @property
    def speed(self) -> float:
        """Answers a second."""
        return self.statuses.get(200, 0) / self.seconds


class Client(asyncio.Protocol):
    """Sends the next request when it has an answer; knows no more of HTTP than it needs, to leave time for both."""

    def __init__(self, requests: Iterator[bytes], turn: Turn, until: float) -> None:
        self.requests, self.turn, self.until = requests, turn, until
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.buffer = b""

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self._ask()

    def _ask(self) -> None:
        self.started = time.perf_counter()
        self.transport.write(next(self.requests))

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        end = self.buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        place = self.buffer.find(b"content-length: ") + 16
        length = int(self.buffer[place : self.buffer.find(b"\r\n", place)])
        if len(self.buffer) < end + 4 + length:
            return
        status = int(self.buffer[9:12])
        self.buffer = b""
        now = time.perf_counter()
        (self.turn.waits if status == 200 else self.turn.refusals).append(now - self.started)
        self.turn.statuses[status] = self.turn.statuses.get(status, 0) + 1
        if now >= self.until:
            self.transport.close()
        elif status == 429:
            asyncio.get_running_loop().call_later(1.0, self._ask)  # as it was told
        else:
            self._ask()

    def connection_lost(self, error: Exception | None) -> None:
        if not self.done.done():
            self.done.set_result(None)


async def load(port: int, requests: Sequence[bytes], clients: int, seconds: float) -> Turn:
    """So many clients for so many seconds."""
    turn, endless = Turn(), cycle(requests)
    started = time.perf_counter()
    loop = asyncio.get_running_loop()
    opened = [
        await loop.create_connection(lambda: Client(endless, turn, started + seconds), "127.0.0.1", port)
        for _ in range(clients)
    ]
    await asyncio.gather(*(client.done for _, client in opened))
    turn.seconds = time.perf_counter() - started
    return turn


async def write(port: int, prompts: Sequence[str], streams: int) -> float:
    """Tokens a second of all streams together."""

    async def stream(prompt: str) -> int:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        body = {"prompt": prompt, "max_tokens": WRITTEN, "temperature": 0, "stream": True}
        writer.write(request("/v1/completions", body))
        told = await reader.readuntil(b"0\r\n\r\n")
        writer.close()
        return told.count(b'"index"')

    started = time.perf_counter()
    numbers = await asyncio.gather(*(stream(prompt) for prompt in prompts[:streams]))
    return sum(numbers) / (time.perf_counter() - started)


def request(path: str, body: dict[str, Any]) -> bytes:
    """A request as it goes over the wire."""
    content = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content


def run(work: Any) -> Any:
    """Run a coroutine, on uvloop where there is one: clients should cost as little as they can."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run(work)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)


def first_vector(port: int, sentence: bytes) -> Any:
    """What a server makes of a sentence, to see that both do the same."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(sentence.replace(b"\r\nHost", b"\r\nConnection: close\r\nHost", 1))
        told = b""
        while part := connection.recv(65536):
            told += part
    found = json.loads(told.partition(b"\r\n\r\n")[2])["data"][0]["embedding"]
    return np.frombuffer(base64.b64decode(found), "<f4") if isinstance(found, str) else np.array(found, np.float32)


def milliseconds(values: Sequence[float], share: int) -> float:
    """A percentile."""
    return 1e3 * statistics.quantiles(values, n=100)[share - 1] if len(values) > 1 else 1e3 * values[0]


def measure(ports: dict[str, int], requests: Sequence[bytes], given: Any) -> list[bench.Row]:
    """Every number of clients at every server, in turns."""
    best: dict[tuple[str, int], Turn] = {}
    for clients in CLIENTS:
        for _ in range(given.rounds):
            for name, port in ports.items():
                turn = run(load(port, requests, clients, given.seconds))
                before = best.get((name, clients))
                if before is None or turn.speed > before.speed:
                    best[name, clients] = turn
    return [
        {
            "server": name,
            "clients": clients,
            "answers/s": turn.speed,
            "p50": milliseconds(turn.waits, 50),
            "p99": milliseconds(turn.waits, 99),
            "200": turn.statuses.get(200, 0),
            "429": turn.statuses.get(429, 0),
            "429 p99": milliseconds(turn.refusals, 99) if turn.refusals else None,
            "other": sum(number for status, number in turn.statuses.items() if status not in (200, 429)),
        }
        for (name, clients), turn in best.items()
    ]


def main() -> None:
    """Measure, and print."""
    if sys.argv[1:2] == ["--naive"]:
        naive(sys.argv[2], int(sys.argv[3]))
        return
    parser, read = bench.arguments(__doc__, rounds=3, long_rounds=7)
    parser.add_argument("--seconds", type=float, default=5.0, help="of a turn")
    parser.add_argument("--threads", type=int, default=0, help="of the models of polyseme serve")
    given = read()
    documents = list(islice(Corpus(*sample_text("docstrings").train), 2000))
    sentences = [one for document in documents for one in split_sentences(document) if 20 < len(one) < 300][:1000]
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    with tempfile.TemporaryDirectory() as place:
        bert, gpt2 = Path(place) / "bert", Path(place) / "gpt2"
        random_model("bert", documents, bert)
        random_model("gpt2", documents, gpt2)
        requests = [request("/v1/embeddings", {"input": sentence}) for sentence in sentences]
        serve = ["-m", "polyseme", "serve", "--port", "PORT", "--threads", str(given.threads)]
        with running(*serve, str(bert)) as ours, running(__file__, "--naive", str(bert), "PORT") as theirs:
            difference = np.abs(first_vector(ours, requests[0]) - first_vector(theirs, requests[0])).max()
            rows = measure({"polyseme": ours, "naive": theirs}, requests, given)
        streams = {1: 0.0, 8: 0.0}
        with running(*serve, str(gpt2)) as port:
            run(write(port, sentences, 8))
            for _ in range(2 * given.rounds):
                for number in streams:
                    streams[number] = max(streams[number], run(write(port, sentences, number)))
    found = {(row["server"], row["clients"]): row for row in rows}
    rows += [{"server": "polyseme", "streams": number, "tokens/s": speed} for number, speed in streams.items()]
    mine = {clients: found["polyseme", clients] for clients in CLIENTS}
    bench.report(
        rows,
        given.json,
        speed_of_64_to_1=mine[64]["answers/s"] / mine[1]["answers/s"],
        speed_to_naive_at_64=mine[64]["answers/s"] / found["naive", 64]["answers/s"],
        p99_of_8_to_p50_of_1=mine[8]["p99"] / mine[1]["p50"],
        tokens_of_8_to_1=streams[8] / streams[1],
        largest_difference=float(difference),
    )


if __name__ == "__main__":
    main()
