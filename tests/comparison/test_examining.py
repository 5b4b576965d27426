"""Whoever asks, here or in processes beside, the answers are the same; and one that is killed loses one answer."""

import pytest

from polyseme.comparison.examining import Examination, Examiner
from polyseme.comparison.race import Race

STAGES = ["topics, linear", "likelihood", "senses"]


@pytest.fixture(scope="module")
def examiner(text, tasks, tmp_path_factory):
    place = tmp_path_factory.mktemp("examined")
    values = {"corpus": [str(text)], "families": ["bert"], "budget": "5steps", "size": "tiny", "labels": [20]}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("POLYSEME_CACHE", str(place / "cache"))
        race = Race.open({**values, "cores": 1, "tasks": str(tasks)}, place / "out")
        list(race._prepare())
        list(race._train(["bert"]))
        race._lock.close()
        yield Examiner.open(place / "out")


@pytest.fixture
def examination(examiner, monkeypatch):
    monkeypatch.setattr(Examiner, "num_processes", 2)
    found = Examination(examiner)
    yield found
    found.close()


def answers(examination, stages):
    found = {stage: rows for stage, rows in examination.answers("bert", stages) if rows is not None}
    for rows in found.values():
        for row in rows if isinstance(rows, list) else ():
            row.pop("seconds", None)
    return found


@pytest.mark.slow
def test_beside_each_other_they_say_the_same(examiner, examination):
    here = {stage: examiner.examine("bert", stage) for stage in STAGES}
    there = answers(examination, STAGES)
    assert list(there) == STAGES
    for stage in STAGES:
        assert here[stage] and [{**row, "seconds": 0} for row in here[stage]] == [
            {**row, "seconds": 0} for row in there[stage]
        ]
    asked = examination.answers("bert", ["nothing", "senses"])
    failed, found = [answer for _, answer in asked if answer is not None]
    assert "nothing" in str(failed) and len(found) == len(here["senses"])


@pytest.mark.slow
def test_one_that_is_killed_loses_one_answer(examination):
    asked = examination.answers("bert", STAGES)
    next(asked)
    examination._processes[0].kill()
    found = dict(answer for answer in asked if answer[1] is not None)
    assert sorted(isinstance(rows, list) for rows in found.values()) == [False, True, True]
    (error,) = (rows for rows in found.values() if not isinstance(rows, list))
    assert "was killed" in str(error)


@pytest.mark.slow
def test_whoever_stops_waits_for_nobody(examination):
    asked = examination.answers("bert", STAGES)
    next(asked)
    processes = list(examination._processes)
    asked.close()
    assert len(processes) == 2 and all(process.poll() is not None for process in processes)


def test_whoever_cannot_begin_waits_for_nobody(examination, monkeypatch):
    def full():
        raise OSError("no more processes")

    monkeypatch.setattr(examination, "_begin", full)
    with pytest.raises(OSError, match="no more"):
        list(examination.answers("bert", STAGES))
