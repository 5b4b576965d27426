"""Static files, security headers, access from other machines and metrics."""

import re

import pytest
from tests.server.client import Client, serving

from polyseme.errors import ConfigError
from polyseme.server.lifecycle import Address, create_server
from polyseme.server.model_registry import ModelRegistry
from polyseme.server.static_files import StaticFiles, matches_etag


@pytest.fixture
def web(tmp_path):
    (tmp_path / "views").mkdir()
    (tmp_path / "index.html").write_text("<!doctype html>")
    (tmp_path / "views" / "a.js").write_text("export {}")
    (tmp_path / "secret.py").write_text("x")
    (tmp_path / ".hidden.js").write_text("x")
    (tmp_path.parent / "outside.js").write_text("x")
    (tmp_path / "link.js").symlink_to(tmp_path.parent / "outside.js")
    return StaticFiles(tmp_path)


def test_files(web):
    assert web.find("").body == web.find("/index.html").body == b"<!doctype html>"
    assert web.find("views/a.js").headers["content-type"] == "text/javascript; charset=utf-8"
    assert web.find("shared/dom.js").body and web.find("shared/a.js") is None
    for path in (
        "secret.py",
        ".hidden.js",
        "../outside.js",
        "link.js",
        "views",
        "views/",
        "views//a.js",
        "a\x00.js",
        "none.js",
    ):
        assert web.find(path) is None, path


def test_changed_file_has_another_etag(web):
    before = web.find("index.html")
    assert web.find("index.html") is before
    (web.folder / "index.html").write_text("<!doctype html><p>more</p>")
    assert web.find("index.html").headers["etag"] != before.headers["etag"]
    assert matches_etag(f'W/{before.headers["etag"]}, "x"', before.headers["etag"]) and not matches_etag(
        '"x"', before.headers["etag"]
    )


def test_security_headers(server):
    for path in ("/health", "/v1/models", "/nowhere", "/docs"):
        headers = server.get(path).headers
        assert "default-src 'none'" in headers["content-security-policy"], path
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert not any(name.startswith("access-control") for name in headers) and "server" not in headers


def test_non_local_addresses_require_a_key(folders):
    for host in ("0.0.0.0", "::", "192.168.0.5", "example.com"):
        assert not Address(host=host).is_local
    for host in ("127.0.0.1", "127.0.0.9", "::1", "localhost"):
        assert Address(host=host).is_local
    listening = Address(port=0).bind()
    with pytest.raises(ConfigError, match="--api-key"):
        create_server(ModelRegistry([]), listening, address=Address(host="0.0.0.0"))
    listening.close()
    with serving(folders["bert"], host="0.0.0.0", key="a-secret-of-ours", names=("My.Name",)) as server:
        assert server.request("GET", "/v1/models", headers={"host": "my.name"}).status == 200
        assert server.request("GET", "/v1/models", headers={"host": "10.1.2.3:8000"}).status == 200
        assert server.request("GET", "/v1/models", headers={"host": "evil.example"}).status == 421
        assert Client(server.port).get("/v1/models").status == 401


def test_metrics(server):
    server.post("embeddings", model="bert", input="a")
    text = server.get("/metrics").body.decode()
    for name in ("polyseme_requests_total", "polyseme_request_seconds_bucket", "polyseme_batch_items_sum"):
        assert name in text
    for name in (
        "requests_admitted",
        "requests_waiting",
        "generations_active",
        "tokens_generated_total",
        "batch_tokens_total",
        "models",
    ):
        assert f"polyseme_{name} " in text
    kinds = dict(re.findall(r"^# TYPE polyseme_(\w+) (\w+)$", text, flags=re.M))
    assert kinds["tokens_generated_total"] == kinds["requests_total"] == "counter" and kinds["models"] == "gauge"
