"""Under load: responses equal those of single requests, overload is refused at once, cancelled work is dropped."""

import asyncio
import json
import random
import re
import socket
import threading
import time

import numpy as np
import pytest
from tests.server.client import post_many, read_all, serving

import polyseme as ps

WORDS = ["the", "old", "bank", "by", "a", "river", "lends", "money", "to", "every", "farmer", "who", "can", "swim"]
WORDS += ["in", "spring", "杜鹃", "苹果", "and", "bat", "match"]


def sentences(number, seed=0):
    rng = random.Random(seed)
    return [" ".join(rng.choices(WORDS, k=rng.randint(1, 30))) for _ in range(number)]


@pytest.mark.parametrize("name", ["bert", "gpt2", "elmo", "skipgram", "ulmfit"])
def test_embeddings_equal_under_load(server, name):
    texts = sentences(120)
    requests = [("/v1/embeddings", {"model": name, "input": text}) for text in texts]
    alone = [
        np.array(server.post("embeddings", model=name, input=text).json["data"][0]["embedding"]) for text in texts[:40]
    ]
    found = asyncio.run(post_many(server.port, requests, concurrency=32))
    assert {status for status, *_ in found} == {200}
    for expected, (_, answer, _) in zip(alone, found[:40], strict=True):
        np.testing.assert_allclose(np.array(answer["data"][0]["embedding"]), expected, atol=1e-5)
    metrics = dict(line.rsplit(" ", 1) for line in server.get("/metrics").body.decode().splitlines())
    assert float(metrics["polyseme_batch_items_sum"]) > 1.3 * float(metrics["polyseme_batch_items_count"])


@pytest.mark.parametrize("name", ["gpt", "gpt2", "elmo", "ulmfit", "nnlm"])
def test_generated_text_equal_under_load(server, name):
    prompts = sentences(24, seed=1)
    requests = [
        (
            "/v1/completions",
            {"model": name, "prompt": prompt, "max_tokens": 5 + number, "temperature": 0, "logprobs": 1},
        )
        for number, prompt in enumerate(prompts)
    ]
    alone = [server.post("completions", **body).json["choices"] for _, body in requests[::4]]
    found = asyncio.run(post_many(server.port, requests, concurrency=24))
    together = [answer["choices"] for _, answer, _ in found]
    assert alone == together[::4]  # including every bit of the log probabilities
    sampled = {"model": name, "prompt": prompts[0], "max_tokens": 20, "temperature": 1.0, "seed": 5}
    expected = server.post("completions", **sampled).json["choices"]
    beside = [("/v1/completions", sampled), *requests]
    assert asyncio.run(post_many(server.port, beside, concurrency=16))[0][1]["choices"] == expected


def test_mixed_requests_equal_under_load(server):
    """Requests to different models and endpoints do not affect each other."""
    texts = sentences(30, seed=2)
    requests = []
    for number, text in enumerate(texts):
        requests += [
            ("/v1/embeddings", {"model": "bert", "input": [text, text[:10]]}),
            ("/v1/score", {"model": ("gpt2", "bert", "elmo")[number % 3], "input": text[:60], "top": number % 2}),
            ("/v1/fill", {"model": "roberta", "input": f"{text[:40]} [MASK]"}),
            ("/v1/classify", {"model": "tuned", "input": text}),
            ("/v1/completions", {"model": "gpt", "prompt": text, "max_tokens": 6, "temperature": 0}),
            ("/v1/neighbours", {"model": "skipgram", "word": "Zxqv"}),
        ]
    alone = asyncio.run(post_many(server.port, requests, concurrency=1))
    together = asyncio.run(post_many(server.port, requests, concurrency=48))
    for (path, _), (status, answer, _), (again, other, _) in zip(requests, alone, together, strict=True):
        assert status == again == (422 if path.endswith("neighbours") else 200)
        if path.endswith("completions"):
            answer, other = answer["choices"], other["choices"]
        assert_close(answer, other)


def assert_close(one, other):
    if isinstance(one, float):
        assert other == pytest.approx(one, abs=1e-4)
    elif isinstance(one, dict):
        assert one.keys() == other.keys()
        for name in one:
            assert_close(one[name], other[name])
    elif isinstance(one, list):
        assert len(one) == len(other)
        for mine, theirs in zip(one, other, strict=True):
            assert_close(mine, theirs)
    else:
        assert one == other


class BlockedScheduler:
    """Keeps the model thread busy until it is released."""

    def __init__(self, server):
        self.busy, self.released = threading.Event(), threading.Event()
        scheduler, loop = server.server.service.scheduler, asyncio.new_event_loop()

        def run(items):
            self.busy.set()
            self.released.wait(20)
            return items

        self.thread = threading.Thread(
            target=lambda: loop.run_until_complete(scheduler.submit("blocked", run, [1], [1]))
        )
        self.thread.start()
        assert self.busy.wait(5)
        self.loop = loop

    def release(self):
        self.released.set()
        self.thread.join()
        self.loop.close()


def send(server, body, path="/v1/embeddings"):
    """Send a request without waiting for its response."""
    connection = socket.create_connection(("127.0.0.1", server.port), timeout=20)
    content = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    connection.sendall(f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content)
    return connection


