"""Real processes, interrupted at random moments and resumed: the final model is bit for bit the same.

Two families are killed in every test run. The campaign over all families, fine-tuning and comparisons is marked soak.
"""

import json
import math
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from tests.comparison.test_runner import reproducible_rows

from polyseme.families import FAMILIES

SHORT = ("bert", "gpt2")
STEPS = 60
KILLS = 4
FAR = 8  # steps after which a run is killed at the latest
CAMPAIGN_STEPS = 200
CAMPAIGN_KILLS = 10
CAMPAIGN_FAR = 20
SETTINGS = {
    "model.vocab_size": 400,
    "model.width": 32,
    "data.sequence_length": 32,
    "training.batch_tokens": 256,
    "training.save_every": 5,
    "training.threads": 1,
}


class Training:
    """A training command that is run repeatedly; runs in the same folder share a cache."""

    def __init__(self, out, *arguments, num_steps=STEPS):
        self.out = out
        self.cache = out.parent / "cache"
        self.num_steps = num_steps
        self.arguments = [*map(str, arguments), "--out", str(out), "--budget", f"{num_steps}steps"]

    @classmethod
    def pretraining(cls, family, corpus, out, *, num_steps=STEPS, settings=SETTINGS, options=()):
        sets = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
        arguments = ["pretrain", family, "--corpus", str(corpus), "--size", "tiny", *options, *sets]
        return cls(out, *arguments, num_steps=num_steps)

    def start(self, *more):
        command = [sys.executable, "-m", "polyseme", *self.arguments, *more]
        environment = {**os.environ, "POLYSEME_CACHE": str(self.cache), "TOKENIZERS_PARALLELISM": "false"}
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)

    def run(self, *more):
        process = self.start(*more)
        _, stderr = process.communicate(timeout=600)
        assert process.returncode == 0, stderr
        return stderr

    def reached(self):
        """The rows of the history, one per step."""
        history = self.out / "history.jsonl"
        return len(history.read_text().splitlines()) if history.exists() else 0

    def wait_for(self, process, step, *, seconds=math.inf):
        """Wait until the history has a row of that step, or for some seconds."""
        end = time.monotonic() + seconds
        while process.poll() is None and self.reached() < step and time.monotonic() < end:
            time.sleep(0.005)

    def wait_for_a_save(self, process, step):
        """Wait until a partial checkpoint of this process, and not of one before it, is seen; or until that step."""
        lock, folder = self.out / "run.lock", self.out / "checkpoints"
        while process.poll() is None and not (lock.exists() and lock.read_text() == str(process.pid)):
            time.sleep(0.02)
        while process.poll() is None and not any(folder.glob(".*.part")) and self.reached() < step:
            time.sleep(0.001)

    def wait_for_a_random_moment(self, process, rng, number, *, first, whole, far):
        """Wait for any moment, a random step, or the middle of a save, by the number of the interruption."""
        before = self.reached()
        if number % 3 == 2:
            self.wait_for_a_save(process, before + far)
        elif number % 3 == 1:
            self.wait_for(process, before + rng.randrange(1, far))
        else:
            # Any moment, importing torch included; but on a machine that is faster now than in the uninterrupted
            # run, the process would have finished.
            moment = rng.uniform(0, whole) if number else rng.uniform(0.3, 0.9) * first
            self.wait_for(process, before + far, seconds=moment)

    def weights(self):
        return (self.out / "model.safetensors").read_bytes()

    def steps(self):
        return [json.loads(line)["step"] for line in (self.out / "history.jsonl").read_text().splitlines()]

    def losses(self):
        rows = [json.loads(line) for line in (self.out / "history.jsonl").read_text().splitlines()]
        return [{name: value for name, value in row.items() if "second" not in name} for row in rows]


def time_uninterrupted(training):
    """Run a training without interruption; return it, its duration, and the duration before its first step."""
    started = time.monotonic()
    process = training.start()
    training.wait_for(process, 1)
    first = time.monotonic() - started
    _, stderr = process.communicate(timeout=600)
    assert process.returncode == 0, stderr
    assert training.steps() == list(range(1, training.num_steps + 1))
    return training, first, time.monotonic() - started


