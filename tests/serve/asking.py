"""A server in a thread of this process, and ways to ask it, all of which hold answers against its OpenAPI document."""

import asyncio
import functools
import http.client
import json
import re
import socket
import threading
from contextlib import contextmanager

import jsonschema_rs

from polyseme.serve.guard import Limits
from polyseme.serve.models import Models
from polyseme.serve.run import Address, prepare

JSON = {"content-type": "application/json"}


class Reply:
    """What came back."""

    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, {name.lower(): value for name, value in headers}, body

    @property
    def json(self):
        return json.loads(self.body, parse_constant=lambda name: pytest_fail(name))

    @property
    def error(self):
        return self.json["error"]


def pytest_fail(name):
    raise AssertionError(f"{name} is no JSON")


class Client:
    """Asks a server."""

    def __init__(self, port, key=""):
        self.port, self.key = port, key

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def ask(self, method, path, body=None, headers=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        headers = {**({"authorization": f"Bearer {self.key}"} if self.key else {}), **(headers or {})}
        try:
            connection.request(method, path, body=body, headers=headers)
            answer = connection.getresponse()
            reply = Reply(answer.status, answer.getheaders(), answer.read())
        finally:
            connection.close()
        if path != "/openapi.json" and method in ("GET", "POST"):
            self.check(method, path, reply)
        return reply

    def get(self, path, **headers):
        return self.ask("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()})

    def post(self, call, **body):
        return self.ask("POST", f"/v1/{call}", json.dumps(body), JSON)

    @functools.cached_property
    def document(self):
        return self.ask("GET", "/openapi.json").json

    def check(self, method, path, reply):
        """An answer is what the document says that it is."""
        described = self.document["paths"]
        where = next((one for one in described if re.fullmatch(re.sub(r"\{.*?\}", ".+", one), path)), None)
        if where is None or method.lower() not in described[where]:
            return
        responses = described[where][method.lower()]["responses"]
        assert reply.status == 500 or str(reply.status) in responses, (path, reply.status, reply.body[:300])
        content = responses.get(str(reply.status), {}).get("content", {})
        kind = reply.headers.get("content-type", "").partition(";")[0]
        if not content:
            return
        assert kind in content, (path, kind)
        if kind == "application/json":
            schema = {**content[kind]["schema"], "components": self.document["components"]}
            jsonschema_rs.validator_for(schema).validate(reply.json)

    def raw(self, data, *, wait=5.0, parts=()):
        """What comes back to some bytes, until the server closes or says nothing more."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=wait) as connection:
            connection.sendall(data)
            for part in parts:
                connection.sendall(part)
            return read_all(connection)


def read_all(connection):
    """All that a server says before it closes, or falls silent."""
    found = b""
    try:
        while part := connection.recv(65536):
            found += part
    except (TimeoutError, ConnectionResetError):
        pass
    return found


@contextmanager
def serving(*folders, key="", names=(), threads=1, host="127.0.0.1", reports=None, weights="float32", **limits):
    """A server over some directories, on a free port, until the block ends."""
    address = Address(host=host, port=0, names=names)
    models = Models(list(folders), weights=weights)
    models.open()
    listening = address.bind()
    running = prepare(
        models, listening, address=address, key=key, limits=Limits(**limits), num_threads=threads, reports=reports
    )
    started = threading.Event()
    thread = threading.Thread(target=running.run, kwargs={"started": started.set}, daemon=True)
    thread.start()
    assert started.wait(30)
    client = Client(listening.getsockname()[1], key)
    client.serving = running
    try:
        yield client
    finally:
        running.stop()
        thread.join(30)
        assert not thread.is_alive()


async def ask_many(port, requests, *, at_once):
    """Statuses, bodies and seconds of (path, body) pairs, over connections that are kept."""
    waiting = list(enumerate(requests))[::-1]
    found = [None] * len(requests)
    clock = asyncio.get_running_loop().time

    async def client():
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            while waiting:
                number, (path, body) = waiting.pop()
                content = json.dumps(body).encode()
                head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                begun = clock()
                writer.write(f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content)
                lines = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
                length = int(re.search(r"content-length: (\d+)", lines)[1])
                body = await reader.readexactly(length)
                found[number] = (int(lines.split()[1]), json.loads(body), clock() - begun)
        finally:
            writer.close()
            await writer.wait_closed()

    await asyncio.gather(*(client() for _ in range(at_once)))
    return found
