"""No request body causes a server error: mutated JSON, and requests generated from the OpenAPI document."""

import asyncio
import itertools
import json
import random

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from tests.server.client import Client, Reply

WORDS = ["model", "input", "prompt", "texts", "word", "pairs", "top", "bert", "gpt2", "tuned", "a", "b", "c", "stop"]
VALUES = [None, True, -1, 0, 1, 2**70, 1.5, -1e308, "", "a", "the [MASK] bank", "\x00", "\ud83d\ude00", "杜鹃", [], {}]
ENDPOINTS = ["embeddings", "completions", "fill", "score", "classify", "pair", "tag", "similarity", "answer", "choose"]
ENDPOINTS += ["translate", "neighbours", "analogy", "attention", "senses"]
FIELDS = {
    "embeddings": ["input", "layer", "pool", "encoding_format", "dimensions"],
    "completions": ["prompt", "max_tokens", "temperature", "top_p", "n", "stream", "logprobs", "stop", "seed", "echo"],
    "answer": ["question", "passage", "task"],
    "choose": ["context", "choices"],
    "neighbours": ["word", "top"],
    "analogy": ["a", "b", "c", "top"],
    "attention": ["input", "text_pair"],
    "senses": ["word", "texts"],
}
MODEL_OF = {"completions": "gpt2", "fill": "bert", "score": "gpt", "translate": "transformer", "attention": "bert"}
MODEL_OF |= dict.fromkeys(["classify", "tag", "pair", "answer", "choose"], "tuned")
MODELS = ["bert", "gpt2", "elmo", "skipgram", "tuned", "nobody"]
TEXT = ["the old bank", "a [MASK] bank", "\x00\t\u202e杜鹃\U0001f600", "a" * 300, "the", " ", ""]
# Valid values of fields for which a random value is rarely valid.
VALID = {"pairs": [[["the river", "a"]]], "texts": [["the bank", "a bank"]], "choices": [["is", "was"], ["a"]]}
VALID |= {"top": [1, 5], "layer": [0, -1], "n": [1, 2], "logprobs": [0, 3], "temperature": [0, 0.7], "max_tokens": [2]}
VALID |= {"stream": [True, False], "echo": [True, False], "seed": [1], "top_p": [0.5], "pool": ["max"], "task": [None]}
VALID |= {"encoding_format": ["base64"], "dimensions": [None, 32], "word": ["bank", "the"], "stop": ["a", ["b"]]}


def random_value(rng, depth=0):
    kind = rng.random()
    if kind < 0.6 or depth > 3:
        return rng.choice(VALUES)
    if kind < 0.8:
        return [random_value(rng, depth + 1) for _ in range(rng.randint(0, 4))]
    return {rng.choice(WORDS): random_value(rng, depth + 1) for _ in range(rng.randint(0, 4))}


def raw_body(rng):
    """A path and bytes: nearly valid JSON, damaged JSON, or random bytes."""
    endpoint = rng.choice(ENDPOINTS)
    body = {"model": rng.choice([MODEL_OF.get(endpoint, "bert")] * 6 + MODELS)}
    share_valid = rng.choice([0.7, 0.95, 1.0])
    for name in FIELDS.get(endpoint, ["pairs"] if endpoint in ("pair", "similarity") else ["input", "top", "task"]):
        if rng.random() < 0.9:
            body[name] = rng.choice(VALID.get(name, TEXT)) if rng.random() < share_valid else random_value(rng)
    if endpoint in ("classify", "tag", "translate", "embeddings"):
        body.pop("top", None)
    if endpoint in ("fill", "score", "translate", "embeddings"):
        body.pop("task", None)
    data = bytearray(json.dumps(body, ensure_ascii=rng.random() < 0.5).encode("utf-8", "surrogatepass"))
    kind = rng.random()
    if kind < 0.15:
        for _ in range(rng.randint(1, 5)):
            data[rng.randrange(len(data))] = rng.randrange(256)
    elif kind < 0.2:
        del data[rng.randrange(len(data)) :]
    elif kind < 0.25:
        data = bytearray(rng.randbytes(rng.randint(0, 200)))
    return f"/v1/{endpoint}", bytes(data)


async def send_all(port, bodies, concurrency=8):
    """The statuses of raw bodies."""
    waiting, found = list(bodies), []

    async def client():
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while waiting:
            path, body = waiting.pop()
            head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            lines = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            if "content-length" in lines:
                length = int(lines.split("content-length: ")[1].split("\r")[0])
                content = await reader.readexactly(length)
                json.loads(content, parse_constant=_refuse)
            else:
                await reader.readuntil(b"0\r\n\r\n")
            found.append((int(lines.split()[1]), path, body))
            if "connection: close" in lines:
                writer.close()
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.close()

    await asyncio.gather(*(client() for _ in range(concurrency)))
    return found


def _refuse(name):
    raise AssertionError(f"{name} in a response")


def check_bodies(server, number, seed):
    rng = random.Random(seed)
    found = asyncio.run(send_all(server.port, [raw_body(rng) for _ in range(number)]))
    wrong = [one for one in found if one[0] not in (200, 400, 404, 422)]
    assert not wrong and len(found) == number, wrong[:3]
    statuses = [status for status, *_ in found]
    assert all(statuses.count(status) >= number / 100 for status in (200, 400, 404, 422)), "every status should occur"
    return {status: statuses.count(status) for status in sorted(set(statuses))}


def test_raw_bodies(server):
    check_bodies(server, 400, 0)


@pytest.mark.soak
def test_ten_thousand_raw_bodies(server, print_metric):
    print_metric("statuses", check_bodies(server, 10_000, 1))


def check_schema(server, number):
    """Valid and invalid requests to every path, generated from the OpenAPI document."""
    schema = schemathesis.openapi.from_dict(server.document)
    counts = {}
    operations = [result.ok() for result in schema.get_all_operations()]
    each = -(-number // (2 * sum(operation.method.upper() == "POST" for operation in operations)))
    modes = (schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE)
    for operation, mode in itertools.product(operations, modes):
        if mode is modes[1] and operation.method.upper() != "POST":
            continue

        @given(case=operation.as_strategy(generation_mode=mode))
        @settings(
            max_examples=each,
            deadline=None,
            database=None,
            derandomize=True,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        def send(case):
            if isinstance(case.body, dict):  # else every model would be unknown
                body = {**case.body, "model": MODEL_OF.get(case.path.removeprefix("/v1/"), "bert")}
                if case.path == "/v1/completions" and isinstance(body.get("max_tokens", 16), int):
                    body["max_tokens"] = min(4, body.get("max_tokens") or 4)
                case.body = body
            response = case.call(base_url=server.url, timeout=60)
            assert response.status_code < 500, (case.path, case.body, response.content[:300])
            counts[response.status_code] = counts.get(response.status_code, 0) + 1
            Client.validate(server, case.method, case.formatted_path, _as_reply(response))

        send()
    return counts


def _as_reply(response):
    headers = [(name, ", ".join(values)) for name, values in response.headers.items()]
    return Reply(response.status_code, headers, response.content)


def test_generated_requests(server):
    counts = check_schema(server, 240)
    assert counts[200] > 20 and counts[422] > 20


@pytest.mark.soak
def test_five_thousand_generated_requests(server, print_metric):
    counts = check_schema(server, 5200)
    print_metric("statuses", counts)
    assert sum(counts.values()) >= 5000
