"""Real processes, killed at random moments and gone on with: the model that comes out is the same to the last bit."""

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
    "data.length": 32,
    "plan.batch_tokens": 256,
    "plan.save_every": 5,
    "plan.threads": 1,
}


class Training:
    """One command line, given again and again."""

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
        _, said = process.communicate(timeout=120)
        assert process.returncode == 0, said
        return said

    def reached(self):
        """The rows of the history, one a step."""
        history = self.out / "history.jsonl"
        return len(history.read_text().splitlines()) if history.exists() else 0

    def wait_for(self, process, step, *, seconds=math.inf):
        """Until the history has a row of that step, or so long."""
        end = time.monotonic() + seconds
        while process.poll() is None and self.reached() < step and time.monotonic() < end:
            time.sleep(0.005)

    def wait_for_a_save(self, process, step):
        """Until a half-written checkpoint is seen, by this process and not by one before it; or until that step."""
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
    """Do it for all families at once, a core each."""
    with ThreadPoolExecutor(len(FAMILIES)) as pool:
        return dict(zip(FAMILIES, pool.map(work, FAMILIES), strict=True))


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("survival")


@pytest.fixture(scope="module")
def unbroken(place, corpus_file):
    """A run that nothing happens to, and how long it takes, and how much of that is before its first step."""

    def work(family):
        training = Training(family, corpus_file, place / f"{family}-unbroken")
        started = time.monotonic()
        process = training.start()
        training.wait_for(process, 1)
        first = time.monotonic() - started
        _, said = process.communicate(timeout=120)
        assert process.returncode == 0, said
        assert training.steps() == list(range(1, STEPS + 1))
        return training, first, time.monotonic() - started

    return for_every_family(work)


def assert_same(training, reference):
    assert training.weights() == reference.weights(), "not the same weights to the last bit"
    assert training.steps() == list(range(1, STEPS + 1)), "each step once and in order"
    assert training.losses() == reference.losses()
    assert not [path for path in training.out.rglob("*") if path.name.startswith(".")], "something was left lying about"


def test_killed_at_random_moments(unbroken, place, corpus_file):
    """Seven SIGKILLs one after another, some before there is a run, some in the middle of a save."""

    def work(family):
        reference, first, whole = unbroken[family]
        chance = random.Random(family)
        training = Training(family, corpus_file, place / f"{family}-killed")
        reached = []
        for number in range(KILLS):
            process = training.start("--resume")
            before = training.reached()
            if number % 3 == 2:
                training.wait_for_a_save(process, before + FAR)
            elif number % 3 == 1:
                training.wait_for(process, before + chance.randrange(1, FAR))
            else:
                # Any moment of its life, importing torch included; but a machine that has become quicker since the
                # unbroken run would be at its end by then.
                moment = chance.uniform(0, whole) if number else chance.uniform(0.3, 0.9) * first
                training.wait_for(process, before + FAR, seconds=moment)
            process.kill()
            process.communicate()
            reached.append(training.reached())
            assert process.returncode in (-signal.SIGKILL, 0)
        said = training.run("--resume")
        assert_same(training, reference)
        return reached, said

    for family, (reached, said) in for_every_family(work).items():
        assert len(set(reached)) > 2, f"{family} was always killed at the same place: {reached}"
        assert "Traceback" not in said


def test_killed_while_the_model_is_written(unbroken, place, corpus_file):
    """All steps are done and the directory is half a model; a run that has ended ends again, the same."""

    def work(family):
        training = Training(family, corpus_file, place / f"{family}-late")
        process = training.start("--resume")
        training.wait_for(process, STEPS)
        while process.poll() is None and not (training.out / "model.safetensors").exists():
            time.sleep(0.0005)
        process.kill()
        process.communicate()
        training.run("--resume")
        assert_same(training, unbroken[family][0])

    for_every_family(work)


def test_asked_to_stop(unbroken, place, corpus_file):
    """By Ctrl-C or SIGTERM: the step is finished, all is saved, and the command that goes on is said."""
    signals = dict(zip(FAMILIES, (signal.SIGINT, signal.SIGTERM), strict=True))

    def work(family):
        number = signals[family]
        training = Training(family, corpus_file, place / f"{family}-asked")
        process = training.start()
        training.wait_for(process, 12)
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
        assert process.returncode == 128 + number, said
        stopped = int(re.search(r"stopped at step (\d+) and saved", said)[1])
        assert 12 <= stopped < STEPS
        assert training.steps() == list(range(1, stopped + 1))
        assert (training.out / "checkpoints" / f"{stopped:07d}").is_dir()
        assert not (training.out / "model.safetensors").exists()
        command = said.splitlines()[-1].split()
        assert command == ["polyseme", "pretrain", family, "--out", str(training.out), "--resume"]
        resumed = subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True, timeout=120)
        assert resumed.returncode == 0, resumed.stderr
        assert f"going on from step {stopped} of {STEPS}" in resumed.stderr
        assert_same(training, unbroken[family][0])

    for_every_family(work)


def test_the_cache_was_used_and_is_whole(unbroken, place):
    """After all those kills nothing half-written is taken for prepared text."""
    stores = [path for path in (place / "cache" / "stores").iterdir() if not path.name.startswith(".")]
    assert len(stores) == len(FAMILIES)
    assert all((Path(store) / "meta.json").exists() for store in stores)
