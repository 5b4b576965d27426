"""Malformed and hostile HTTP requests: each has one expected status, never a 5xx."""

import json
import re
import socket
from contextlib import suppress

import pytest

HOST = b"Host: localhost\r\n"
KIND = b"Content-Type: application/json\r\n"
GOOD = b'{"model":"bert","input":"a"}'


def post(body=GOOD, *lines, path=b"/v1/embeddings", length=None, host=HOST, kind=KIND, method=b"POST"):
    """A valid request, except for what is changed."""
    size = b"" if length == b"" else b"Content-Length: %b\r\n" % (str(len(body)).encode() if length is None else length)
    return method + b" " + path + b" HTTP/1.1\r\n" + host + kind + size + b"".join(lines) + b"\r\n" + body


def get(path=b"/health", *lines, host=HOST, version=b"HTTP/1.1", method=b"GET"):
    return method + b" " + path + b" " + version + b"\r\n" + host + b"".join(lines) + b"\r\n"


def chunked(*chunks, lines=(b"Transfer-Encoding: chunked\r\n",)):
    return post(b"".join(chunks), *lines, length=b"")


def chunk(data):
    return b"%x\r\n%b\r\n" % (len(data), data)


END, CHUNKS = b"0\r\n\r\n", b"Transfer-Encoding: chunked\r\n"
COMPLETIONS = b"/v1/completions"
DEEP = b"[" * 100_000 + b"]" * 100_000
NESTED = b'{"model":"bert","input":' + b'{"a":' * 5000 + b"1" + b"}" * 5000 + b"}"

