"""Whole comparisons: reproducible, resumable after any interruption, and checked before anything is written."""

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
from tests.comparison.train.test_model_size import trial

import polyseme as ps
from polyseme.cli import run
from polyseme.comparison import runner
from polyseme.comparison.config import TrainingRun
from polyseme.comparison.results import RESULTS, read_rows
from polyseme.comparison.runner import LOCK, Comparison
from polyseme.comparison.train import throughput
from polyseme.comparison.train.model_size import TrainingPlan
from polyseme.datasets.splits import SplitCorpus, hash_fraction
from polyseme.errors import CheckpointError, ConfigError, DataError
from polyseme.training.recipes.recipe import Recipe
from polyseme.training.storage.run_dir import lock_folder

# Fields that differ between runs.
TIMINGS = {"seconds", "processor_seconds", "tokens_per_second", "preparation_seconds", "embedding_seconds"}
TIMINGS |= {"inference_seconds"}
OTHERS = {"peak_memory_bytes", "command", "date"}


def settings(text, folder, **values):
    defaults = {"corpus": [str(text)], "families": ["svd", "bert"], "budget": "12steps", "size": "tiny", "cores": 1}
    return {**defaults, "tasks": str(folder), "labels": [20], **values}


def run_comparison(values, out):
    return list(Comparison.open(values, out).run())


def reproducible_rows(out):
    """The rows without timings."""

    def without(value):
        if isinstance(value, dict):
            return {name: without(part) for name, part in value.items() if name not in TIMINGS | OTHERS}
        return [without(part) for part in value] if isinstance(value, list) else value

    return [without(row) for row in read_rows(out) if row["row"] != "done"]


def family_rows(out):
    return {row["family"]: row for row in read_rows(out) if row["row"] == "family"}


@pytest.fixture(scope="module")
def finished(text, tasks, tmp_path_factory):
    """A comparison of three families, one of which cannot be trained, and its progress."""
    folder = tmp_path_factory.mktemp("finished")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("POLYSEME_CACHE", str(folder / "cache"))
        out = folder / "out"
        comparison = Comparison.open(settings(text, tasks, families=["gpt2", "svd", "bert"]), out)
        (out / "runs" / "gpt2").mkdir(parents=True)
        (out / "runs" / "gpt2" / "something").write_text("else")
        yield out, list(comparison.run())


def test_outcomes_of_the_same_test_items_are_recorded(finished):
    """For all families; their mean is the metric."""
    out, _ = finished
    number_of_items, checked = {}, set()
    for row in read_rows(out):
        if row["row"] not in ("task", "metric"):
            continue
        measured = row.get("task") or row["suite"], row.get("method") or row["name"], row.get("num_labels")
        outcomes, value = row["outcomes"], row.get("mean", row.get("value"))
        assert number_of_items.setdefault(measured, len(outcomes)) == len(outcomes)
        assert sum(outcomes) / len(outcomes) == pytest.approx(value, abs=1e-3), measured
        checked.add(row.get("kind") or row["suite"])
    assert checked >= {"classify", "likelihood", "minimal-pairs", "senses"}
    assert (out / RESULTS).stat().st_size < 2_000_000


def test_results_have_rows_of_every_kind(finished):
    out, events = finished
    rows = read_rows(out)
    assert {row["row"] for row in rows} == {
        "comparison",
        "family",
        "learning_curve",
        "metric",
        "task",
        "neighbours",
        "ambiguous_words",
        "sense_map",
        "example",
        "failure",
        "done",
    }
    (comparison,) = [row for row in rows if row["row"] == "comparison"]
    assert comparison["families"] == ["gpt2", "svd", "bert"] and len(comparison["scored_sha256"]) == 64
    assert sum(comparison["documents"].values()) == 400
    assert comparison["tasks"][0]["name"] == "topics" and comparison["tasks"][0]["test"] == 24
    families = family_rows(out)
    assert families["svd"]["stopped_by"] == "completion" and families["svd"]["context"] == "none"
    assert families["bert"]["stopped_by"] == "budget" and families["bert"]["steps"] == 12
    assert families["bert"]["command"].startswith("polyseme pretrain bert --corpus ")
    for row in families.values():
        assert row["peak_memory_bytes"] > 10**7 and row["disk_bytes"] > 1000 and row["parameters"] > 1000
        assert row["processor_seconds"] > 0 and row["embedding_seconds"] > 0
    metrics = {(row["family"], row["suite"], row["name"]): row for row in rows if row["row"] == "metric"}
    assert metrics["svd", "senses", "pseudo-words"]["value"] == pytest.approx(0.5, abs=0.03)  # static vectors
    assert metrics["bert", "likelihood", "test text, uncased"]["scale"] == "masked"
    with_errors = [row for (_, suite, _), row in metrics.items() if suite in ("likelihood", "minimal-pairs")]
    assert with_errors and all(row["standard_error"] > 0 for row in with_errors)
    options = {(row["family"], row["method"]) for row in rows if row["row"] == "task"}
    methods = ("linear_probe", "linear_probe_with_tfidf", "fine_tuning")
    of_families = {(family, method) for family in ("svd", "bert") for method in methods}
    assert options == {("tfidf", "linear_probe"), *of_families}
    assert {row["num_labels"] for row in rows if row["row"] == "task"} == {20}
    assert events[-1].activity == "writing the report" and (out / "report.md").exists()


