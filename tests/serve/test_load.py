"""Under load an answer is what it is alone, too much is refused at once, and nobody works for those who have left."""

import asyncio
import json
import random
import socket
import threading
import time

import numpy as np
import pytest
from asking import ask_many, read_all, serving

import polyseme as ps

WORDS = ["the", "old", "bank", "by", "a", "river", "lends", "money", "to", "every", "farmer", "who", "can", "swim"]
WORDS += ["in", "spring", "杜鹃", "苹果", "and", "bat", "match"]


def sentences(number, seed=0):
    chance = random.Random(seed)
    return [" ".join(chance.choices(WORDS, k=chance.randint(1, 30))) for _ in range(number)]


@pytest.mark.parametrize("name", ["bert", "gpt2", "elmo", "skipgram", "ulmfit"])
def test_a_vector_alone_and_under_load(server, name):
    texts = sentences(120)
    requests = [("/v1/embeddings", {"model": name, "input": text}) for text in texts]
    alone = [
        np.array(server.post("embeddings", model=name, input=text).json["data"][0]["embedding"]) for text in texts[:40]
    ]
    found = asyncio.run(ask_many(server.port, requests, at_once=32))
    assert {status for status, *_ in found} == {200}
    for mine, (_, answer, _) in zip(alone, found[:40], strict=True):
        np.testing.assert_allclose(np.array(answer["data"][0]["embedding"]), mine, atol=1e-5)
    sizes = server.get("/metrics").body.decode()
    items = float(next(line for line in sizes.splitlines() if line.startswith("polyseme_batch_items_sum")).split()[1])
    count = float(next(line for line in sizes.splitlines() if line.startswith("polyseme_batch_items_count")).split()[1])
    assert items > 1.3 * count  # they were worked on together


@pytest.mark.parametrize("name", ["gpt", "gpt2", "elmo", "ulmfit", "nnlm"])
def test_greedy_text_alone_and_under_load(server, name):
    prompts = sentences(24, seed=1)
    requests = [
        (
            "/v1/completions",
            {"model": name, "prompt": prompt, "max_tokens": 5 + number, "temperature": 0, "logprobs": 1},
        )
        for number, prompt in enumerate(prompts)
    ]
    alone = [server.post("completions", **body).json["choices"] for _, body in requests[::4]]
    found = asyncio.run(ask_many(server.port, requests, at_once=24))
    together = [answer["choices"] for _, answer, _ in found]
    assert alone == together[::4]  # to the last bit of every probability
    drawn = {"model": name, "prompt": prompts[0], "max_tokens": 20, "temperature": 1.0, "seed": 5}
    mine = server.post("completions", **drawn).json["choices"]
    beside = [("/v1/completions", drawn), *requests]
    assert asyncio.run(ask_many(server.port, beside, at_once=16))[0][1]["choices"] == mine


def test_all_sorts_at_once(server):
    """Calls of different models and kinds do not get in each other's way."""
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
    alone = asyncio.run(ask_many(server.port, requests, at_once=1))
    together = asyncio.run(ask_many(server.port, requests, at_once=48))
    for (path, _), (status, answer, _), (again, other, _) in zip(requests, alone, together, strict=True):
        assert status == again == (422 if path.endswith("neighbours") else 200)
        if path.endswith("completions"):
            answer, other = answer["choices"], other["choices"]
        close(answer, other)


def close(one, other):
    if isinstance(one, float):
        assert other == pytest.approx(one, abs=1e-4)
    elif isinstance(one, dict):
        assert one.keys() == other.keys()
        for name in one:
            close(one[name], other[name])
    elif isinstance(one, list):
        assert len(one) == len(other)
        for mine, theirs in zip(one, other, strict=True):
            close(mine, theirs)
    else:
        assert one == other


class Held:
    """Keeps the thread of the models busy until it is let go."""

    def __init__(self, server):
        self.busy, self.over = threading.Event(), threading.Event()
        worker, loop = server.serving.worker, asyncio.new_event_loop()

        def run(items):
            self.busy.set()
            self.over.wait(20)
            return items

        self.thread = threading.Thread(target=lambda: loop.run_until_complete(worker.do("held", run, [1], [1])))
        self.thread.start()
        assert self.busy.wait(5)
        self.loop = loop

    def release(self):
        self.over.set()
        self.thread.join()
        self.loop.close()


def begin(server, body, path="/v1/embeddings"):
    """A request that is sent and not waited for."""
    connection = socket.create_connection(("127.0.0.1", server.port), timeout=20)
    content = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    connection.sendall(f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content)
    return connection


def admitted(server, number):
    guard = server.serving.guard
    until = time.monotonic() + 20
    while guard.num_admitted != number:
        assert time.monotonic() < until, guard.num_admitted
        time.sleep(0.005)


