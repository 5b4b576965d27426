"""Runs that are fitted to a time while they go on."""

import math
import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyseme.course import NUM_PARTS, Course
from polyseme.errors import CheckpointError, ConfigError
from polyseme.train.plan import PlanConfig, averaged, rate_at, shortening
from polyseme.train.pretraining import Pretraining
from polyseme.train.recipe import Recipe
from polyseme.train.run import lock_folder

MARKS = st.lists(st.integers(1, 40), min_size=NUM_PARTS, max_size=NUM_PARTS).map(
    lambda lengths: tuple(sum(lengths[: number + 1]) for number in range(NUM_PARTS))
)


def test_steps_that_are_all_alike_stand_where_they_are_counted():
    course = Course(steps=7)
    assert [course.place(step) for step in range(8)] == list(range(8)) and course.total == 7 and course.is_decided


@given(steps=st.integers(NUM_PARTS, 5000), marks=MARKS)
def test_places_rise_from_the_first_step_to_the_last(steps, marks):
    course = Course(steps=steps, marks=marks)
    places = [course.place(step) for step in range(course.total + 1)]
    assert places[0] == 0 and places[-1] == steps and course.total == marks[-1]
    assert all(before < after for before, after in pairwise(places))
    assert [places[mark] for mark in marks] == pytest.approx([steps * (n + 1) / NUM_PARTS for n in range(NUM_PARTS)])


@given(steps=st.integers(NUM_PARTS, 5000), marks=MARKS, known=st.integers(1, NUM_PARTS))
def test_what_is_decided_later_changes_nothing_that_came_before(steps, marks, known):
    """Not even at the step after a mark, whose batch is drawn before the next tenth is decided."""
    early, late = Course(steps=steps, marks=marks[:known]), Course(steps=steps, marks=marks)
    reached = marks[known - 1]
    assert [early.place(step) for step in range(reached + 1)] == [late.place(step) for step in range(reached + 1)]
    assert early.total > reached or known == NUM_PARTS


@given(marks=MARKS, schedule=st.sampled_from(["constant", "linear", "cosine", "trapezoid", "slanted", "noam"]))
def test_schedules_take_the_whole_way(marks, schedule):
    plan = PlanConfig(steps=200, schedule=schedule, short_rows=0.8, average=5, rate=1.0, marks=marks)
    rates = [rate_at(plan, step) for step in range(marks[-1])]
    assert all(0 < rate <= 1 + 1e-12 for rate in rates)
    even = plan.replace(marks=())
    for number in range(NUM_PARTS - 1):
        assert rates[marks[number]] == pytest.approx(rate_at(even, 20 * (number + 1)))
    assert [shortening(plan, marks[number]) for number in (0, 4, 8)] == [4, 2, 1]
    taken = [step for step in range(marks[-1]) if averaged(plan, step)]
    assert taken[-1] == marks[-1] - 1 and len(taken) <= 5


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("wrong", [0.5, 0.8, 1.0, 1.3, 3.0])
def test_a_time_is_kept_however_wrong_the_number_was(wrong, seed):
    """On a machine whose pace wanders by a tenth to both sides in phases, and with rows that grow."""
    chance = random.Random(seed)
    budget, usual = 600.0, 0.1
    course = Course(steps=round(wrong * budget / usual)).begun()
    spent = begun = phase = 0.0
    done = 0
    while True:
        if done % 150 == 0:
            phase = chance.uniform(0.9, 1.1)
        spent += usual * phase * (1.0 if course.place(done) < 0.8 * course.steps else 1.3)
        done += 1
        if done == course.marks[-1]:
            if course.is_decided:
                break
            begin = (0, *course.marks)[-2]
            course, begun = course.fitted(step=(spent - begun) / (done - begin), left=budget - spent), spent
    assert spent == pytest.approx(budget, rel=0.03) and course.total == done


def test_a_clock_that_stands_still_and_a_time_that_is_over_leave_steps():
    course = Course(steps=100).begun()
    assert course.fitted(step=0.0, left=5.0).marks == (10, 20) and course.fitted(step=1.0, left=-5.0).marks == (10, 11)


