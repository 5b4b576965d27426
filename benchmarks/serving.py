"""Latency and throughput of `polyseme serve` against a simple server of FastAPI and transformers.

Both serve embeddings of a BERT of size `small` with random weights; requests are single sentences. The simple server
runs one forward pass per request in the thread pool of FastAPI. Both run on the machine of the clients, which are
coroutines of this process that send the next request after each response. The servers are measured in turn, and the
best measurement of each counts. `p50` and `p99` are latencies in milliseconds. `429` counts requests that were
rejected because the queue was full.

Then a GPT-2 of size `small` generates text in one stream, and in eight streams at a time.

    python benchmarks/serving.py [--seconds 5] [--long] [--json out.json]
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
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
from dataclasses import dataclass, field
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pydantic import BaseModel

import bench
from polyseme.corpora.corpus import Corpus
from polyseme.corpora.sentence_splitting import split_sentences
from polyseme.datasets.builtin import sample_text
from polyseme.families import FAMILIES, build_objective
from polyseme.pretrained import Pretrained
from polyseme.tokenization.tokenizer import Tokenizer
from polyseme.training.recipes.recipe import Recipe

CLIENTS = (1, 8, 64, 256)
STREAM_TOKENS = 100


def random_model(family: str, documents: Sequence[str], folder: Path) -> None:
    """Save a small model with random weights and a trained tokenizer."""
    recipe = Recipe.preset(family, "small")
    tokenizer = Tokenizer.train(recipe.tokenizer, documents, vocab_size=recipe.model.vocab_size)
    torch.manual_seed(0)
    encoder = FAMILIES[family](recipe.model.replace(vocab_size=tokenizer.vocab_size))
    objective = build_objective(recipe.objective, encoder, tokenizer.specials)
    parts: dict[str, Any] = {"encoder": encoder.eval(), "objective": objective.eval(), "tokenizer": tokenizer}
    Pretrained(folder=folder, family=family, recipe=None, **parts).save(folder)


class EmbeddingRequest(BaseModel):
    """Request of the simple server; at module level, where FastAPI resolves annotations."""

    input: str


def serve_simple(folder: str, port: int) -> None:
    """Run the simple server."""
    import fastapi
    import transformers
    import uvicorn

    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(folder).eval()
    app = fastapi.FastAPI()

    @app.post("/v1/embeddings")
    def embed(request: EmbeddingRequest) -> dict[str, Any]:
        tokens = tokenizer(request.input, return_tensors="pt", truncation=True, max_length=128)
        with torch.inference_mode():
            vector = model(**tokens).last_hidden_state[0].mean(0)
        return {"object": "list", "data": [{"object": "embedding", "index": 0, "embedding": vector.tolist()}]}

    @app.get("/ready")
    def ready() -> dict[str, str]:
        return {"status": "ready"}

    uvicorn.run(app, host="127.0.0.1", port=port, log_level="error", access_log=False)


@contextlib.contextmanager
def running(*command: str) -> Iterator[int]:
    """Run a server in its own process, and yield its port as soon as it is ready."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    arguments = [word.replace("PORT", str(port)) for word in command]
    with subprocess.Popen([sys.executable, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            for _ in range(1200):
                with (
                    contextlib.suppress(OSError),
                    socket.create_connection(("127.0.0.1", port), timeout=1) as connection,
                ):
                    connection.sendall(b"GET /ready HTTP/1.1\r\nHost: localhost\r\n\r\n")
                    if b" 200 " in connection.recv(4096):
                        break
                if server.poll() is not None:
                    raise SystemExit(f"the server did not start: {' '.join(arguments)}")
                time.sleep(0.1)
            else:
                raise SystemExit(f"the server was not ready within two minutes: {' '.join(arguments)}")
            yield port
        finally:
            server.send_signal(signal.SIGTERM)
            try:
                server.wait(25)
            except subprocess.TimeoutExpired:
                server.kill()


@dataclass
class Measurement:
    """Responses to all clients over some seconds."""

    seconds: float = 0.0
    statuses: dict[int, int] = field(default_factory=dict)
    latencies: list[float] = field(default_factory=list)  # seconds, of status 200
    rejection_latencies: list[float] = field(default_factory=list)  # seconds, of other statuses

    @property
    def throughput(self) -> float:
        """Successful responses per second."""
        return self.statuses.get(200, 0) / self.seconds


class Client(asyncio.Protocol):
    """Sends the next request after each response; parses only as much of HTTP as needed, to cost little CPU time."""

    def __init__(self, requests: Iterator[bytes], measurement: Measurement, until: float) -> None:
        self.requests, self.measurement, self.until = requests, measurement, until
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.buffer = b""

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self._send()

    def _send(self) -> None:
        self.started = time.perf_counter()
        self.transport.write(next(self.requests))

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        end = self.buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        start = self.buffer.find(b"content-length: ") + 16
        length = int(self.buffer[start : self.buffer.find(b"\r\n", start)])
        if len(self.buffer) < end + 4 + length:
            return
        status = int(self.buffer[9:12])
        self.buffer = b""
        now = time.perf_counter()
        (self.measurement.latencies if status == 200 else self.measurement.rejection_latencies).append(
            now - self.started
        )
        self.measurement.statuses[status] = self.measurement.statuses.get(status, 0) + 1
        if now >= self.until:
            self.transport.close()
        elif status == 429:
            asyncio.get_running_loop().call_later(1.0, self._send)  # as Retry-After requests
        else:
            self._send()

    def connection_lost(self, error: Exception | None) -> None:
        if not self.done.done():
            self.done.set_result(None)


async def load(port: int, requests: Sequence[bytes], clients: int, seconds: float) -> Measurement:
    """Run clients against a server for some seconds."""
    measurement, endless = Measurement(), cycle(requests)
    started = time.perf_counter()
    loop = asyncio.get_running_loop()
    opened = [
        await loop.create_connection(lambda: Client(endless, measurement, started + seconds), "127.0.0.1", port)
        for _ in range(clients)
    ]
    await asyncio.gather(*(client.done for _, client in opened))
    measurement.seconds = time.perf_counter() - started
    return measurement


async def generate(port: int, prompts: Sequence[str], streams: int) -> float:
    """Tokens per second of all streams together."""

    async def stream(prompt: str) -> int:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        body = {"prompt": prompt, "max_tokens": STREAM_TOKENS, "temperature": 0, "stream": True}
        writer.write(request("/v1/completions", body))
        response = await reader.readuntil(b"0\r\n\r\n")
        writer.close()
        return response.count(b'"index"')

    started = time.perf_counter()
    numbers = await asyncio.gather(*(stream(prompt) for prompt in prompts[:streams]))
    return sum(numbers) / (time.perf_counter() - started)


def request(path: str, body: dict[str, Any]) -> bytes:
    """The bytes of an HTTP request."""
    content = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content


def run(work: Any) -> Any:
    """Run a coroutine, on uvloop if installed, so that clients take little CPU time."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run(work)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)


def first_vector(port: int, sentence: bytes) -> Any:
    """The embedding that a server returns, to check that both agree."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(sentence.replace(b"\r\nHost", b"\r\nConnection: close\r\nHost", 1))
        response = b""
        while part := connection.recv(65536):
            response += part
    found = json.loads(response.partition(b"\r\n\r\n")[2])["data"][0]["embedding"]
    return np.frombuffer(base64.b64decode(found), "<f4") if isinstance(found, str) else np.array(found, np.float32)


def milliseconds(values: Sequence[float], percentile: int) -> float:
    """A percentile in milliseconds."""
    return 1e3 * statistics.quantiles(values, n=100)[percentile - 1] if len(values) > 1 else 1e3 * values[0]


def measure(ports: dict[str, int], requests: Sequence[bytes], args: Any) -> list[bench.Row]:
    """Measure all servers with every number of clients."""
    best: dict[tuple[str, int], Measurement] = {}
    for clients in CLIENTS:
        for _ in range(args.rounds):
            for name, port in ports.items():
                measurement = run(load(port, requests, clients, args.seconds))
                previous = best.get((name, clients))
                if previous is None or measurement.throughput > previous.throughput:
                    best[name, clients] = measurement
    return [
        {
            "server": name,
            "clients": clients,
            "responses/s": measurement.throughput,
            "p50": milliseconds(measurement.latencies, 50),
            "p99": milliseconds(measurement.latencies, 99),
            "200": measurement.statuses.get(200, 0),
            "429": measurement.statuses.get(429, 0),
            "429 p99": milliseconds(measurement.rejection_latencies, 99) if measurement.rejection_latencies else None,
            "other": sum(number for status, number in measurement.statuses.items() if status not in (200, 429)),
        }
        for (name, clients), measurement in best.items()
    ]


def main() -> None:
    if sys.argv[1:2] == ["--simple"]:
        serve_simple(sys.argv[2], int(sys.argv[3]))
        return
    parser, parse_args = bench.arguments(__doc__, rounds=3, long_rounds=7)
    parser.add_argument("--seconds", type=float, default=5.0, help="duration of a measurement")
    parser.add_argument("--threads", type=int, default=0, help="threads of polyseme serve")
    args = parse_args()
    documents = list(islice(Corpus(*sample_text("docstrings").train), 2000))
    sentences = [
        sentence for document in documents for sentence in split_sentences(document) if 20 < len(sentence) < 300
    ][:1000]
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    with tempfile.TemporaryDirectory() as scratch:
        bert, gpt2 = Path(scratch) / "bert", Path(scratch) / "gpt2"
        random_model("bert", documents, bert)
        random_model("gpt2", documents, gpt2)
        requests = [request("/v1/embeddings", {"input": sentence}) for sentence in sentences]
        serve = ["-m", "polyseme", "serve", "--port", "PORT", "--threads", str(args.threads)]
        with running(*serve, str(bert)) as polyseme, running(__file__, "--simple", str(bert), "PORT") as simple:
            difference = np.abs(first_vector(polyseme, requests[0]) - first_vector(simple, requests[0])).max()
            rows = measure({"polyseme": polyseme, "FastAPI": simple}, requests, args)
        streams = {1: 0.0, 8: 0.0}
        with running(*serve, str(gpt2)) as port:
            run(generate(port, sentences, 8))
            for _ in range(2 * args.rounds):
                for number in streams:
                    streams[number] = max(streams[number], run(generate(port, sentences, number)))
    found = {(row["server"], row["clients"]): row for row in rows}
    rows += [
        {"server": "polyseme", "streams": number, "tokens/s": throughput} for number, throughput in streams.items()
    ]
    ours = {clients: found["polyseme", clients] for clients in CLIENTS}
    bench.report(
        rows,
        args.json,
        throughput_64_to_1_clients=ours[64]["responses/s"] / ours[1]["responses/s"],
        speed_up_over_fastapi_64_clients=ours[64]["responses/s"] / found["FastAPI", 64]["responses/s"],
        p99_8_clients_to_p50_1_client=ours[8]["p99"] / ours[1]["p50"],
        throughput_8_to_1_streams=streams[8] / streams[1],
        largest_difference=float(difference),
    )


if __name__ == "__main__":
    main()