def test_a_failed_family_does_not_stop_the_others(finished):
    out, events = finished
    (failure,) = [row for row in read_rows(out) if row["row"] == "failure"]
    assert failure["family"] == "gpt2" and failure["stage"] == "training" and "is not empty" in failure["message"]
    assert any("gpt2 failed" in event.message for event in events)


def test_no_family_is_trained_on_held_out_text(finished):
    from polyseme.datasets.token_store import build_or_load_store
    from polyseme.tokenization.tokenizer import Tokenizer
    from polyseme.training.data_pipeline import open_corpora

    out, _ = finished
    split = SplitCorpus(folder=out / "text", languages=("",))
    held_out = {hash_fraction(text) for name in ("dev", "test") for _, text in split.documents(name)}
    for family in ("svd", "bert"):
        corpus, _ = open_corpora(Recipe.load(out / "runs" / family))
        assert held_out and not held_out & {hash_fraction(document) for document in corpus}
        store = build_or_load_store(corpus, Tokenizer.load(out / "runs" / family))
        assert store.num_documents == sum(1 for _ in corpus)


def test_resuming_repeats_only_failed_stages(finished, text, tasks, monkeypatch):
    out, _ = finished
    before = (out / RESULTS).read_text()
    monkeypatch.setattr(runner, "run_jobs", lambda jobs, shutdown: iter(()))
    run_comparison(settings(text, tasks, families=["gpt2", "svd", "bert"]), out)
    done = [line for line in before.splitlines(keepends=True) if '"failed"' not in line and '"failure"' not in line]
    assert (out / RESULTS).read_text() == "".join(done)


def test_comparing_existing_models(finished, text, tmp_path):
    out, _ = finished
    report = ps.compare(
        out / "runs" / "bert", out / "runs" / "svd", corpus=out / "text" / "dev.jsonl", out=tmp_path / "a", seed=1
    )
    assert report.exists() and not (tmp_path / "a" / "runs").exists()
    families = family_rows(tmp_path / "a")
    assert {family: row["training_overlap"] for family, row in families.items()} == {"bert": 0.0, "svd": 0.0}
    assert any(row["row"] == "metric" and row["suite"] == "likelihood" for row in read_rows(tmp_path / "a"))
    again = tmp_path / "b"
    run_comparison({"corpus": [str(out / "text" / "train.jsonl")], "models": [str(out / "runs" / "svd")]}, again)
    assert family_rows(again)["svd"]["training_overlap"] == 1.0


INVALID = {
    "unknown family": ({"families": ["brt"]}, ConfigError, "'brt' is not a family; did you mean bert"),
    "repeated family": ({"families": ["bert", "bert"]}, ConfigError, "listed twice"),
    "translation model": ({"families": ["cove"]}, ConfigError, "parallel text.*pretrain cove"),
    "no family": ({"families": []}, ConfigError, "nothing to compare"),
    "unknown size": ({"size": "huge"}, ConfigError, "'huge' is not a size"),
    "invalid budget": ({"budget": "soon"}, ConfigError, "'soon'"),
    "unknown setting": ({"bugdet": "5m"}, ConfigError, "did you mean compare.budget"),
    "missing text": ({"corpus": ["nowhere.txt"]}, DataError, "nowhere.txt"),
    "missing tasks": ({"tasks": "nowhere"}, DataError, "nowhere cannot be read"),
    "invalid number of parameters": ({"params": "lots", "size": "auto"}, ConfigError, "500k or 2M"),
    "missing model": ({"families": [], "models": ["nowhere"]}, CheckpointError, "nowhere"),
}


