"""Files that are corrupted, replaced or deleted under a running server: no 5xx, no waiting, no path in a response."""

import json
import os
import shutil
import threading
import time
from pathlib import Path

import pytest
from tests.robustness.corruption import corruptions
from tests.server.client import serving

from polyseme.server.run_registry import find_reports

MOST_SECONDS = 20  # for a reply, on a machine that does other things as well
NUM_CORRUPTIONS = 60
TEXT = "the old bank by the river"
VERBS = {
    "embeddings": {"model": "bert", "input": TEXT},
    "fill": {"model": "bert", "input": f"{TEXT} [MASK]"},
    "classify": {"model": "tuned", "task": "my-classify", "input": TEXT},
}


@pytest.fixture
def served(folders, tmp_path):
    """A model, a fine-tuned model, an unfinished run, and a comparison with a report and a run."""
    root = tmp_path / "somewhere" / "private"
    shutil.copytree(folders["bert"], root / "bert")
    shutil.copytree(folders["tuned"], root / "tuned")
    shutil.copytree(folders["tuned"], root / "unfinished")
    (root / "unfinished" / "model.safetensors").unlink()
    shutil.copytree(folders["tuned"], root / "comparison" / "runs" / "compared")
    (root / "comparison" / "report.html").write_text("<!doctype html><p>results</p>")
    (root / "tuned" / "probe.svg").write_text("<svg/>")
    return root


@pytest.fixture
def server(served):
    models, reports = find_reports([served / name for name in ("bert", "tuned", "unfinished", "comparison")])
    with serving(*models, reports=reports) as client:
        yield client


class Requests:
    """Requests of every kind, and their replies while nothing was damaged."""

    def __init__(self, server, root):
        self.server, self.root = server, root
        runs = [f"/v1/runs/{name}" for name in ("tuned", "unfinished", "compared")]
        models = [f"/v1/models/{name}" for name in ("bert", "tuned", "unfinished", "nobody")]
        self.paths = ["/ready", "/v1/models", "/v1/runs", *runs, *models, "/v1/reports", "/v1/reports/comparison"]
        self.replies = {verb: self.post(verb) for verb in VERBS}
        assert {reply.status for reply in self.replies.values()} == {200}

    def post(self, verb):
        return self.check(verb, lambda: self.server.post(verb, **VERBS[verb]))

    def check(self, path, send):
        started = time.monotonic()
        reply = send()
        assert time.monotonic() - started < MOST_SECONDS, path
        assert reply.status < 500 or path == "/ready", (path, reply.body)
        assert str(self.root.parent).encode() not in reply.body, (path, reply.body)
        return reply

    def send_all(self):
        """Send all; the verbs of models in memory have the same replies as before."""
        found = {path: self.check(path, lambda path=path: self.server.get(path)) for path in self.paths}
        for verb, reply in self.replies.items():
            assert self.post(verb).json == approximately(reply.json)
        return found


def approximately(value):
    """A reply whose last digits may differ: they depend on the requests that it shares a batch with."""
    if isinstance(value, dict):
        return {name: approximately(part) for name, part in value.items()}
    if isinstance(value, list):
        return [approximately(part) for part in value]
    return pytest.approx(value, abs=1e-4) if isinstance(value, float) else value


@pytest.fixture
def requests(server, served):
    return Requests(server, served)


def test_nothing_is_damaged(requests):
    found = requests.send_all()
    assert found["/ready"].json["problems"].keys() == {"unfinished"}
    assert {entry["id"] for entry in found["/v1/models"].json["data"]} == {"bert", "tuned", "compared"}
    assert {run["name"] for run in found["/v1/runs"].json} == {"tuned", "unfinished", "compared"}
    assert found["/v1/runs/tuned"].json["history"] and found["/v1/runs/tuned"].json["scores"]["dev"] == {}
    assert found["/v1/reports/comparison"].status == 200


def test_corrupted_files(requests, served):
    """One after another, while another client sends requests."""
    stopped = threading.Event()
    errors = []

    def send():
        try:
            while not stopped.is_set():
                requests.send_all()
        except BaseException as error:
            errors.append(error)

    client = threading.Thread(target=send)
    client.start()
    registry = requests.server.server.service.models
    for corruption in corruptions(served, seed=0, count=NUM_CORRUPTIONS):
        with corruption.applied():
            registry.refresh()
            requests.send_all()
    stopped.set()
    client.join()
    assert not errors, errors
    registry.refresh()
    assert requests.send_all()["/ready"].status == 200


def remove(path):
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


REPLACEMENTS = {
    "deleted": remove,
    "a folder": lambda path: path.mkdir(),
    "a pipe": os.mkfifo,
    "an endless device": lambda path: path.symlink_to("/dev/zero"),
    "a link to itself": lambda path: path.symlink_to(path),
    "a broken link": lambda path: path.symlink_to(path.with_name("nowhere")),
    "a large file": lambda path: os.truncate(os.open(path, os.O_CREAT | os.O_WRONLY), 10**10),
    "random bytes": lambda path: path.write_bytes(bytes(range(256)) * 10),
    "nothing": lambda path: path.touch(),
}
NAMES = ("history.jsonl", "manifest.json", "recipe.toml", "run.lock", "scores.json", "config.json", "model.safetensors")


@pytest.mark.parametrize("replacement", REPLACEMENTS)
def test_replaced_files(replacement, requests, served):
    registry = requests.server.server.service.models
    for name in (*NAMES, "probe.svg"):
        for run in ("tuned", "unfinished", "comparison/runs/compared"):
            path = served / run / name
            remove(path)
            REPLACEMENTS[replacement](path)
            registry.refresh()
        found = requests.send_all()
        assert found["/ready"].json["status"] == "ready"
    report = served / "comparison" / "report.html"
    remove(report)
    REPLACEMENTS[replacement](report)
    requests.send_all()


def test_hostile_rows_of_a_history(requests, served):
    """Rows of other types are skipped, and the others are shown."""
    history = served / "tuned" / "history.jsonl"
    row = json.loads(history.read_text().splitlines()[-1])
    changes = [
        {"step": "../../etc/passwd"},
        {"step": -1},
        {"step": 10**400},
        {"step": float("nan")},
        {"tokens": [1]},
        {"dev": 3},
        {"dev": {"a": "b"}},
        {"dev": [["a", 1]]},
        {"loss": "a\ud800b"},
        {"a\ud800b": 1.0},
        {"loss": {"a": 1}},
        {"x" * 100_000: 1.0},
    ]
    lines = [json.dumps({**row, **change}) for change in changes] + ["3", "[1]", "null", '"text"', "[" * 100_000]
    history.write_text("\n".join([*lines, json.dumps({**row, "step": 77})]) + "\n")
    found = requests.send_all()
    assert found["/v1/runs/tuned"].status == 200
    steps = [row["step"] for row in found["/v1/runs/tuned"].json["history"]]
    assert steps[-1] == 77 and len(steps) <= 3, "only the name of 100,000 characters is valid"


def test_directories_are_shown_relative_to_the_working_directory(folders, tmp_path, monkeypatch):
    shutil.copytree(folders["bert"], tmp_path / "work" / "runs" / "bert")
    shutil.copytree(folders["gpt2"], tmp_path / "other" / "gpt2")
    monkeypatch.chdir(tmp_path / "work")
    with serving(tmp_path / "work" / "runs" / "bert", tmp_path / "other" / "gpt2") as server:
        directories = [entry["polyseme"]["directory"] for entry in server.get("/v1/models").json["data"]]
        assert directories == [str(Path("runs", "bert")), "gpt2"]