def test_too_many_are_refused_at_once(folders):
    with serving(folders["bert"], requests=3) as server:
        held = Held(server)
        waiting = [begin(server, {"input": "a"}) for _ in range(3)]
        admitted(server, 3)
        assert server.document
        refused = [server.post("embeddings", input="a") for _ in range(5)]  # nobody else is answered meanwhile
        assert {reply.status for reply in refused} == {429} and refused[0].headers["retry-after"] == "1"
        assert server.get("/health").status == server.get("/ready").status == 200  # which are never refused
        held.release()
        for connection in waiting:
            connection.settimeout(20)
            assert read_all(connection).startswith(b"HTTP/1.1 200")
            connection.close()
        assert server.post("embeddings", input="a").status == 200


def test_who_leaves_is_not_worked_for(folders):
    with serving(folders["bert"], folders["gpt2"]) as server:
        held = Held(server)
        waiting = [begin(server, {"model": "bert", "input": sentences(200)}) for _ in range(8)]
        writing = begin(server, {"model": "gpt2", "prompt": "a", "max_tokens": 4000, "stream": True}, "/v1/completions")
        admitted(server, 9)
        for connection in waiting[1:]:
            connection.close()
        admitted(server, 2)
        assert server.serving.worker.num_waiting >= 1
        held.release()
        waiting[0].settimeout(5)
        assert waiting[0].recv(12) == b"HTTP/1.1 200"
        waiting[0].close()
        assert writing.recv(12) == b"HTTP/1.1 200"
        writing.close()
        admitted(server, 0)
        writer = server.serving.guard.service.writers["gpt2"]
        until = time.monotonic() + 20
        while writer.num_open:
            assert time.monotonic() < until
            time.sleep(0.01)
        assert writer.num_tokens < 3000
        count = server.get("/metrics").body.decode()
        assert 'polyseme_requests_total{call="embeddings",status="left"} 7.0' in count


def test_what_takes_too_long_is_ended(folders):
    with serving(folders["bert"], folders["gpt2"], answering=0.3) as server:
        held = Held(server)
        reply = server.post("embeddings", model="bert", input="a")
        assert reply.status == 504 and reply.error["code"] == "timeout"
        held.release()
        assert server.post("embeddings", model="bert", input="a").status == 200
        endless = begin(
            server, {"model": "gpt2", "max_tokens": 4096, "stream": True, "seed": 1, "n": 16}, "/v1/completions"
        )
        endless.settimeout(10)
        told = b""
        while b"0\r\n\r\n" not in told[-20:]:
            part = endless.recv(65536)
            assert part
            told += part
        endless.close()
        assert b'"code":"timeout"' in told[-600:]


def test_a_failure_is_one_request_s_own(folders, monkeypatch, caplog):
    """A bug in a model's work is told as such, and the next request finds the server as it was."""
    with serving(folders["gpt2"]) as server:
        served = server.serving.models.all[0]
        for call in (
            {"input": "a"},
            {"prompt": "a", "max_tokens": 2},
            {"prompt": "a", "max_tokens": 2, "stream": True},
        ):
            name = "embeddings" if "input" in call else "completions"
            with monkeypatch.context() as patch:
                patch.setattr(served.model.encoder, "forward", lambda *given: 1 / 0)
                reply = server.post(name, **call)
                assert b'"code":"internal"' in reply.body and reply.status == (200 if "stream" in call else 500)
            assert server.post(name, **call).status == 200
    assert "ZeroDivisionError" in caplog.text


def test_a_large_request_lets_others_pass(folders, monkeypatch):
    """Those of other models and those of the same, though they came later."""
    with serving(folders["bert"], folders["gpt2"]) as server:
        worker, done = server.serving.worker, []
        work = worker._run

        def run(taken):
            work(taken)
            done.extend(len(job.items) for job, _ in taken if not job.num_left)

        held = Held(server)
        monkeypatch.setattr(worker, "_run", run)
        waiting = []
        for model, texts in (("bert", sentences(1500, seed=3)), ("gpt2", ["a"]), ("bert", ["a", "b"])):
            waiting.append(begin(server, {"model": model, "input": texts}))
            admitted(server, len(waiting))
        held.release()
        for connection in waiting:
            connection.settimeout(60)
            assert connection.recv(12) == b"HTTP/1.1 200"
            connection.close()
        assert done == [1, 2, 1500]


def test_batches_are_as_in_the_library(folders, server):
    texts = sentences(300, seed=4)
    reply = server.post("embeddings", model="bert", input=texts).json
    vectors = np.array([row["embedding"] for row in reply["data"]])
    np.testing.assert_allclose(vectors, ps.load(folders["bert"]).embed(texts), atol=1e-5)