@pytest.mark.parametrize("case", INVALID)
def test_invalid_settings_are_reported_before_anything_is_written(case, text, tasks, tmp_path):
    values, kind, message = INVALID[case]
    with pytest.raises(kind, match=message):
        Comparison.open(settings(text, tasks, **values), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_too_little_text_is_reported_before_anything_is_written(tasks, tmp_path):
    (tmp_path / "few.txt").write_text("\n\n".join(f"Document {n}." for n in range(9)))
    with pytest.raises(DataError, match="9 documents"):
        Comparison.open(settings(tmp_path / "few.txt", tasks), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_output_folder_may_not_shadow_a_built_in_sample(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CheckpointError, match="--out town would shadow the built-in sample"):
        Comparison.open({"corpus": ["town"], "families": ["svd"]}, Path("town"))
    assert not Path("town").exists()


def test_a_full_disk_is_reported_before_training(text, tasks, tmp_path, monkeypatch):
    def set_free(num_bytes):
        usage = type("Usage", (), {"free": num_bytes})
        monkeypatch.setattr("polyseme.system.atomic_io.shutil.disk_usage", lambda path: usage)

    set_free(10**6)
    comparison = Comparison.open(settings(text, tasks), tmp_path / "out")
    monkeypatch.setattr(runner, "run_jobs", lambda jobs, shutdown: pytest.fail("training has started"))
    with pytest.raises(CheckpointError, match=r"MB .*free"):
        list(comparison.run())
    set_free(10)
    with pytest.raises(CheckpointError, match="10 bytes"):
        Comparison.open(settings(text, tasks), tmp_path / "other")


def test_a_folder_belongs_to_one_comparison(text, tasks, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "thesis.txt").write_text("mine")
    with pytest.raises(CheckpointError, match="not empty"):
        Comparison.open(settings(text, tasks), out)
    (out / "thesis.txt").unlink()
    comparison = Comparison.open(settings(text, tasks), out)
    with pytest.raises(CheckpointError, match=f"in use by process {os.getpid()}"):
        Comparison.open(settings(text, tasks), out)
    comparison._lock.release()
    with pytest.raises(CheckpointError, match="budget = 12steps, not 13steps"):
        Comparison.open(settings(text, tasks, budget="13steps"), out)
    lock_folder(out, LOCK).release()


def test_the_command_line_reports_errors_in_one_line(text, tmp_path, capsys):
    code = run(["compare", "--corpus", str(text), "--families", "brt", "--out", str(tmp_path / "out")])
    output = capsys.readouterr()
    assert code == 2 and output.err == "polyseme: 'brt' is not a family; did you mean bert?\n" and not output.out


def command(text, tasks, out):
    """The command line of a comparison of three families, on one core: threads of tiny models wait for each other."""
    families = ["--families", "onehot,svd,bert", "--budget", "40steps", "--size", "tiny", "--labels", "20"]
    options = ["--corpus", text, *families, "--tasks", tasks, "--out", out, "--json"]
    core = min(os.sched_getaffinity(0))
    program = f"import os; os.sched_setaffinity(0, {{{core}}}); from polyseme.__main__ import main; main()"
    return [sys.executable, "-c", program, "compare", *map(str, options)]


@pytest.mark.slow
def test_a_killed_comparison_resumes_to_the_same_results(text, tasks, tmp_path):
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    process = subprocess.Popen(command(text, tasks, killed), **quiet)
    history = killed / "runs" / "bert" / "history.jsonl"
    while not history.exists() and process.poll() is None:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert [*family_rows(killed)] == ["onehot", "svd"]
    assert not (killed / "runs" / "bert" / "model.safetensors").exists()
    for out in (killed, whole):
        ended = subprocess.run(command(text, tasks, out), capture_output=True, text=True)
        assert ended.returncode == 0, ended.stderr
    assert reproducible_rows(killed) == reproducible_rows(whole)
    printed = [json.loads(line) for line in ended.stdout.splitlines()]
    assert printed == [row for row in read_rows(whole) if row["row"] != "done"]
    assert "polyseme serve" in ended.stderr


@pytest.mark.slow
def test_a_killed_training_is_one_line_and_is_repeated(text, tmp_path):
    """The other families are measured all the same, and the same command trains the missing one."""
    out = tmp_path / "out"
    options = ["--corpus", text, "--families", "onehot,bert", "--budget", "60steps", "--size", "tiny", "--labels", 8]
    line = [sys.executable, "-m", "polyseme", "compare", *map(str, options), "--out", str(out)]
    process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    run = out / "runs" / "bert"
    while not (run / "history.jsonl").exists() and process.poll() is None:
        time.sleep(0.02)
    os.kill(int((run / "run.lock").read_text()), signal.SIGKILL)
    _, output = process.communicate(timeout=240)
    assert process.returncode == 1 and "Traceback" not in output
    assert "bert, training, failed: the process was killed" in output
    assert output.rstrip().endswith("run the same command again to repeat what failed")
    assert {*family_rows(out)} == {"onehot", "ngram"}
    ended = subprocess.run(line, capture_output=True, text=True)
    assert ended.returncode == 0 and "failed" not in ended.stderr, ended.stderr
    assert {*family_rows(out)} == {"onehot", "ngram", "bert"}


@pytest.mark.slow
def test_a_run_adapts_to_its_budget_and_its_command_repeats_it(text, tasks, tmp_path, monkeypatch):
    """However wrong the trial run is (here three times too slow); the second time, the steps are the same."""
    monkeypatch.setenv("POLYSEME_CACHE", str(tmp_path / "cache"))
    run_trial = throughput.run_trial

    def wrong_trial(*arguments):
        result = run_trial(*arguments)
        return replace(result, step_seconds=3 * result.step_seconds)

    monkeypatch.setattr(throughput, "run_trial", wrong_trial)
    values = settings(text, tasks, families=["bert"], budget="6s")
    for name in ("first", "second"):
        run_comparison(values, tmp_path / name)
    assert reproducible_rows(tmp_path / "first") == reproducible_rows(tmp_path / "second")
    first, second = (family_rows(tmp_path / name)["bert"] for name in ("first", "second"))
    configs = [Recipe.load(tmp_path / name / "runs" / "bert").training for name in ("first", "second")]
    assert first["steps"] == configs[0].milestones[-1] and configs[0].milestones == configs[1].milestones
    assert configs[0].processor_seconds == 6 and not configs[1].processor_seconds
    assert first["steps"] > 2 * configs[0].steps
    assert first["processor_seconds"] == pytest.approx(6, rel=0.25)  # load may change within the last tenth
    assert first["command"].replace(str(tmp_path / "first"), str(tmp_path / "second")) == second["command"]
    assert "training.milestones=[" in first["command"] and "processor_seconds" not in first["command"]


@pytest.mark.slow
def test_an_interrupted_comparison_saves_all_running_jobs(text, tmp_path):
    out = tmp_path / "out"
    options = ["--corpus", text, "--families", "bert,gpt2", "--parallel", 2, "--budget", "2000steps", "--size", "tiny"]
    line = [sys.executable, "-m", "polyseme", "compare", *map(str, options), "--out", str(out)]
    process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    runs = [out / "runs" / family for family in ("bert", "gpt2")]
    while not all((run / "history.jsonl").exists() for run in runs) and process.poll() is None:
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    _, output = process.communicate(timeout=240)
    assert process.returncode == 130 and "resume" in output and "Traceback" not in output
    assert all(list((run / "checkpoints").iterdir()) for run in runs)
    assert not [row for row in read_rows(out) if row["row"] in ("family", "failure")]


def test_trial_runs_of_a_group_are_parallel(text, tmp_path, monkeypatch):
    monkeypatch.setenv("POLYSEME_CACHE", str(tmp_path / "cache"))
    both = threading.Barrier(2, timeout=60)  # sequential trials would time out

    def run_trial(recipe, *_):
        both.wait()
        return trial(startup_seconds=0.1, step_tokens=100, corpus_tokens=10**6)

    monkeypatch.setattr(throughput, "run_trial", run_trial)
    values = {"corpus": [str(text)], "families": ["bert", "gpt2"], "budget": "4s", "size": "tiny", "parallel": 2}
    comparison = Comparison.open({**values, "cores": 2}, tmp_path / "out")
    list(comparison._prepare())
    comparison._lock.release()
    assert [comparison.plans[TrainingRun(family)].steps for family in ("bert", "gpt2")] == [79, 79]


def test_families_with_fixed_steps_are_not_trained_along_with_others(text, tmp_path):
    comparison = Comparison.open(
        {"corpus": [str(text)], "families": ["svd", "bert", "gpt2", "elmo"], "parallel": 2}, tmp_path / "a"
    )
    comparison._lock.release()
    comparison.plans = {
        run: TrainingPlan(size="tiny", reason="", steps=5, trial=trial(max_steps=5 if run.family == "svd" else 0))
        for run in comparison.settings.runs
    }
    groups = [[run.name for run in group] for group in comparison._training_groups()]
    assert groups == [["svd"], ["bert", "gpt2"], ["elmo"]]


@pytest.mark.slow
def test_an_interrupt_during_a_trial_run_stops_at_once(text, tmp_path):
    """There is nothing to save, and the trial could take a minute per size."""
    environment = {**os.environ, "POLYSEME_CACHE": str(tmp_path / "cache")}
    line = [sys.executable, "-m", "polyseme", "compare", "--corpus", str(text), "--families", "bert", "--budget", "1h"]
    with subprocess.Popen(
        [*line, "--out", str(tmp_path / "out")], stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        while "throughput" not in process.stderr.readline():
            assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        _, output = process.communicate(timeout=40)
    assert process.returncode == 130 and "resume" in output and "Traceback" not in output
