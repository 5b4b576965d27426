"""Whole comparisons: the same twice, whatever befalls them, and nothing begun that cannot end."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

import polyseme as ps
from polyseme.cli import run
from polyseme.comparison import pacing, race
from polyseme.comparison.race import LOCK, Race
from polyseme.comparison.results import RESULTS, read_rows
from polyseme.comparison.sizing import Chosen
from polyseme.errors import CheckpointError, ConfigError, DataError
from polyseme.train.recipe import Recipe
from polyseme.train.run import lock_folder

# What differs from one run to the next.
TIMINGS = {"seconds", "processor_seconds", "tokens_per_second", "preparation_seconds", "embedding_seconds"}
OTHERS = {"peak_bytes", "command", "date"}


def told(text, folder, **values):
    usual = {"corpus": [str(text)], "families": ["svd", "bert"], "budget": "12steps", "size": "tiny", "cores": 1}
    return {**usual, "tasks": str(folder), "labels": [20], **values}


def compared(values, out):
    found = Race.open(values, out)
    return list(found.run())


def plain(out):
    """The rows without what is a matter of the clock."""

    def without(value):
        if isinstance(value, dict):
            return {name: without(part) for name, part in value.items() if name not in TIMINGS | OTHERS}
        return [without(part) for part in value] if isinstance(value, list) else value

    return [without(row) for row in read_rows(out) if row["row"] != "done"]


@pytest.fixture(scope="module")
def finished(text, tasks, tmp_path_factory):
    """A comparison of two families, one of which cannot be trained, and how it went."""
    place = tmp_path_factory.mktemp("finished")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("POLYSEME_CACHE", str(place / "cache"))
        out = place / "out"
        opened = Race.open(told(text, tasks, families=["gpt2", "svd", "bert"]), out)
        (out / "runs" / "gpt2").mkdir(parents=True)
        (out / "runs" / "gpt2" / "something").write_text("else")
        yield out, list(opened.run())


def test_every_kind_of_row_is_there(finished):
    out, events = finished
    rows = read_rows(out)
    kinds = {row["row"] for row in rows}
    assert kinds == {
        "comparison",
        "family",
        "curve",
        "figure",
        "task",
        "neighbours",
        "ambiguous",
        "senses",
        "example",
        "failure",
        "done",
    }
    (whole,) = [row for row in rows if row["row"] == "comparison"]
    assert whole["families"] == ["gpt2", "svd", "bert"] and len(whole["scored_sha256"]) == 64
    assert whole["documents"]["train"] + whole["documents"]["dev"] + whole["documents"]["test"] == 400
    assert whole["tasks"][0]["name"] == "topics" and whole["tasks"][0]["test"] == 24
    families = {row["family"]: row for row in rows if row["row"] == "family"}
    assert families["svd"]["ends"] == "by itself" and families["svd"]["context"] == "none"
    assert families["bert"]["ends"] == "budget" and families["bert"]["steps"] == 12
    assert families["bert"]["command"].startswith("polyseme pretrain bert --corpus ")
    for row in families.values():
        assert row["peak_bytes"] > 10**7 and row["disk_bytes"] > 1000 and row["parameters"] > 1000
        assert row["processor_seconds"] > 0 and row["embedding_seconds"] > 0
    figures = {(row["family"], row["measure"], row["name"]): row for row in rows if row["row"] == "figure"}
    assert figures["svd", "senses", "pseudo-words"]["value"] == pytest.approx(0.5, abs=0.03)  # it knows no context
    assert figures["bert", "likelihood", "test text, uncased"]["scale"] == "masked"
    assert all(row["error"] > 0 for key, row in figures.items() if key[1] in ("likelihood", "minimal-pairs"))
    methods = {(row["family"], row["method"]) for row in rows if row["row"] == "task"}
    assert methods == {(family, method) for family in ("svd", "bert") for method in ("linear", "full")}
    assert {row["labels"] for row in rows if row["row"] == "task"} == {20}
    assert events[-1].what == "writing the report" and (out / "report.md").exists()


def test_a_family_that_fails_does_not_lose_the_others(finished):
    out, events = finished
    (failure,) = [row for row in read_rows(out) if row["row"] == "failure"]
    assert failure["family"] == "gpt2" and failure["stage"] == "training" and "is not empty" in failure["message"]
    assert any("gpt2 failed" in event.news for event in events)


def test_no_family_learns_from_what_it_is_measured_on(finished):
    from polyseme.comparison.splitting import Split, position
    from polyseme.text.store import prepare
    from polyseme.text.tokenizer import Tokenizer
    from polyseme.train.texts import open_corpora

    out, _ = finished
    split = Split(folder=out / "text", languages=("",))
    kept = {position(text) for side in ("dev", "test") for _, text in split.documents(side)}
    for family in ("svd", "bert"):
        recipe = Recipe.load(out / "runs" / family)
        corpus, _ = open_corpora(recipe)
        assert kept and not kept & {position(document) for document in corpus}
        assert prepare(corpus, Tokenizer.load(out / "runs" / family)).num_documents == sum(1 for _ in corpus)


def test_going_on_does_nothing_twice(finished, text, tasks, monkeypatch):
    out, _ = finished
    before = (out / RESULTS).read_text()
    monkeypatch.setattr(race, "train", lambda jobs, interruption: iter(()))
    compared(told(text, tasks, families=["gpt2", "svd", "bert"]), out)
    kept = [line for line in before.splitlines(keepends=True) if '"failed"' not in line and '"failure"' not in line]
    assert (out / RESULTS).read_text() == "".join(kept)


def test_models_that_are_there(finished, text, tmp_path):
    out, _ = finished
    report = ps.compare(
        out / "runs" / "bert", out / "runs" / "svd", corpus=out / "text" / "dev.jsonl", out=tmp_path / "a", seed=1
    )
    rows = read_rows(tmp_path / "a")
    assert report.exists() and not (tmp_path / "a" / "runs").exists()
    families = [row for row in rows if row["row"] == "family"]
    assert [row["family"] for row in families] == ["bert", "svd"] and [row["overlap"] for row in families] == [0.0, 0.0]
    assert any(row["row"] == "figure" and row["measure"] == "likelihood" for row in rows)
    again = tmp_path / "b"
    compared({"corpus": [str(out / "text" / "train.jsonl")], "models": [str(out / "runs" / "svd")]}, again)
    assert next(row for row in read_rows(again) if row["row"] == "family")["overlap"] == 1.0


WRONG = {
    "an unknown family": ({"families": ["brt"]}, ConfigError, "'brt' is not a family; did you mean bert"),
    "a family twice": ({"families": ["bert", "bert"]}, ConfigError, "named twice"),
    "a family that translates": ({"families": ["cove"]}, ConfigError, "translations and vectors.*pretrain cove"),
    "no family": ({"families": []}, ConfigError, "nothing to compare"),
    "an unknown size": ({"size": "huge"}, ConfigError, "'huge' is not a size"),
    "a wrong budget": ({"budget": "soon"}, ConfigError, "'soon' is no budget"),
    "an unknown setting": ({"bugdet": "5m"}, ConfigError, "did you mean compare.budget"),
    "no text": ({"corpus": ["nowhere.txt"]}, DataError, "nowhere.txt"),
    "no tasks": ({"tasks": "nowhere"}, DataError, "nowhere cannot be read"),
    "too many parameters": ({"params": "lots", "size": "auto"}, ConfigError, "500k or 2M"),
    "no model": ({"families": [], "models": ["nowhere"]}, CheckpointError, "nowhere"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_wrong_is_said_before_anything_begins(wrong, text, tasks, tmp_path):
    values, kind, said = WRONG[wrong]
    with pytest.raises(kind, match=said):
        Race.open(told(text, tasks, **values), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_too_little_text_is_said_before_anything_begins(tasks, tmp_path):
    (tmp_path / "few.txt").write_text("\n\n".join(f"Document {n}." for n in range(9)))
    with pytest.raises(DataError, match="9 documents"):
        Race.open(told(tmp_path / "few.txt", tasks), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_sample_is_not_hidden_by_what_is_made_of_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CheckpointError, match="--out town would hide the sample"):
        Race.open({"corpus": ["town"], "families": ["svd"]}, Path("town"))
    assert not Path("town").exists()


def test_a_full_disk_is_said_before_training(text, tasks, tmp_path, monkeypatch):
    monkeypatch.setattr("polyseme.files.shutil.disk_usage", lambda path: type("Usage", (), {"free": 10**6}))
    opened = Race.open(told(text, tasks), tmp_path / "out")
    monkeypatch.setattr(race, "train", lambda jobs, interruption: pytest.fail("it trains"))
    with pytest.raises(CheckpointError, match="MB are needed"):
        list(opened.run())
    monkeypatch.setattr("polyseme.files.shutil.disk_usage", lambda path: type("Usage", (), {"free": 10}))
    with pytest.raises(CheckpointError, match="are needed and 10 bytes are free"):
        Race.open(told(text, tasks), tmp_path / "other")


def test_a_folder_is_for_one_comparison(text, tasks, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "thesis.txt").write_text("mine")
    with pytest.raises(CheckpointError, match="holds something else"):
        Race.open(told(text, tasks), out)
    (out / "thesis.txt").unlink()
    opened = Race.open(told(text, tasks), out)
    with pytest.raises(CheckpointError, match=f"in use by process {os.getpid()}"):
        Race.open(told(text, tasks), out)
    opened._lock.close()
    with pytest.raises(CheckpointError, match="budget = 12steps, not 13steps"):
        Race.open(told(text, tasks, budget="13steps"), out)
    lock_folder(out, LOCK).close()


def test_the_command_says_it_in_one_line(text, tmp_path, capsys):
    code = run(["compare", "--corpus", str(text), "--families", "brt", "--out", str(tmp_path / "out")])
    said = capsys.readouterr()
    assert code == 2 and said.err == "polyseme: 'brt' is not a family; did you mean bert?\n" and not said.out


def command(text, tasks, out):
    """A comparison of three families as its user starts it, on one core: threads of tiny models wait for each other."""
    families = ["--families", "onehot,svd,bert", "--budget", "40steps", "--size", "tiny", "--labels", "20"]
    options = ["--corpus", text, *families, "--tasks", tasks, "--out", out, "--json"]
    core = min(os.sched_getaffinity(0))
    program = f"import os; os.sched_setaffinity(0, {{{core}}}); from polyseme.__main__ import main; main()"
    return [sys.executable, "-c", program, "compare", *map(str, options)]


@pytest.mark.slow
def test_killed_in_the_third_family_it_ends_as_if_it_had_not_been(text, tasks, tmp_path):
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    broken, whole = tmp_path / "broken", tmp_path / "whole"
    process = subprocess.Popen(command(text, tasks, broken), **quiet)
    history = broken / "runs" / "bert" / "history.jsonl"
    while not history.exists() and process.poll() is None:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert [row["family"] for row in read_rows(broken) if row["row"] == "family"] == ["onehot", "svd"]
    assert not (broken / "runs" / "bert" / "model.safetensors").exists()
    for out in (broken, whole):
        ended = subprocess.run(command(text, tasks, out), capture_output=True, text=True)
        assert ended.returncode == 0, ended.stderr
    assert plain(broken) == plain(whole)
    printed = [json.loads(line) for line in ended.stdout.splitlines()]
    assert printed == [row for row in read_rows(whole) if row["row"] != "done"]
    assert "next: polyseme serve" in ended.stderr


@pytest.mark.slow
def test_a_run_is_fitted_to_its_budget_and_repeated_by_its_command(text, tasks, tmp_path, monkeypatch):
    """However wrong it was tried, here three times too slow; the same comparison again takes the same steps."""
    monkeypatch.setenv("POLYSEME_CACHE", str(tmp_path / "cache"))
    tried = pacing._ask_child

    def mistaken(*asked):
        found = tried(*asked)
        return replace(found, step=3 * found.step)

    monkeypatch.setattr(pacing, "_ask_child", mistaken)
    values = told(text, tasks, families=["bert"], budget="6s")
    for name in ("first", "second"):
        compared(values, tmp_path / name)
    assert plain(tmp_path / "first") == plain(tmp_path / "second")
    first, second = (
        next(row for row in read_rows(tmp_path / name) if row["row"] == "family") for name in ("first", "second")
    )
    plans = [Recipe.load(tmp_path / name / "runs" / "bert").plan for name in ("first", "second")]
    assert first["steps"] == plans[0].marks[-1] and plans[0].marks == plans[1].marks
    assert plans[0].processor_seconds == 6 and not plans[1].processor_seconds
    assert first["steps"] > 2 * plans[0].steps
    assert first["processor_seconds"] == pytest.approx(6, rel=0.25)  # a busy machine has its say in the last tenth
    assert first["command"].replace(str(tmp_path / "first"), str(tmp_path / "second")) == second["command"]
    assert "plan.marks=[" in first["command"] and "processor_seconds" not in first["command"]


@pytest.mark.slow
def test_interrupted_it_saves_and_goes_on(text, tasks, tmp_path):
    """A first SIGTERM ends trainings properly, all that are side by side; what they saved is taken up."""
    out = tmp_path / "out"
    options = ["--corpus", text, "--families", "bert,gpt2", "--parallel", 2, "--budget", "2000steps", "--size", "tiny"]
    line = [sys.executable, "-m", "polyseme", "compare", *map(str, options), "--out", str(out)]
    process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    runs = [out / "runs" / family for family in ("bert", "gpt2")]
    while not all((run / "history.jsonl").exists() for run in runs) and process.poll() is None:
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=240)
    assert process.returncode == 130 and "the same command goes on" in said and "Traceback" not in said
    assert all(list((run / "checkpoints").iterdir()) for run in runs)
    assert not [row for row in read_rows(out) if row["row"] in ("family", "failure")]


def test_paces_are_found_side_by_side(text, tmp_path, monkeypatch):
    monkeypatch.setenv("POLYSEME_CACHE", str(tmp_path / "cache"))
    both = threading.Barrier(2, timeout=60)  # which one after the other would never pass

    def ask(recipe, *_):
        both.wait()
        return pacing.Pace(
            step=0.1, start=0.1, step_tokens=100, corpus_tokens=10**6, vocab_size=99, parameters=99,
            inner_parameters=9, own_steps=0, preparation=0.1,
        )  # fmt: skip

    monkeypatch.setattr(pacing, "_ask_child", ask)
    values = {"corpus": [str(text)], "families": ["bert", "gpt2"], "budget": "4s", "size": "tiny", "parallel": 2}
    race = Race.open({**values, "cores": 2}, tmp_path / "out")
    list(race._prepare())
    race._lock.close()
    assert [race.chosen[family].steps for family in ("bert", "gpt2")] == [79, 79]


def test_who_ends_early_leaves_no_other_alone(text, tmp_path):
    race = Race.open(
        {"corpus": [str(text)], "families": ["svd", "bert", "gpt2", "elmo"], "parallel": 2}, tmp_path / "a"
    )
    race._lock.close()
    pace = pacing.Pace(
        step=0.1, start=0.1, step_tokens=100, corpus_tokens=10**6, vocab_size=99, parameters=99, inner_parameters=9,
        own_steps=0, preparation=0.1,
    )  # fmt: skip
    race.chosen = {
        name: Chosen(size="tiny", rule="", steps=5, pace=replace(pace, own_steps=5 if name == "svd" else 0))
        for name in race.settings.families
    }
    assert race._side_by_side() == [["svd"], ["bert", "gpt2"], ["elmo"]]


@pytest.mark.slow
def test_while_a_pace_is_found_it_stops_at_once(text, tmp_path):
    """There is nothing to save then, and it would take a minute for each size."""
    environment = {**os.environ, "POLYSEME_CACHE": str(tmp_path / "cache")}
    line = [sys.executable, "-m", "polyseme", "compare", "--corpus", str(text), "--families", "bert", "--budget", "1h"]
    with subprocess.Popen(
        [*line, "--out", str(tmp_path / "out")], stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        while "pace" not in process.stderr.readline():
            assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=40)
    assert process.returncode == 130 and "the same command goes on" in said and "Traceback" not in said
