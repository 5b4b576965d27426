"""Whatever is sent to a call, it is never the server's fault."""

import asyncio
import itertools
import json
import random

import pytest
import schemathesis
from asking import Client, Reply
from hypothesis import HealthCheck, Phase, given, settings

WORDS = ["model", "input", "prompt", "texts", "word", "pairs", "top", "bert", "gpt2", "tuned", "a", "b", "c", "stop"]
VALUES = [None, True, -1, 0, 1, 2**70, 1.5, -1e308, "", "a", "the [MASK] bank", "\x00", "\ud83d\ude00", "杜鹃", [], {}]
CALLS = ["embeddings", "completions", "fill", "score", "classify", "pair", "tag", "similarity", "answer", "choose"]
CALLS += ["translate", "neighbours", "analogy", "attention", "senses"]
FIELDS = {
    "embeddings": ["input", "layer", "pool", "encoding_format", "dimensions"],
    "completions": ["prompt", "max_tokens", "temperature", "top_p", "n", "stream", "logprobs", "stop", "seed", "echo"],
    "answer": ["question", "passage", "task"],
    "choose": ["context", "choices"],
    "neighbours": ["word", "top"],
    "analogy": ["a", "b", "c", "top"],
    "attention": ["input", "second"],
    "senses": ["word", "texts"],
}
ABLE = {"completions": "gpt2", "fill": "bert", "score": "gpt", "translate": "transformer", "attention": "bert"}
ABLE |= dict.fromkeys(["classify", "tag", "pair", "answer", "choose"], "tuned")
MODELS = ["bert", "gpt2", "elmo", "skipgram", "tuned", "nobody"]
TEXT = ["the old bank", "a [MASK] bank", "\x00\t\u202e杜鹃\U0001f600", "a" * 300, "the", " ", ""]
# What would be right, where anything else is likely to be wrong.
RIGHT = {"pairs": [[["the river", "a"]]], "texts": [["the bank", "a bank"]], "choices": [["is", "was"], ["a"]]}
RIGHT |= {"top": [1, 5], "layer": [0, -1], "n": [1, 2], "logprobs": [0, 3], "temperature": [0, 0.7], "max_tokens": [2]}
RIGHT |= {"stream": [True, False], "echo": [True, False], "seed": [1], "top_p": [0.5], "pool": ["max"], "task": [None]}
RIGHT |= {"encoding_format": ["base64"], "dimensions": [None, 32], "word": ["bank", "the"], "stop": ["a", ["b"]]}


def value(chance, depth=0):
    kind = chance.random()
    if kind < 0.6 or depth > 3:
        return chance.choice(VALUES)
    if kind < 0.8:
        return [value(chance, depth + 1) for _ in range(chance.randint(0, 4))]
    return {chance.choice(WORDS): value(chance, depth + 1) for _ in range(chance.randint(0, 4))}


def raw_body(chance):
    """A call and bytes: nearly right JSON, JSON with a wound, or noise."""
    call = chance.choice(CALLS)
    body = {"model": chance.choice([ABLE.get(call, "bert")] * 6 + MODELS)}
    right = chance.choice([0.7, 0.95, 1.0])
    for name in FIELDS.get(call, ["pairs"] if call in ("pair", "similarity") else ["input", "top", "task"]):
        if chance.random() < 0.9:
            body[name] = chance.choice(RIGHT.get(name, TEXT)) if chance.random() < right else value(chance)
    if call in ("classify", "tag", "translate", "embeddings"):
        body.pop("top", None)
    if call in ("fill", "score", "translate", "embeddings"):
        body.pop("task", None)
    data = bytearray(json.dumps(body, ensure_ascii=chance.random() < 0.5).encode("utf-8", "surrogatepass"))
    kind = chance.random()
    if kind < 0.15:
        for _ in range(chance.randint(1, 5)):
            data[chance.randrange(len(data))] = chance.randrange(256)
    elif kind < 0.2:
        del data[chance.randrange(len(data)) :]
    elif kind < 0.25:
        data = bytearray(chance.randbytes(chance.randint(0, 200)))
    return f"/v1/{call}", bytes(data)


async def send_all(port, bodies, at_once=8):
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
                told = await reader.readexactly(length)
                json.loads(told, parse_constant=_refuse)
            else:
                await reader.readuntil(b"0\r\n\r\n")
            found.append((int(lines.split()[1]), path, body))
            if "connection: close" in lines:
                writer.close()
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.close()

    await asyncio.gather(*(client() for _ in range(at_once)))
    return found


def _refuse(name):
    raise AssertionError(f"{name} in an answer")


def check_bodies(server, number, seed):
    chance = random.Random(seed)
    found = asyncio.run(send_all(server.port, [raw_body(chance) for _ in range(number)]))
    wrong = [one for one in found if one[0] not in (200, 400, 404, 422)]
    assert not wrong and len(found) == number, wrong[:3]
    statuses = [status for status, *_ in found]
    assert all(statuses.count(status) >= number / 100 for status in (200, 400, 404, 422)), "they should be of all kinds"
    return {status: statuses.count(status) for status in sorted(set(statuses))}


def test_raw_bodies(server):
    check_bodies(server, 400, 0)


@pytest.mark.soak
def test_ten_thousand_raw_bodies(server, tell):
    tell("statuses", check_bodies(server, 10_000, 1))


def check_schema(server, number):
    """Requests made of the OpenAPI document, right ones and wrong ones, to every address."""
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
        def ask(case):
            if isinstance(case.body, dict):  # names that nobody has would be all that is asked
                body = {**case.body, "model": ABLE.get(case.path.removeprefix("/v1/"), "bert")}
                if case.path == "/v1/completions" and isinstance(body.get("max_tokens", 16), int):
                    body["max_tokens"] = min(4, body.get("max_tokens") or 4)
                case.body = body
            answer = case.call(base_url=server.url, timeout=60)
            assert answer.status_code < 500, (case.path, case.body, answer.content[:300])
            counts[answer.status_code] = counts.get(answer.status_code, 0) + 1
            Client.check(server, case.method, case.formatted_path, _as_reply(answer))

        ask()
    return counts


def _as_reply(answer):
    headers = [(name, ", ".join(values)) for name, values in answer.headers.items()]
    return Reply(answer.status_code, headers, answer.content)


def test_cases_of_the_document(server):
    counts = check_schema(server, 240)
    assert counts[200] > 20 and counts[422] > 20


@pytest.mark.soak
def test_five_thousand_cases_of_the_document(server, tell):
    counts = check_schema(server, 5200)
    tell("statuses", counts)
    assert sum(counts.values()) >= 5000
