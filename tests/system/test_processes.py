"""Worker pools: order, errors, killed workers and early closing."""

import os
import time
from contextlib import closing
from pathlib import Path

import pytest

from polyseme.errors import ConfigError
from polyseme.system import processes
from polyseme.system.processes import WorkerError, WorkerPool, last_log_line, start_child

HANDLER = "tests.system.test_processes:make_handler"


def make_handler(prefix):
    """The handler of the workers below."""

    def handle(action, value=None):
        if action == "echo":
            print("not an answer")  # noqa: T201
            return [prefix, value]
        if action == "sleep":
            time.sleep(60)
        if action == "config":
            raise ConfigError("wrong setting")
        if action == "die":
            os._exit(1)
        raise KeyError(value)

    return handle


@pytest.fixture
def pool(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    with closing(WorkerPool(HANDLER, "hello", size=2)) as pool:
        yield pool


def answers(pool, *requests):
    return [answer for _, answer in pool.run(requests) if answer is not None]


def test_answers_come_in_order_and_workers_are_reused(pool):
    requests = [{"action": "echo", "value": number} for number in range(5)]
    assert answers(pool, *requests) == [["hello", number] for number in range(5)]
    started = list(pool.workers)
    assert answers(pool, *requests[:2]) == [["hello", 0], ["hello", 1]]
    assert pool.workers == started and len(started) == 2


def test_errors_keep_their_class_and_do_not_end_the_worker(pool):
    config, key, echo = answers(
        pool, {"action": "config"}, {"action": "?", "value": "x"}, {"action": "echo", "value": 1}
    )
    assert isinstance(config, ConfigError) and str(config) == "wrong setting"
    assert isinstance(key, WorkerError) and "KeyError" in str(key) and echo == ["hello", 1]
    assert len(pool.workers) == 2


def test_a_dead_worker_loses_one_request_and_is_replaced(pool):
    found = answers(pool, {"action": "die"}, *[{"action": "echo", "value": number} for number in range(4)])
    assert isinstance(found[0], WorkerError) and found[1:] == [["hello", number] for number in range(4)]


def test_closing_early_kills_busy_workers(pool):
    running = pool.run([{"action": "sleep"}, {"action": "sleep"}])
    next(running)
    children = [worker.process for worker in pool.workers]
    running.close()
    assert len(children) == 2 and all(child.poll() is not None for child in children)


def test_workers_that_cannot_be_started_are_an_error(pool, monkeypatch):
    def fail(*arguments, **options):
        raise OSError("no more processes")

    monkeypatch.setattr(processes, "start_child", fail)
    with pytest.raises(OSError, match="no more"):
        answers(pool, {"action": "echo"})


def test_children_log_their_errors(tmp_path):
    child = start_child("polyseme.__main__:main", "info", str(tmp_path / "nothing"), log=tmp_path / "log.txt")
    assert child.wait() == 2
    assert "nothing" in last_log_line(tmp_path / "log.txt")
    assert last_log_line(tmp_path / "missing.txt") == ""
