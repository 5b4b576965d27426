"""Directories that are missing, unfinished, corrupt or deleted are reported, and the others work."""

import json
import os
import shutil
import threading

import pytest
from tests.server.client import serving

from polyseme.server.model_registry import ModelRegistry, ServedModel, is_training
from polyseme.server.run_registry import find_reports


@pytest.fixture
def broken(folders, tmp_path):
    """One intact model directory, and one of each kind of damage."""
    for name in ("good", "truncated", "random_bytes", "config", "tokenizer", "mixed"):
        shutil.copytree(folders["bert"], tmp_path / name)
    weights = tmp_path / "truncated" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1000])
    (tmp_path / "random_bytes" / "model.safetensors").write_bytes(b"\xff" * 5000)
    (tmp_path / "config" / "config.json").write_text("{")
    (tmp_path / "tokenizer" / "tokenizer.json").write_text('{"version": 1}')
    shutil.copy(folders["gpt2"] / "config.json", tmp_path / "mixed" / "config.json")
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_bytes(b"\x00\x01")
    writing = tmp_path / "writing"
    shutil.copytree(folders["tuned"], writing)
    (writing / "model.safetensors").unlink()
    return tmp_path


NAMES = ("good", "truncated", "random_bytes", "config", "tokenizer", "mixed", "empty", "file", "writing", "missing")


def test_intact_model_is_served(broken):
    with serving(*(broken / name for name in NAMES)) as server:
        ready = server.get("/ready")
        assert ready.status == 200 and ready.json["models"] == ["good"]
        problems = ready.json["problems"]
        assert problems.keys() == set(NAMES) - {"good"} and all(problems.values())
        assert "does not exist" in problems["missing"]
        assert server.post("embeddings", model="good", input="a").status == 200
        assert server.post("embeddings", input="a").status == 200
        reply = server.post("embeddings", model="truncated", input="a")
        assert reply.status == 404 and reply.error["code"] == "model_not_ready"
        assert reply.error["message"].endswith(problems["truncated"])


def test_repaired_directory_is_served(broken, folders):
    with serving(broken / "good", broken / "writing", broken / "missing") as server:
        models = server.server.service.models
        shutil.copy(folders["tuned"] / "model.safetensors", broken / "writing")
        shutil.copytree(folders["gpt2"], broken / "missing")
        models.refresh()
        assert server.get("/ready").json == {
            "status": "ready",
            "models": ["good", "writing", "missing"],
            "problems": {},
        }
        assert server.post("completions", model="missing", prompt="a", max_tokens=2).status == 200
        shutil.rmtree(broken / "good")
        shutil.copy(folders["bert"] / "model.safetensors", broken / "missing" / "model.safetensors")
        models.refresh()
        ready = server.get("/ready").json
        assert "was deleted" in ready["problems"]["good"] and "has changed" in ready["problems"]["missing"]
        for name in ready["models"]:  # from memory
            assert server.post("embeddings", model=name, input="the old bank").status == 200


def test_overwritten_weights_do_not_affect_the_loaded_model(broken):
    with serving(broken / "good") as server:
        before = server.post("embeddings", input="the old bank").body
        with (broken / "good" / "model.safetensors").open("r+b") as file:
            file.truncate(100)
        assert server.post("embeddings", input="the old bank").body == before


def test_no_model(broken):
    with serving(broken / "truncated") as server:
        ready = server.get("/ready")
        assert ready.status == 503 and ready.json["status"] == "no_models"
        assert server.get("/health").status == 200
        assert server.post("embeddings", input="a").status == 422


def test_names_are_unique(tmp_path):
    for place in ("a/bert", "b/bert", "b/gpt"):
        (tmp_path / place).mkdir(parents=True)
    models = ModelRegistry([tmp_path / "a/bert", tmp_path / "b/bert", tmp_path / "b/gpt", tmp_path / "b/gpt"])
    assert [served.name for served in models.models] == ["a/bert", "b/bert", "gpt"]


