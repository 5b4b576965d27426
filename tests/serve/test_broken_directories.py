"""Directories that are missing, being written, broken or gone are told of, and the others work."""

import json
import os
import shutil
import threading

import pytest
from asking import serving

from polyseme.serve.models import Models, Served
from polyseme.serve.runs import find_reports, is_training


@pytest.fixture
def broken(folders, tmp_path):
    """One of each kind of trouble, and a good one."""
    for name in ("good", "cut", "noise", "config", "tokenizer", "mixed"):
        shutil.copytree(folders["bert"], tmp_path / name)
    weights = tmp_path / "cut" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1000])
    (tmp_path / "noise" / "model.safetensors").write_bytes(b"\xff" * 5000)
    (tmp_path / "config" / "config.json").write_text("{")
    (tmp_path / "tokenizer" / "tokenizer.json").write_text('{"version": 1}')
    shutil.copy(folders["gpt2"] / "config.json", tmp_path / "mixed" / "config.json")
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_bytes(b"\x00\x01")
    writing = tmp_path / "writing"
    shutil.copytree(folders["tuned"], writing)
    (writing / "model.safetensors").unlink()
    return tmp_path


NAMES = ("good", "cut", "noise", "config", "tokenizer", "mixed", "empty", "file", "writing", "missing")


def test_the_good_one_is_served(broken):
    with serving(*(broken / name for name in NAMES)) as server:
        told = server.get("/ready")
        assert told.status == 200 and told.json["models"] == ["good"]
        assert told.json["problems"].keys() == set(NAMES) - {"good"}
        assert "has not ended" in told.json["problems"]["writing"]
        assert "cut short" in told.json["problems"]["cut"]
        assert "does not exist" in told.json["problems"]["missing"]
        assert server.post("embeddings", model="good", input="a").status == 200
        assert server.post("embeddings", input="a").status == 200  # the only one
        reply = server.post("embeddings", model="cut", input="a")
        assert (
            reply.status == 404 and reply.error["code"] == "model_not_ready" and "cut short" in reply.error["message"]
        )


def test_what_is_mended_is_served(broken, folders):
    with serving(broken / "good", broken / "writing", broken / "missing") as server:
        models = server.serving.models
        shutil.copy(folders["tuned"] / "model.safetensors", broken / "writing")
        shutil.copytree(folders["gpt2"], broken / "missing")
        models.check()
        assert server.get("/ready").json == {
            "status": "ready",
            "models": ["good", "writing", "missing"],
            "problems": {},
        }
        assert server.post("completions", model="missing", prompt="a", max_tokens=2).status == 200
        shutil.rmtree(broken / "good")
        shutil.copy(folders["bert"] / "model.safetensors", broken / "missing" / "model.safetensors")
        models.check()
        told = server.get("/ready").json
        assert "has gone" in told["problems"]["good"] and "has changed" in told["problems"]["missing"]
        for name in told["models"]:  # from memory, whatever lies on the disk
            assert server.post("embeddings", model=name, input="the old bank").status == 200


def test_a_file_that_is_overwritten_while_it_is_served(broken):
    with serving(broken / "good") as server:
        before = server.post("embeddings", input="the old bank").body
        with (broken / "good" / "model.safetensors").open("r+b") as file:
            file.truncate(100)
        assert server.post("embeddings", input="the old bank").body == before


def test_nothing_at_all(broken):
    with serving(broken / "cut") as server:
        told = server.get("/ready")
        assert told.status == 503 and told.json["status"] == "nothing is served"
        assert server.get("/health").status == 200
        assert server.post("embeddings", input="a").status == 422


def test_names(tmp_path):
    for place in ("a/bert", "b/bert", "b/gpt"):
        (tmp_path / place).mkdir(parents=True)
    models = Models([tmp_path / "a/bert", tmp_path / "b/bert", tmp_path / "b/gpt", tmp_path / "b/gpt"])
    assert [served.name for served in models.all] == ["a/bert", "b/bert", "gpt"]


def test_runs_live(folders, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(folders["tuned"], run)
    with serving(run, folders["bert"]) as server:
        (told,) = server.get("/v1/runs").json  # the other is a model of which nothing more is known
        assert told["name"] == "run" and told["family"] == "bert" and not told["training"]
        assert all(name.removeprefix("dev ").startswith("my-") for name in told["figures"]), "no times"
        rows = server.get("/v1/runs/run").json["history"]
        assert rows[-1]["step"] == told["done"] and server.get("/v1/runs/run").json["scores"]
        last = {**rows[-1], "step": rows[-1]["step"] + 7, "loss": 1.5}
        with (run / "history.jsonl").open("a") as file:
            file.write(json.dumps(last) + "\n" + '{"step": NaN, "tokens": 1, "seconds": 1}\n{"step": 9, "tok')
        told = server.get("/v1/runs/run").json  # which has no NaN in it
        assert told["history"][-2]["step"] == last["step"] and told["history"][-1]["step"] is None
        (run / "probe.svg").write_text("<svg/>")
        assert server.get("/v1/runs/run").json["probe"] == {"probe.svg": "<svg/>"}
        assert server.get("/v1/runs/bert").status == server.get("/v1/runs/nobody").status == 404
        shutil.rmtree(run)
        assert server.get("/v1/runs").status == 200


def test_who_trains(tmp_path):
    assert not is_training(tmp_path)
    (tmp_path / "run.lock").write_text(str(os.getpid()))
    assert is_training(tmp_path)
    (tmp_path / "run.lock").write_text("99999999")
    assert not is_training(tmp_path)
    (tmp_path / "run.lock").write_text("nobody")
    assert not is_training(tmp_path)


def test_reports(folders, tmp_path):
    comparison = tmp_path / "race"
    shutil.copytree(folders["tuned"], comparison / "runs" / "bert")
    (comparison / "report.html").write_text("<!doctype html><p>races</p><script>1</script>")
    found, reports = find_reports([comparison, folders["gpt2"]])
    assert found == [comparison / "runs" / "bert", folders["gpt2"]] and list(reports) == ["race"]
    with serving(*found, reports=reports) as server:
        assert server.get("/v1/reports").json == [{"name": "race"}]
        page = server.get("/v1/reports/race")
        assert b"races" in page.body and page.headers["content-type"].startswith("text/html")
        policy = page.headers["content-security-policy"]
        assert "sandbox" in policy and "default-src 'none'" in policy and "frame-ancestors 'self'" in policy
        assert server.get("/v1/reports/nobody").status == 404
        (comparison / "report.html").unlink()
        assert server.get("/v1/reports/race").status == 404


def test_opening_does_not_hold_up_those_who_ask(folders, monkeypatch):
    """A directory that opens slowly is looked at in a thread of its own."""
    slow = threading.Event()

    def look(self):
        slow.wait(60)
        return ()

    with serving(folders["bert"]) as server:
        monkeypatch.setattr(Served, "look", look)
        checking = threading.Thread(target=server.serving.models.check)
        checking.start()
        assert server.post("embeddings", input="a").status == 200
        assert checking.is_alive()
        slow.set()
        checking.join()