def wait_for_admitted(server, number):
    gateway = server.server.gateway
    deadline = time.monotonic() + 20
    while gateway.num_admitted != number:
        assert time.monotonic() < deadline, gateway.num_admitted
        time.sleep(0.005)


def test_overload_is_refused_at_once(folders):
    with serving(folders["bert"], requests=3) as server:
        blocked = BlockedScheduler(server)
        waiting = [send(server, {"input": "a"}) for _ in range(3)]
        wait_for_admitted(server, 3)
        assert server.document
        refused = [server.post("embeddings", input="a") for _ in range(5)]
        assert {reply.status for reply in refused} == {429} and refused[0].headers["retry-after"] == "1"
        assert server.get("/health").status == server.get("/ready").status == 200
        blocked.release()
        for connection in waiting:
            connection.settimeout(20)
            assert read_all(connection).startswith(b"HTTP/1.1 200")
            connection.close()
        assert server.post("embeddings", input="a").status == 200


def test_requests_of_disconnected_clients_are_dropped(folders):
    with serving(folders["bert"], folders["gpt2"]) as server:
        blocked = BlockedScheduler(server)
        waiting = [send(server, {"model": "bert", "input": sentences(200)}) for _ in range(8)]
        streaming = send(
            server, {"model": "gpt2", "prompt": "a", "max_tokens": 4000, "stream": True}, "/v1/completions"
        )
        wait_for_admitted(server, 9)
        for connection in waiting[1:]:
            connection.close()
        wait_for_admitted(server, 2)
        assert server.server.service.scheduler.num_waiting >= 1
        blocked.release()
        waiting[0].settimeout(5)
        assert waiting[0].recv(12) == b"HTTP/1.1 200"
        waiting[0].close()
        assert streaming.recv(12) == b"HTTP/1.1 200"
        streaming.close()
        wait_for_admitted(server, 0)
        generation = server.server.service.generation["gpt2"]
        deadline = time.monotonic() + 20
        while generation.num_unfinished:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        metrics = server.get("/metrics").body.decode()
        assert float(re.search(r"^polyseme_tokens_generated_total (.+)", metrics, flags=re.M)[1]) < 3000
        assert 'polyseme_requests_total{endpoint="embeddings",status="disconnected"} 7.0' in metrics


def test_slow_requests_time_out(folders):
    with serving(folders["bert"], folders["gpt2"], response_seconds=0.3) as server:
        blocked = BlockedScheduler(server)
        reply = server.post("embeddings", model="bert", input="a")
        assert reply.status == 504 and reply.error["code"] == "timeout"
        blocked.release()
        assert server.post("embeddings", model="bert", input="a").status == 200
        endless = send(
            server, {"model": "gpt2", "max_tokens": 4096, "stream": True, "seed": 1, "n": 16}, "/v1/completions"
        )
        endless.settimeout(10)
        output = b""
        while b"0\r\n\r\n" not in output[-20:]:
            part = endless.recv(65536)
            assert part
            output += part
        endless.close()
        assert b'"code":"timeout"' in output[-600:]


def test_failure_affects_one_request_only(folders, monkeypatch, caplog):
    """An exception in a model is an internal error, and the next request succeeds."""
    with serving(folders["gpt2"]) as server:
        served = server.server.service.models.models[0]
        for body in (
            {"input": "a"},
            {"prompt": "a", "max_tokens": 2},
            {"prompt": "a", "max_tokens": 2, "stream": True},
        ):
            name = "embeddings" if "input" in body else "completions"
            with monkeypatch.context() as patch:
                patch.setattr(served.model.encoder, "forward", lambda *arguments: 1 / 0)
                reply = server.post(name, **body)
                assert b'"code":"internal_error"' in reply.body and reply.status == (200 if "stream" in body else 500)
            assert server.post(name, **body).status == 200
    assert "ZeroDivisionError" in caplog.text


def test_small_requests_overtake_a_large_one(folders, monkeypatch):
    """Requests to the same and to other models, though they arrived later."""
    with serving(folders["bert"], folders["gpt2"]) as server:
        scheduler, done = server.server.service.scheduler, []
        run_batch = scheduler._run_batch

        def record(batch):
            run_batch(batch)
            done.extend(len(job.items) for job, _ in batch if not job.num_left)

        blocked = BlockedScheduler(server)
        monkeypatch.setattr(scheduler, "_run_batch", record)
        waiting = []
        for model, texts in (("bert", sentences(1500, seed=3)), ("gpt2", ["a"]), ("bert", ["a", "b"])):
            waiting.append(send(server, {"model": model, "input": texts}))
            wait_for_admitted(server, len(waiting))
        blocked.release()
        for connection in waiting:
            connection.settimeout(60)
            assert connection.recv(12) == b"HTTP/1.1 200"
            connection.close()
        assert done == [1, 2, 1500]


def test_batched_embeddings_equal_the_library(folders, server):
    texts = sentences(300, seed=4)
    reply = server.post("embeddings", model="bert", input=texts).json
    vectors = np.array([row["embedding"] for row in reply["data"]])
    np.testing.assert_allclose(vectors, ps.load(folders["bert"]).embed(texts), atol=1e-5)