def test_what_is_no_course_is_refused():
    for marks in ([5, 5], [0, 1]):
        with pytest.raises(ConfigError, match=r"plan\.marks: .*each larger than the one before"):
            PlanConfig.parse({"marks": marks, "processor_seconds": 9}, group="plan")
    for told in ({"marks": [3, 6]}, {"marks": list(range(1, 12)), "processor_seconds": 9}):
        with pytest.raises(ConfigError, match=r"plan\.marks: say 10 numbers of steps; fewer where"):
            PlanConfig.parse(told, group="plan")


# --- runs


class Clock:
    """Seconds of a processor whose pace wanders by a tenth to both sides."""

    def __init__(self):
        self.now, self.calls = 0.0, 0

    def __call__(self):
        self.calls += 1
        self.now += 0.5 + 0.05 * math.sin(self.calls / 30)
        return self.now


def recipe_of(family, corpus, *settings):
    data = {"corpus": [str(corpus)], "dev": [str(corpus)]}
    settings = ["plan.threads=1", "plan.batch_tokens=512", "model.vocab_size=400", *settings]
    if family == "bert":
        settings += ["data.length=32", "model.width=32", "plan.short_rows=0.8"]
    return Recipe.preset(family, "tiny", settings, data=data, plan={"budget": "60steps"})


def learn(training, num_steps=None):
    steps = training.steps()
    for progress in steps:
        if progress.step.number == num_steps:
            break
    steps.close()
    return progress


@pytest.mark.parametrize("family", ["bert", "skipgram", "glove"])
def test_a_run_is_fitted_and_can_be_repeated_and_broken(family, corpus_file, tmp_path, monkeypatch):
    monkeypatch.setattr("time.process_time", Clock())
    told = recipe_of(family, corpus_file, "plan.processor_seconds=50")
    fitted = Pretraining.start(told, tmp_path / "fitted")
    assert fitted.recipe.plan.marks == (6,)
    last = learn(fitted)
    marks = fitted.recipe.plan.marks
    assert len(marks) == 10 and marks[-1] == last.step.number == fitted.total > 60
    assert last.step.processor_seconds == pytest.approx(50, rel=0.05)
    monkeypatch.undo()
    repeated = Pretraining.start(recipe_of(family, corpus_file, f"plan.marks={list(marks)}"), tmp_path / "repeated")
    learn(repeated, marks[4] + 1)
    assert repeated.pause()
    resumed = Pretraining.resume(tmp_path / "repeated")
    assert resumed.resumed_at == marks[4] + 1
    learn(resumed)
    first, second = ((training.finish() / "model.safetensors").read_bytes() for training in (fitted, resumed))
    assert first == second


def test_a_fitted_run_that_is_broken_off_goes_on_as_it_was_decided(corpus_file, tmp_path, monkeypatch, caplog):
    """A checkpoint is older than what was decided after it: both are found, and the rest is fitted to what is left."""
    monkeypatch.setattr("time.process_time", Clock())
    told = recipe_of("bert", corpus_file, "plan.processor_seconds=50", "plan.save_every=4", "plan.evaluate_every=1000")
    broken = Pretraining.start(told, tmp_path / "run")
    learn(broken, 19)  # beyond the second mark, and then killed
    decided = broken.recipe.plan.marks
    broken.run.close()
    resumed = Pretraining.resume(tmp_path / "run")
    assert resumed.resumed_at == 16 and resumed.recipe.plan.marks == decided and len(decided) == 3
    last = learn(resumed)
    assert resumed.recipe.plan.marks[:3] == decided and "bit for bit" not in caplog.text
    assert last.step.processor_seconds == pytest.approx(50, rel=0.05)
    plan = Recipe.load(resumed.finish()).plan
    assert plan.marks == resumed.recipe.plan.marks and plan.steps == 60


def test_a_full_disk_is_said_where_something_is_decided(corpus_file, tmp_path, monkeypatch):
    monkeypatch.setattr("time.process_time", Clock())
    training = Pretraining.start(recipe_of("skipgram", corpus_file, "plan.processor_seconds=50"), tmp_path / "run")

    def full(self, folder):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Recipe, "save", full)
    with pytest.raises(CheckpointError, match=r"No space left on device.*make room and --resume"):
        learn(training)
    lock_folder(tmp_path / "run").close()  # which was let go


def test_too_few_steps_are_left_as_they_are(corpus_file, tmp_path):
    told = recipe_of("skipgram", corpus_file, "plan.processor_seconds=50", "plan.budget=9steps")
    training = Pretraining.start(told, tmp_path / "run")
    assert training.recipe.plan.marks == () and training.total == 9
    training.run.close()
