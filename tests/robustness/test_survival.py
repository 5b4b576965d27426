"""Real processes, killed at random moments and resumed: the final model is bit for bit the same."""

import json
import math
import os
import random
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

FAMILIES = ("bert", "gpt2")
STEPS = 60
KILLS = 7
FAR = 8  # steps after which a run is killed at the latest
SETTINGS = {
    "model.vocab_size": 400,
    "model.width": 32,
    "data.sequence_length": 32,
    "training.batch_tokens": 256,
    "training.save_every": 5,
    "training.threads": 1,
}


class Training:
    """A training command that is run repeatedly."""

    def __init__(self, family, corpus, out):
        self.family = family
        self.out = out
        sets = [word for name, value in SETTINGS.items() for word in ("--set", f"{name}={value}")]
        self.arguments = ["pretrain", family, "--corpus", str(corpus), "--out", str(out), "--size", "tiny"]
        self.arguments += ["--budget", f"{STEPS}steps", *sets]

    def start(self, *more):
        command = [sys.executable, "-m", "polyseme", *self.arguments, *more]
        cache = str(self.out.parent / "cache")  # the same for every run
        environment = {**os.environ, "POLYSEME_CACHE": cache, "TOKENIZERS_PARALLELISM": "false"}
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)

    def run(self, *more):
        process = self.start(*more)
        _, stderr = process.communicate(timeout=120)
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

    def weights(self):
        return (self.out / "model.safetensors").read_bytes()

    def steps(self):
        return [json.loads(line)["step"] for line in (self.out / "history.jsonl").read_text().splitlines()]

    def losses(self):
        rows = [json.loads(line) for line in (self.out / "history.jsonl").read_text().splitlines()]
        return [{name: value for name, value in row.items() if "second" not in name} for row in rows]


def for_every_family(work):
    """Run a function for all families in parallel, one core each."""
    with ThreadPoolExecutor(len(FAMILIES)) as pool:
        return dict(zip(FAMILIES, pool.map(work, FAMILIES), strict=True))


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("survival")


@pytest.fixture(scope="module")
def uninterrupted(place, corpus_file):
    """An uninterrupted run, its duration, and the duration before its first step."""

    def work(family):
        training = Training(family, corpus_file, place / f"{family}-uninterrupted")
        started = time.monotonic()
        process = training.start()
        training.wait_for(process, 1)
        first = time.monotonic() - started
        _, stderr = process.communicate(timeout=120)
        assert process.returncode == 0, stderr
        assert training.steps() == list(range(1, STEPS + 1))
        return training, first, time.monotonic() - started

    return for_every_family(work)


def assert_same(training, reference):
    assert training.weights() == reference.weights(), "the weights are bit for bit the same"
    assert training.steps() == list(range(1, STEPS + 1)), "each step once and in order"
    assert training.losses() == reference.losses()
    assert not [path for path in training.out.rglob("*") if path.name.startswith(".")], "no temporary file remains"


def test_killed_at_random_moments(uninterrupted, place, corpus_file):
    """Seven SIGKILLs, some before there is a run, some while a checkpoint is written."""

    def work(family):
        reference, first, whole = uninterrupted[family]
        rng = random.Random(family)
        training = Training(family, corpus_file, place / f"{family}-killed")
        reached = []
        for number in range(KILLS):
            process = training.start("--resume")
            before = training.reached()
            if number % 3 == 2:
                training.wait_for_a_save(process, before + FAR)
            elif number % 3 == 1:
                training.wait_for(process, before + rng.randrange(1, FAR))
            else:
                # Any moment, importing torch included; but on a machine that is faster now than in the uninterrupted
                # run, the process would have finished.
                moment = rng.uniform(0, whole) if number else rng.uniform(0.3, 0.9) * first
                training.wait_for(process, before + FAR, seconds=moment)
            process.kill()
            process.communicate()
            reached.append(training.reached())
            assert process.returncode in (-signal.SIGKILL, 0)
        stderr = training.run("--resume")
        assert_same(training, reference)
        return reached, stderr

    for family, (reached, stderr) in for_every_family(work).items():
        assert len(set(reached)) > 2, f"{family} was always killed at the same place: {reached}"
        assert "Traceback" not in stderr


def test_killed_while_the_model_is_written(uninterrupted, place, corpus_file):
    """After the last step, with a partial model directory; finishing again gives the same model."""

    def work(family):
        training = Training(family, corpus_file, place / f"{family}-late")
        process = training.start("--resume")
        training.wait_for(process, STEPS)
        while process.poll() is None and not (training.out / "model.safetensors").exists():
            time.sleep(0.0005)
        process.kill()
        process.communicate()
        training.run("--resume")
        assert_same(training, uninterrupted[family][0])

    for_every_family(work)


def test_stop_signals(uninterrupted, place, corpus_file):
    """By Ctrl-C or SIGTERM: the step is finished, a checkpoint is saved, and the resume command is printed."""
    signals = dict(zip(FAMILIES, (signal.SIGINT, signal.SIGTERM), strict=True))

    def work(family):
        number = signals[family]
        training = Training(family, corpus_file, place / f"{family}-asked")
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

    for_every_family(work)


def test_cache_was_used_and_is_valid(uninterrupted, place):
    """After all kills nothing partial is taken for a token store."""
    stores = [path for path in (place / "cache" / "stores").iterdir() if not path.name.startswith(".")]
    assert len(stores) == len(FAMILIES)
    assert all((Path(store) / "meta.json").exists() for store in stores)