def test_run_is_updated_live(folders, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(folders["tuned"], run)
    with serving(run, folders["bert"]) as server:
        (summary,) = server.get("/v1/runs").json  # the other directory has no history
        assert summary["name"] == "run" and summary["family"] == "bert" and not summary["training"]
        assert all(name.removeprefix("dev ").startswith("my-") for name in summary["metrics"]), "no times"
        rows = server.get("/v1/runs/run").json["history"]
        assert rows[-1]["step"] == summary["steps_done"] and server.get("/v1/runs/run").json["scores"]
        last = {**rows[-1], "step": rows[-1]["step"] + 7, "loss": float("nan")}
        with (run / "history.jsonl").open("a") as file:
            file.write(json.dumps(last) + "\n" + '{"step": NaN, "tokens": 1, "seconds": 1}\n{"step": 9, "tok')
        details = server.get("/v1/runs/run").json
        assert details["history"][-1]["step"] == last["step"], "rows that are invalid or truncated are skipped"
        assert details["history"][-1]["loss"] is None, "NaN becomes null"
        assert server.get("/v1/runs").json[0]["steps_done"] == last["step"]
        (run / "probe.svg").write_text("<svg/>")
        assert server.get("/v1/runs/run").json["probe_charts"] == {"probe.svg": "<svg/>"}
        assert server.get("/v1/runs/bert").status == server.get("/v1/runs/nobody").status == 404
        shutil.rmtree(run)
        assert server.get("/v1/runs").status == 200


def test_lock_of_a_live_process_means_training(tmp_path):
    assert not is_training(tmp_path)
    (tmp_path / "run.lock").write_text(str(os.getpid()))
    assert is_training(tmp_path)
    (tmp_path / "run.lock").write_text("99999999")
    assert not is_training(tmp_path)
    (tmp_path / "run.lock").write_text("nobody")
    assert not is_training(tmp_path)


def test_run_in_training_is_described_as_such(folders, tmp_path):
    """And not as one to resume, until its process is gone."""
    run = tmp_path / "run"
    shutil.copytree(folders["tuned"], run)
    (run / "model.safetensors").unlink()
    (run / "run.lock").write_text(str(os.getpid()))
    with serving(run, folders["bert"]) as server:
        (problem,) = server.get("/ready").json["problems"].values()
        assert "is being trained" in problem and "resume" not in problem
        assert "is being trained" in server.post("embeddings", model="run", input="a").error["message"]
        (run / "run.lock").write_text("99999999")
        server.server.service.models.refresh()
        assert "--resume" in server.get("/ready").json["problems"]["run"]


def test_reports(folders, tmp_path):
    comparison = tmp_path / "comparison"
    shutil.copytree(folders["tuned"], comparison / "runs" / "bert")
    (comparison / "report.html").write_text("<!doctype html><p>results</p><script>1</script>")
    found, reports = find_reports([comparison, folders["gpt2"]])
    assert found == [comparison / "runs" / "bert", folders["gpt2"]] and list(reports) == ["comparison"]
    with serving(*found, reports=reports) as server:
        assert server.get("/v1/reports").json == [{"name": "comparison"}]
        page = server.get("/v1/reports/comparison")
        assert b"results" in page.body and page.headers["content-type"].startswith("text/html")
        policy = page.headers["content-security-policy"]
        assert "sandbox" in policy and "default-src 'none'" in policy and "frame-ancestors 'self'" in policy
        assert server.get("/v1/reports/nobody").status == 404
        (comparison / "report.html").unlink()
        assert server.get("/v1/reports/comparison").status == 404


def test_slow_directory_does_not_block_requests(folders, monkeypatch):
    """Directories are checked in a thread of their own."""
    slow = threading.Event()

    def weights_version(self):
        slow.wait(60)
        return ()

    with serving(folders["bert"]) as server:
        monkeypatch.setattr(ServedModel, "weights_version", weights_version)
        checking = threading.Thread(target=server.server.service.models.refresh)
        checking.start()
        assert server.post("embeddings", input="a").status == 200
        assert checking.is_alive()
        slow.set()
        checking.join()