# Bytes that are sent, and the statuses of the responses in order.
CASES = {
    # request lines
    "a valid request": (post(), [200]),
    "an empty line, then a valid request": (b"\r\n" + get(), [200]),
    "not HTTP": (b"hello there, server\r\n\r\n", [400]),
    "a TLS client hello": (bytes.fromhex("1603010200010001fc0303") + b"\x00" * 40, [400]),
    "HTTP/2 from the first byte": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", [400]),
    "no version": (b"GET /health\r\n" + HOST + b"\r\n", [400]),
    "an unknown version": (get(version=b"HTTP/3.7"), [400]),
    "an invalid version": (get(version=b"HTTP/one"), [400]),
    "HTTP/1.0 with a host": (get(version=b"HTTP/1.0"), [200]),
    "HTTP/1.0 without a host": (get(version=b"HTTP/1.0", host=b""), [400]),
    "a space too many": (b"GET  /health  HTTP/1.1\r\n" + HOST + b"\r\n", [200]),
    "a tab in between": (b"GET\t/health HTTP/1.1\r\n" + HOST + b"\r\n", [400]),
    "an unknown method": (get(method=b"STEAL"), [400]),
    "a lower-case method": (get(method=b"get"), [400]),
    "NUL in the path": (get(b"/hea\x00lth"), [400]),
    "bytes beyond ASCII in the path": (get("/päth".encode()), [400]),
    "a path of 20 kB": (get(b"/" + b"a" * 20_000), [431]),
    "an absolute URL as path": (get(b"http://localhost/health"), [200]),
    "an asterisk as path": (get(b"*", method=b"OPTIONS"), [404]),
    # hosts
    "no host": (get(host=b""), [400]),
    "two hosts": (get(host=HOST + HOST), [400]),
    "an empty host": (get(host=b"Host:\r\n"), [400]),
    "an unknown name": (get(host=b"Host: evil.example\r\n"), [421]),
    "our name as a subdomain": (get(host=b"Host: localhost.evil.example\r\n"), [421]),
    "our name as a user": (get(host=b"Host: localhost@evil.example\r\n"), [400]),
    "a private address": (get(host=b"Host: 10.0.0.1:8000\r\n"), [421]),
    "our address with a port": (get(host=b"Host: 127.0.0.1:80\r\n"), [200]),
    "our address in IPv6": (get(host=b"Host: [::1]:8000\r\n"), [200]),
    "our name in capitals": (get(host=b"Host: LOCALHOST\r\n"), [200]),
    "a host with a path": (get(host=b"Host: localhost/../\r\n"), [400]),
    "all zeros": (get(host=b"Host: 0.0.0.0\r\n"), [421]),
    # header lines
    "17 kB of one header": (get(b"/health", b"X: " + b"a" * 17_000 + b"\r\n"), [431]),
    "2,000 headers": (get(b"/health", *[b"X-%d: a\r\n" % number for number in range(2000)]), [431]),
    "15 kB of headers": (get(b"/health", b"X: " + b"a" * 15_000 + b"\r\n"), [200]),
    "a header without a colon": (get(b"/health", b"nothing\r\n"), [400]),
    "a space before the colon": (get(b"/health", b"X : a\r\n"), [400]),
    "a folded header": (get(b"/health", b"X: a\r\n b\r\n"), [400]),
    "NUL in a header": (get(b"/health", b"X: a\x00b\r\n"), [400]),
    "a bare line feed in a header": (b"GET /health HTTP/1.1\n" + HOST + b"\n", [400]),
    "an empty name": (get(b"/health", b": a\r\n"), [400]),
    "an upgrade to websockets": (get(b"/health", b"Connection: Upgrade\r\n", b"Upgrade: websocket\r\n"), [200]),
    "an upgrade to HTTP/2": (get(b"/health", b"Connection: Upgrade, HTTP2-Settings\r\n", b"Upgrade: h2c\r\n"), [200]),
    # lengths and chunks
    "two lengths that differ": (post(GOOD, b"Content-Length: 3\r\n"), [400]),
    "a length and chunks": (
        chunked(chunk(GOOD), b"0\r\n\r\n", lines=(b"Transfer-Encoding: chunked\r\n", b"Content-Length: 4\r\n")),
        [400],
    ),
    "a negative length": (post(length=b"-1"), [400]),
    "a length with a sign": (post(length=b"+28"), [400]),
    "a hexadecimal length": (post(length=b"0x1c"), [400]),
    "a length of 40 digits": (post(length=b"9" * 40), [400]),
    "a length of 3 MB": (post(length=b"3000000"), [413]),
    "3 MB in chunks": (chunked(*[chunk(b" " * 100_000)] * 30, b"0\r\n\r\n"), [413]),
    "valid chunks": (chunked(chunk(GOOD[:5]), chunk(GOOD[5:]), b"0\r\n\r\n"), [200]),
    "chunks with invalid sizes": (chunked(b"xyz\r\n", GOOD), [400]),
    "a chunk of a negative size": (chunked(b"-5\r\nhello\r\n0\r\n\r\n"), [400]),
    "a chunk of 64 bits": (chunked(b"ffffffffffffffffff\r\n"), [400]),
    "a chunk longer than its size": (chunked(b"2\r\nhello\r\n0\r\n\r\n"), [400]),
    "chunks, encoded twice": (
        chunked(chunk(GOOD), b"0\r\n\r\n", lines=(b"Transfer-Encoding: chunked, chunked\r\n",)),
        [400],
    ),
    "an unknown transfer encoding": (chunked(GOOD, lines=(b"Transfer-Encoding: cow\r\n",)), [400]),
    "a smuggled second request": (
        chunked(b"0\r\n\r\n", b"GET /nowhere HTTP/1.1\r\n", HOST, b"\r\n"),
        [400, 404],
    ),
    "a second request after a length of 0": (post(b"", length=b"0") + get(b"/nowhere"), [400, 404]),
    "two valid requests at once": (get() + get(b"/ready"), [200, 200]),
    "no length and no body": (post(b"", length=b""), [400]),
    "expects 100-continue": (post(GOOD, b"Expect: 100-continue\r\n"), [100, 200]),
    "expects something else": (post(GOOD, b"Expect: a miracle\r\n"), [417]),
    # bodies
    "compressed": (post(GOOD, b"Content-Encoding: gzip\r\n"), [415]),
    "as a form": (post(b"model=bert", kind=b"Content-Type: application/x-www-form-urlencoded\r\n"), [415]),
    "as plain text, as a cross-origin page could send it": (post(kind=b"Content-Type: text/plain\r\n"), [415]),
    "in UTF-16": (post(kind=b"Content-Type: application/json; charset=utf-16\r\n"), [415]),
    "not JSON": (post(b"{model: bert}"), [400]),
    "truncated JSON": (post(GOOD[:-3]), [400]),
    "JSON with trailing data": (post(GOOD + b"}"), [400]),
    "an array": (post(b"[1, 2]"), [422]),
    "null": (post(b"null"), [422]),
    "deeply nested lists": (post(DEEP), [400]),
    "deeply nested objects": (post(NESTED), [400]),
    "NaN": (post(b'{"model":"gpt2","prompt":"a","temperature":NaN}', path=COMPLETIONS), [422]),
    "Infinity": (post(b'{"model":"gpt2","prompt":"a","top_p":Infinity}', path=COMPLETIONS), [422]),
    "1e999": (post(b'{"model":"gpt2","prompt":"a","temperature":1e999}', path=COMPLETIONS), [422]),
    "a number of 5,000 digits": (
        post(b'{"model":"gpt2","seed":' + b"9" * 5000 + b"}", path=COMPLETIONS),
        [400],
    ),
    "a lone surrogate": (post(b'{"model":"bert","input":"\\ud800"}'), [400]),
    "NUL in a text": (post(b'{"model":"bert","input":"a\\u0000b"}'), [200]),
    "NUL in the name of a model": (post(b'{"model":"be\\u0000rt","input":"a"}'), [404]),
    "invalid UTF-8": (post(b'{"model":"bert","input":"\xff\xfe"}'), [400]),
    "the same name twice": (post(b'{"model":"nobody","model":"bert","input":"a"}'), [200]),
    "a text of 2 MB": (post(b'{"model":"bert","input":"' + b"a" * 1_900_000 + b'"}'), [422]),
    "3,000 texts": (post(b'{"model":"bert","input":[' + b'"a",' * 2999 + b'"a"]}'), [422]),
    "a number instead of a text": (post(b'{"model":"bert","input":5}'), [422]),
    "true instead of a number": (post(b'{"model":"gpt2","prompt":"a","max_tokens":true}', path=COMPLETIONS), [422]),
    # methods and addresses
    "HEAD": (get(method=b"HEAD"), [200]),
    "HEAD of an endpoint": (get(b"/v1/embeddings", method=b"HEAD"), [405]),
    "OPTIONS, as a cross-origin preflight": (
        get(
            b"/v1/embeddings",
            b"Origin: http://evil.example\r\nAccess-Control-Request-Method: POST\r\n",
            method=b"OPTIONS",
        ),
        [405],
    ),
    "DELETE of a model": (get(b"/v1/models/bert", method=b"DELETE"), [405]),
    "PUT of a page": (get(b"/index.html", method=b"PUT"), [405]),
    "TRACE": (get(method=b"TRACE"), [405]),
    "CONNECT": (get(b"localhost:22", method=b"CONNECT"), [400]),
    "GET of an endpoint": (get(b"/v1/embeddings"), [405]),
    "GET with a body": (get(b"/health", b"Content-Length: 5\r\n") + b"hello" + get(), [200, 200]),
    "a path outside the folder": (get(b"/../../../../etc/passwd"), [404]),
    "a path outside the folder, percent-encoded": (get(b"/%2e%2e/%2e%2e/etc/passwd"), [404]),
    "a path outside the runs": (get(b"/v1/runs/..%2f..%2fetc%2fpasswd"), [404]),
    "a path outside the reports": (get(b"/v1/reports/%2e%2e/%2e%2e/etc/passwd"), [404]),
    "a hidden file": (get(b"/.git/config"), [404]),
    "a source file": (get(b"/app.py"), [404]),
    "NUL in a name": (get(b"/v1/runs/a%00b"), [404]),
    "invalid UTF-8 in a name": (get(b"/v1/models/%ff%fe"), [404]),
    "a name of 2,000 characters": (get(b"/v1/models/" + b"a" * 2000), [422]),
    "a query": (get(b"/health?x=%00&y=" + b"a" * 500), [200]),
}


def statuses(output):
    """The statuses of all responses."""
    return [int(found) for found in re.findall(rb"HTTP/1\.1 (\d{3})", output)]


def exchange(port, sent, number):
    """Send bytes, and return a number of responses and what follows them immediately."""
    output = b""
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        with suppress(OSError):  # refused before all of it was sent
            connection.sendall(sent)
        with suppress(OSError):
            while part := connection.recv(65536):
                output += part
                if len(statuses(output)) >= number and b"\r\n\r\n" in output:
                    connection.settimeout(0.05)
    return output


@pytest.mark.parametrize("name", CASES)
def test_exact_status(server, name):
    sent, expected = CASES[name]
    output = exchange(server.port, sent, len(expected))
    found = statuses(output)
    assert found == expected, output[:500]
    assert b"Traceback" not in output and not any(status >= 500 for status in found)
    if found[-1] >= 400 and b"\r\n\r\n{" in output:
        body = output.rpartition(b"\r\n\r\n")[2]
        assert set(json.loads(body)["error"]) == {"message", "type", "code", "param"}
    assert server.get("/health").status == 200
