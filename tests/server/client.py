"""A server in a thread of this process, and clients that validate responses against its OpenAPI document."""

import asyncio
import functools
import http.client
import json
import re
import socket
import threading
from contextlib import contextmanager

import jsonschema_rs

from polyseme.server.gateway import Limits
from polyseme.server.lifecycle import Address, create_server
from polyseme.server.model_registry import ModelRegistry

JSON = {"content-type": "application/json"}


class Reply:
    """A response."""

    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, {name.lower(): value for name, value in headers}, body

    @property
    def json(self):
        return json.loads(self.body, parse_constant=fail_on_constant)

    @property
    def error(self):
        return self.json["error"]


def fail_on_constant(name):
    raise AssertionError(f"{name} is not valid JSON")


class Client:
    """A blocking HTTP client."""

    def __init__(self, port, key=""):
        self.port, self.key = port, key

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def request(self, method, path, body=None, headers=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        headers = {**({"authorization": f"Bearer {self.key}"} if self.key else {}), **(headers or {})}
        try:
            connection.request(method, path, body=body, headers=headers)
            response = connection.getresponse()
            reply = Reply(response.status, response.getheaders(), response.read())
        finally:
            connection.close()
        if path != "/openapi.json" and method in ("GET", "POST"):
            self.validate(method, path, reply)
        return reply

    def get(self, path, **headers):
        return self.request("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()})

    def post(self, endpoint, **body):
        return self.request("POST", f"/v1/{endpoint}", json.dumps(body), JSON)

    @functools.cached_property
    def document(self):
        return self.request("GET", "/openapi.json").json

    def validate(self, method, path, reply):
        """Check a response against the OpenAPI document."""
        paths = self.document["paths"]
        template = next((one for one in paths if re.fullmatch(re.sub(r"\{.*?\}", ".+", one), path)), None)
        if template is None or method.lower() not in paths[template]:
            return
        responses = paths[template][method.lower()]["responses"]
        assert reply.status == 500 or str(reply.status) in responses, (path, reply.status, reply.body[:300])
        content = responses.get(str(reply.status), {}).get("content", {})
        content_type = reply.headers.get("content-type", "").partition(";")[0]
        if not content:
            return
        assert content_type in content, (path, content_type)
        if content_type == "application/json":
            schema = {**content[content_type]["schema"], "components": self.document["components"]}
            jsonschema_rs.validator_for(schema).validate(reply.json)

    def raw(self, data, *, wait=5.0, parts=()):
        """Send bytes, and return what arrives until the server closes or falls silent."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=wait) as connection:
            connection.sendall(data)
            for part in parts:
                connection.sendall(part)
            return read_all(connection)


def read_all(connection):
    """Everything that arrives until the server closes or falls silent."""
    found = b""
    try:
        while part := connection.recv(65536):
            found += part
    except (TimeoutError, ConnectionResetError):
        pass
    return found


@contextmanager
def serving(*folders, key="", names=(), threads=1, host="127.0.0.1", reports=None, weights="float32", **limits):
    """A server of some directories on a free port, until the block ends."""
    address = Address(host=host, port=0, names=names)
    models = ModelRegistry(list(folders), weights=weights)
    models.refresh()
    listening = address.bind()
    running = create_server(
        models, listening, address=address, key=key, limits=Limits(**limits), num_threads=threads, reports=reports
    )
    started = threading.Event()
    thread = threading.Thread(target=running.run, kwargs={"on_started": started.set}, daemon=True)
    thread.start()
    assert started.wait(30)
    client = Client(listening.getsockname()[1], key)
    client.server = running
    try:
        yield client
    finally:
        running.stop()
        thread.join(30)
        assert not thread.is_alive()


async def post_many(port, requests, *, concurrency):
    """Status, JSON and seconds of each (path, body), over persistent connections."""
    waiting = list(enumerate(requests))[::-1]
    found = [None] * len(requests)
    clock = asyncio.get_running_loop().time

    async def client():
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            while waiting:
                index, (path, body) = waiting.pop()
                content = json.dumps(body).encode()
                head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                start = clock()
                writer.write(f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content)
                lines = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
                length = int(re.search(r"content-length: (\d+)", lines)[1])
                body = await reader.readexactly(length)
                found[index] = (int(lines.split()[1]), json.loads(body), clock() - start)
        finally:
            writer.close()
            await writer.wait_closed()

    await asyncio.gather(*(client() for _ in range(concurrency)))
    return found
