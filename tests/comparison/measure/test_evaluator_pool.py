"""Evaluation in worker processes gives the same rows, and a killed worker loses one stage."""

import pytest

from polyseme.comparison.config import TrainingRun
from polyseme.comparison.measure.evaluator_pool import Evaluator, EvaluatorPool
from polyseme.comparison.runner import Comparison

STAGES = ["topics, linear probe", "likelihood", "word senses"]


@pytest.fixture(scope="module")
def evaluator(text, tasks, tmp_path_factory):
    folder = tmp_path_factory.mktemp("evaluated")
    values = {"corpus": [str(text)], "families": ["bert"], "budget": "5steps", "size": "tiny", "labels": [20]}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("POLYSEME_CACHE", str(folder / "cache"))
        comparison = Comparison.open({**values, "cores": 1, "tasks": str(tasks)}, folder / "out")
        list(comparison._prepare())
        list(comparison._train([TrainingRun("bert")]))
        comparison._lock.release()
        yield Evaluator.open(folder / "out")


@pytest.fixture
def pool(evaluator, monkeypatch):
    monkeypatch.setattr(Evaluator, "num_processes", 2)
    pool = EvaluatorPool(evaluator)
    yield pool
    pool.close()


def without_timings(rows):
    return [{name: value for name, value in row.items() if name != "seconds"} for row in rows]


@pytest.mark.slow
def test_worker_processes_give_the_same_rows(evaluator, pool):
    local = {stage: evaluator.evaluate("bert", stage) for stage in STAGES}
    remote = {stage: rows for stage, rows in pool.evaluate("bert", STAGES) if rows is not None}
    assert list(remote) == STAGES
    for stage in STAGES:
        assert local[stage] and without_timings(local[stage]) == without_timings(remote[stage])
    answers = pool.evaluate("bert", ["nothing", "word senses"])
    failed, rows = [answer for _, answer in answers if answer is not None]
    assert "nothing" in str(failed) and len(rows) == len(local["word senses"])


@pytest.mark.slow
def test_a_killed_worker_loses_one_stage(pool):
    answers = pool.evaluate("bert", STAGES)
    next(answers)
    pool.workers.workers[0].process.kill()
    found = dict(answer for answer in answers if answer[1] is not None)
    assert sorted(isinstance(rows, list) for rows in found.values()) == [False, True, True]
    (error,) = (rows for rows in found.values() if not isinstance(rows, list))
    assert "died" in str(error)


@pytest.mark.slow
def test_closing_early_kills_the_workers(pool):
    answers = pool.evaluate("bert", STAGES)
    next(answers)
    processes = [worker.process for worker in pool.workers.workers]
    answers.close()
    assert len(processes) == 2 and all(process.poll() is not None for process in processes)