def assert_same(training, reference):
    assert training.weights() == reference.weights(), "the weights are bit for bit the same"
    assert training.steps() == list(range(1, training.num_steps + 1)), "each step once and in order"
    assert training.losses() == reference.losses()
    assert not [path for path in training.out.rglob("*") if path.name.startswith(".")], "no temporary file remains"


# In every test run: two families, in parallel, one core each.


def for_both_families(work):
    with ThreadPoolExecutor(len(SHORT)) as pool:
        return dict(zip(SHORT, pool.map(work, SHORT), strict=True))


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("survival")


@pytest.fixture(scope="module")
def uninterrupted(place, corpus_file):
    """An uninterrupted run, its duration, and the duration before its first step."""

    def work(family):
        return time_uninterrupted(Training.pretraining(family, corpus_file, place / f"{family}-uninterrupted"))

    return for_both_families(work)


@pytest.mark.slow
def test_killed_at_random_moments(uninterrupted, place, corpus_file):
    """Four SIGKILLs, some before there is a run, some while a checkpoint is written."""

    def work(family):
        reference, first, whole = uninterrupted[family]
        rng = random.Random(family)
        training = Training.pretraining(family, corpus_file, place / f"{family}-killed")
        reached = []
        for number in range(KILLS):
            process = training.start("--resume")
            training.wait_for_a_random_moment(process, rng, number, first=first, whole=whole, far=FAR)
            process.kill()
            process.communicate()
            reached.append(training.reached())
            assert process.returncode in (-signal.SIGKILL, 0)
        stderr = training.run("--resume")
        assert_same(training, reference)
        return reached, stderr

    for family, (reached, stderr) in for_both_families(work).items():
        assert len(set(reached)) > 1, f"{family} was always killed at the same place: {reached}"
        assert "Traceback" not in stderr


@pytest.mark.slow
def test_killed_while_the_model_is_written(uninterrupted, place, corpus_file):
    """After the last step, with a partial model directory; finishing again gives the same model."""

    def work(family):
        training = Training.pretraining(family, corpus_file, place / f"{family}-late")
        process = training.start("--resume")
        training.wait_for(process, STEPS)
        while process.poll() is None and not (training.out / "model.safetensors").exists():
            time.sleep(0.0005)
        process.kill()
        process.communicate()
        training.run("--resume")
        assert_same(training, uninterrupted[family][0])

    for_both_families(work)


@pytest.mark.slow
def test_stop_signals(uninterrupted, place, corpus_file):
    """By Ctrl-C or SIGTERM: the step is finished, a checkpoint is saved, and the resume command is printed."""
    signals = dict(zip(SHORT, (signal.SIGINT, signal.SIGTERM), strict=True))

    def work(family):
        number = signals[family]
        training = Training.pretraining(family, corpus_file, place / f"{family}-asked")
        process = training.start()
        training.wait_for(process, 12)
        process.send_signal(number)
        _, stderr = process.communicate(timeout=60)
        assert process.returncode == 128 + number, stderr
        stopped = int(re.search(r"stopped at step (\d+) and saved", stderr)[1])
        assert 12 <= stopped < STEPS
        assert training.steps() == list(range(1, stopped + 1))
        assert (training.out / "checkpoints" / f"{stopped:07d}").is_dir()
        assert not (training.out / "model.safetensors").exists()
        command = stderr.splitlines()[-1].split()
        assert command == ["polyseme", "pretrain", family, "--out", str(training.out), "--resume"]
        resumed = subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True, timeout=120)
        assert resumed.returncode == 0, resumed.stderr
        assert f"resuming at step {stopped} of {STEPS}" in resumed.stderr
        assert_same(training, uninterrupted[family][0])

    for_both_families(work)


@pytest.mark.slow
def test_cache_was_used_and_is_valid(uninterrupted, place):
    """After all kills nothing partial is taken for a token store."""
    stores = [path for path in (place / "cache" / "stores").iterdir() if not path.name.startswith(".")]
    assert len(stores) == len(SHORT)
    assert all((Path(store) / "meta.json").exists() for store in stores)


