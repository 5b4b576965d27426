"""Pages are sent as they lie in their folder, with headers that keep everybody else out."""

import pytest
from asking import Client, serving

from polyseme.errors import ConfigError
from polyseme.serve.models import Models
from polyseme.serve.run import Address, prepare
from polyseme.serve.web import Web, unchanged


@pytest.fixture
def web(tmp_path):
    (tmp_path / "views").mkdir()
    (tmp_path / "index.html").write_text("<!doctype html>")
    (tmp_path / "views" / "a.js").write_text("export {}")
    (tmp_path / "secret.py").write_text("x")
    (tmp_path / ".hidden.js").write_text("x")
    (tmp_path.parent / "outside.js").write_text("x")
    (tmp_path / "link.js").symlink_to(tmp_path.parent / "outside.js")
    return Web(tmp_path)


def test_files(web):
    assert web.find("").content == web.find("/index.html").content == b"<!doctype html>"
    assert web.find("views/a.js").headers["content-type"] == "text/javascript; charset=utf-8"
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


def test_a_file_that_changes_has_another_tag(web):
    before = web.find("index.html")
    assert web.find("index.html") is before
    (web.folder / "index.html").write_text("<!doctype html><p>more</p>")
    assert web.find("index.html").tag != before.tag
    assert unchanged(f'W/{before.tag}, "x"', before.tag) and not unchanged('"x"', before.tag)


def test_headers(server):
    for path in ("/health", "/v1/models", "/nowhere", "/docs"):
        headers = server.get(path).headers
        assert "default-src 'none'" in headers["content-security-policy"], path
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert not any(name.startswith("access-control") for name in headers) and "server" not in headers


def test_other_addresses_need_a_key(folders):
    for host in ("0.0.0.0", "::", "192.168.0.5", "example.com"):
        assert not Address(host=host).local
    for host in ("127.0.0.1", "127.0.0.9", "::1", "localhost"):
        assert Address(host=host).local
    listening = Address(port=0).bind()
    with pytest.raises(ConfigError, match="--api-key"):
        prepare(Models([]), listening, address=Address(host="0.0.0.0"))
    listening.close()
    with serving(folders["bert"], host="0.0.0.0", key="a-secret-of-ours", names=("My.Name",)) as server:
        assert server.ask("GET", "/v1/models", headers={"host": "my.name"}).status == 200
        assert server.ask("GET", "/v1/models", headers={"host": "10.1.2.3:8000"}).status == 200
        assert server.ask("GET", "/v1/models", headers={"host": "evil.example"}).status == 421
        assert Client(server.port).get("/v1/models").status == 401


def test_counts(server):
    server.post("embeddings", model="bert", input="a")
    text = server.get("/metrics").body.decode()
    for name in ("polyseme_requests_total", "polyseme_request_seconds_bucket", "polyseme_batch_items_sum"):
        assert name in text
    for name in (
        "requests_admitted",
        "requests_waiting",
        "texts_writing",
        "tokens_written",
        "tokens_read_total",
        "models",
    ):
        assert f"polyseme_{name} " in text