# The campaign: every family, fine-tuning and comparison, ten interruptions each.

SIZES = {"vocab_size": 400, "max_length": 64, "width": 32, "num_layers": 2, "num_heads": 2, "embedding_width": 16}
SIZES |= {"cell_width": 32, "filters": [[1, 16], [2, 32]], "num_highways": 1}


@pytest.fixture(scope="module")
def parallel_text(documents, tmp_path_factory):
    """Sentences, and their words in reverse order as a translation."""
    folder = tmp_path_factory.mktemp("parallel")
    sentences = [sentence for document in documents for sentence in document.split(". ")]
    (folder / "source.txt").write_text("\n".join(sentences), encoding="utf-8")
    reverse = (" ".join(reversed(sentence.split())) for sentence in sentences)
    (folder / "target.txt").write_text("\n".join(reverse), encoding="utf-8")
    return folder


@pytest.fixture
def build_training(corpus_file, parallel_text, tmp_path):
    """A function that returns a pretraining, or a fine-tuning of a model that it pretrains."""

    def build(name, out):
        if name == "fine-tuning":
            base = tmp_path / "base"
            if not base.exists():
                Training.pretraining("bert", corpus_file, base).run()
                words = corpus_file.read_text(encoding="utf-8").split()
                rows = [f"{' '.join(words[n : n + 6])}\t{'ab'[n % 2]}" for n in range(0, 600, 3)]
                (tmp_path / "train.tsv").write_text("\n".join(["text\tlabel", *rows]) + "\n", encoding="utf-8")
            files = ["--train", tmp_path / "train.tsv", "--dev", tmp_path / "train.tsv", "--set", "data.batch_size=8"]
            sets = ["--set", "training.save_every=5", "--set", "training.threads=1"]
            return Training(out, "finetune", base, *files, *sets, num_steps=CAMPAIGN_STEPS)
        fields = FAMILIES[name].Config.model_fields
        settings = {f"model.{size}": value for size, value in SIZES.items() if size in fields}
        settings |= {setting: value for setting, value in SETTINGS.items() if not setting.startswith("model.")}
        corpus, options = corpus_file, []
        if name in ("cove", "transformer"):
            corpus, options = parallel_text / "source.txt", ["--target", parallel_text / "target.txt"]
        if name == "mbert":
            corpus, options = f"en={corpus_file}", ["--corpus", f"de={parallel_text / 'target.txt'}"]
        if name == "cove":
            vectors = tmp_path / "vectors"
            if not vectors.exists():
                Training.pretraining("svd", corpus_file, vectors, num_steps=3).run()
            settings["model.vectors"] = vectors
            del settings["model.width"]
        return Training.pretraining(
            name, corpus, out, num_steps=CAMPAIGN_STEPS, settings=settings, options=map(str, options)
        )

    return build


@pytest.mark.soak
@pytest.mark.parametrize("interruption", ["SIGKILL", "SIGTERM", "deleted cache"])
@pytest.mark.parametrize("name", [*FAMILIES, "fine-tuning"])
def test_interrupted_ten_times(name, interruption, build_training, tmp_path, print_metric):
    """By SIGKILL; by SIGTERM; by SIGKILL after the cache was deleted under the running process."""
    reference, first, whole = time_uninterrupted(build_training(name, tmp_path / "uninterrupted"))
    training = build_training(name, tmp_path / "interrupted")
    rng = random.Random(f"{name} {interruption}")
    codes, reached = Counter(), []
    for number in range(CAMPAIGN_KILLS):
        process = training.start("--resume")
        moment = {"first": first, "whole": whole, "far": CAMPAIGN_FAR}
        if interruption == "deleted cache":
            moment["far"] //= 2
            training.wait_for_a_random_moment(process, rng, rng.choice([0, 1, 3]), **moment)
            shutil.rmtree(training.cache, ignore_errors=True)
        training.wait_for_a_random_moment(process, rng, number, **moment)
        process.send_signal(signal.SIGTERM if interruption == "SIGTERM" else signal.SIGKILL)
        _, stderr = process.communicate(timeout=600)
        codes[process.returncode] += 1
        reached.append(training.reached())
        assert "Traceback" not in stderr, stderr
        if process.returncode == 2:
            assert interruption == "deleted cache" and "POLYSEME_CACHE" in stderr, stderr
        else:
            assert process.returncode in (-signal.SIGKILL, -signal.SIGTERM, 128 + signal.SIGTERM, 0), stderr
    assert "Traceback" not in training.run("--resume")
    assert_same(training, reference)
    print_metric(f"{name}, {interruption}", f"exit codes {dict(codes)}, at steps {reached}; identical weights")


class ComparisonRun:
    """A comparison that is run repeatedly."""

    def __init__(self, text, tasks, out):
        self.out = out
        options = ["--families", "skipgram,bert,gpt2", "--budget", "40steps", "--size", "tiny", "--labels", "20"]
        self.arguments = ["compare", "--corpus", text, *options, "--tasks", tasks, "--out", out, "--parallel", "2"]

    def start(self):
        environment = {**os.environ, "POLYSEME_CACHE": str(self.out.parent / "cache")}
        command = [sys.executable, "-m", "polyseme", *map(str, self.arguments)]
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment)

    def run(self):
        process = self.start()
        _, stderr = process.communicate(timeout=1200)
        assert process.returncode == 0, stderr

    def rows(self):
        return sorted(json.dumps(row, sort_keys=True) for row in reproducible_rows(self.out))

    def weights(self):
        return {path.parent.name: path.read_bytes() for path in self.out.glob("runs/*/model.safetensors")}


def children_of(process):
    """The process ids of the children of a running process."""
    with suppress(OSError):
        tasks = Path(f"/proc/{process.pid}/task").glob("*/children")
        return [int(child) for task in tasks for child in task.read_text().split()]
    return []


@pytest.fixture(scope="module")
def uninterrupted_comparison(text, tasks, tmp_path_factory):
    comparison = ComparisonRun(text, tasks, tmp_path_factory.mktemp("comparison") / "uninterrupted")
    started = time.monotonic()
    comparison.run()
    return comparison, time.monotonic() - started


@pytest.mark.soak
@pytest.mark.parametrize("interruption", ["SIGKILL", "SIGTERM", "killed child", "deleted cache"])
def test_comparison_interrupted_ten_times(interruption, uninterrupted_comparison, text, tasks, tmp_path, print_metric):
    """Until it is done: the same weights of every family, and the same results except for timings."""
    reference, whole = uninterrupted_comparison
    comparison = ComparisonRun(text, tasks, tmp_path / "interrupted")
    rng = random.Random(interruption)
    codes = Counter()
    for _ in range(CAMPAIGN_KILLS):
        process = comparison.start()
        with suppress(subprocess.TimeoutExpired):
            process.wait(rng.uniform(0.1, 0.7) * whole)
        if interruption == "deleted cache":
            shutil.rmtree(comparison.out.parent / "cache", ignore_errors=True)
            with suppress(subprocess.TimeoutExpired):
                process.wait(rng.uniform(0, 0.2) * whole)
        if interruption == "killed child":
            while process.poll() is None and not children_of(process):
                time.sleep(0.01)
            with suppress(ProcessLookupError, IndexError):
                os.kill(rng.choice(children_of(process)), signal.SIGKILL)
        else:
            process.send_signal(signal.SIGTERM if interruption == "SIGTERM" else signal.SIGKILL)
        _, stderr = process.communicate(timeout=1200)
        codes[process.returncode] += 1
        assert "Traceback" not in stderr, stderr
        assert process.returncode in (-signal.SIGKILL, -signal.SIGTERM, 130, 0, 1, 2), stderr
    comparison.run()
    assert comparison.weights() == reference.weights() and len(reference.weights()) == 3
    assert comparison.rows() == reference.rows()
    print_metric(f"comparison, {interruption}", f"exit codes {dict(codes)}; identical weights and results")
