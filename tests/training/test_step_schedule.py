"""Step schedules, and runs whose number of steps is adapted to a time budget."""

import math
import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyseme.errors import CheckpointError, ConfigError
from polyseme.step_schedule import NUM_MILESTONES, StepSchedule
from polyseme.training.optimization.lr_schedules import is_averaged, learning_rate_at, length_divisor
from polyseme.training.optimization.optimizer_config import TrainingConfig
from polyseme.training.pretraining import PretrainingSession
from polyseme.training.recipes.recipe import Recipe
from polyseme.training.storage.run_dir import lock_folder

MILESTONES = st.lists(st.integers(1, 40), min_size=NUM_MILESTONES, max_size=NUM_MILESTONES).map(
    lambda lengths: tuple(sum(lengths[: number + 1]) for number in range(NUM_MILESTONES))
)


def test_scaled_steps_without_milestones_are_steps():
    schedule = StepSchedule(steps=7)
    assert (
        [schedule.scaled_step(step) for step in range(8)] == list(range(8))
        and schedule.total_steps == 7
        and schedule.is_decided
    )


@given(steps=st.integers(NUM_MILESTONES, 5000), milestones=MILESTONES)
def test_scaled_steps_increase_from_first_to_last(steps, milestones):
    schedule = StepSchedule(steps=steps, milestones=milestones)
    scaled = [schedule.scaled_step(step) for step in range(schedule.total_steps + 1)]
    assert scaled[0] == 0 and scaled[-1] == steps and schedule.total_steps == milestones[-1]
    assert all(before < after for before, after in pairwise(scaled))
    assert [scaled[milestone] for milestone in milestones] == pytest.approx(
        [steps * (n + 1) / NUM_MILESTONES for n in range(NUM_MILESTONES)]
    )


@given(steps=st.integers(NUM_MILESTONES, 5000), milestones=MILESTONES, known=st.integers(1, NUM_MILESTONES))
def test_later_milestones_do_not_change_earlier_scaled_steps(steps, milestones, known):
    """Not even at the step after a milestone, whose batch is prepared before the next milestone is set."""
    early, late = (
        StepSchedule(steps=steps, milestones=milestones[:known]),
        StepSchedule(steps=steps, milestones=milestones),
    )
    reached = milestones[known - 1]
    assert [early.scaled_step(step) for step in range(reached + 1)] == [
        late.scaled_step(step) for step in range(reached + 1)
    ]
    assert early.total_steps > reached or known == NUM_MILESTONES


@given(
    milestones=MILESTONES, lr_schedule=st.sampled_from(["constant", "linear", "cosine", "trapezoid", "slanted", "noam"])
)
def test_learning_rate_schedules_cover_the_whole_run(milestones, lr_schedule):
    config = TrainingConfig(
        steps=200,
        lr_schedule=lr_schedule,
        short_sequence_fraction=0.8,
        num_averaged=5,
        learning_rate=1.0,
        milestones=milestones,
    )
    learning_rates = [learning_rate_at(config, step) for step in range(milestones[-1])]
    assert all(0 < learning_rate <= 1 + 1e-12 for learning_rate in learning_rates)
    even = config.replace(milestones=())
    for number in range(NUM_MILESTONES - 1):
        assert learning_rates[milestones[number]] == pytest.approx(learning_rate_at(even, 20 * (number + 1)))
    assert [length_divisor(config, milestones[number]) for number in (0, 4, 8)] == [4, 2, 1]
    taken = [step for step in range(milestones[-1]) if is_averaged(config, step)]
    assert taken[-1] == milestones[-1] - 1 and len(taken) <= 5


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("wrong", [0.5, 0.8, 1.0, 1.3, 3.0])
def test_time_budget_is_met_whatever_the_planned_steps(wrong, seed):
    """With a step time that varies by ten percent, and sequences that grow."""
    rng = random.Random(seed)
    budget, usual = 600.0, 0.1
    schedule = StepSchedule(steps=round(wrong * budget / usual)).with_first_milestone()
    spent = begun = phase = 0.0
    done = 0
    while True:
        if done % 150 == 0:
            phase = rng.uniform(0.9, 1.1)
        spent += usual * phase * (1.0 if schedule.scaled_step(done) < 0.8 * schedule.steps else 1.3)
        done += 1
        if done == schedule.milestones[-1]:
            if schedule.is_decided:
                break
            begin = (0, *schedule.milestones)[-2]
            schedule, begun = (
                schedule.with_next_milestone(step=(spent - begun) / (done - begin), left=budget - spent),
                spent,
            )
    assert spent == pytest.approx(budget, rel=0.03) and schedule.total_steps == done


def test_next_milestone_without_a_clock_or_time_left():
    schedule = StepSchedule(steps=100).with_first_milestone()
    assert schedule.with_next_milestone(step=0.0, left=5.0).milestones == (10, 20) and schedule.with_next_milestone(
        step=1.0, left=-5.0
    ).milestones == (10, 11)


def test_invalid_milestones_are_rejected():
    for milestones in ([5, 5], [0, 1]):
        with pytest.raises(ConfigError, match=r"training\.milestones: give numbers of steps in ascending order"):
            TrainingConfig.parse({"milestones": milestones, "processor_seconds": 9}, group="training")
    for values in ({"milestones": [3, 6]}, {"milestones": list(range(1, 12)), "processor_seconds": 9}):
        with pytest.raises(ConfigError, match=r"training\.milestones: give 10 numbers of steps"):
            TrainingConfig.parse(values, group="training")


# --- runs


class Clock:
    """CPU time per call that varies by ten percent."""

    def __init__(self):
        self.now, self.calls = 0.0, 0

    def __call__(self):
        self.calls += 1
        self.now += 0.5 + 0.05 * math.sin(self.calls / 30)
        return self.now


def recipe_of(family, corpus, *settings):
    data = {"corpus": [str(corpus)], "dev": [str(corpus)]}
    settings = ["training.threads=1", "training.batch_tokens=512", "model.vocab_size=400", *settings]
    if family == "bert":
        settings += ["data.sequence_length=32", "model.width=32", "training.short_sequence_fraction=0.8"]
    return Recipe.preset(family, "tiny", settings, data=data, training={"budget": "60steps"})


def train(session, num_steps=None):
    steps = session.steps()
    for progress in steps:
        if progress.step.number == num_steps:
            break
    steps.close()
    return progress


@pytest.mark.parametrize("family", ["bert", "skipgram", "glove"])
def test_run_is_adapted_to_a_time_budget_and_repeatable(family, corpus_file, tmp_path, monkeypatch):
    monkeypatch.setattr("time.process_time", Clock())
    recipe = recipe_of(family, corpus_file, "training.processor_seconds=50")
    adapted = PretrainingSession.start(recipe, tmp_path / "adapted")
    assert adapted.recipe.training.milestones == (6,)
    last = train(adapted)
    milestones = adapted.recipe.training.milestones
    assert len(milestones) == 10 and milestones[-1] == last.step.number == adapted.total_steps > 60
    assert last.step.processor_seconds == pytest.approx(50, rel=0.05)
    monkeypatch.undo()
    repeated = PretrainingSession.start(
        recipe_of(family, corpus_file, f"training.milestones={list(milestones)}"), tmp_path / "repeated"
    )
    train(repeated, milestones[4] + 1)
    assert repeated.pause()
    resumed = PretrainingSession.resume(tmp_path / "repeated")
    assert resumed.resumed_at == milestones[4] + 1
    train(resumed)
    first, second = ((session.finish() / "model.safetensors").read_bytes() for session in (adapted, resumed))
    assert first == second


def test_resumed_run_keeps_decided_milestones(corpus_file, tmp_path, monkeypatch, caplog):
    """The checkpoint is older than the last decision: both are restored, and later milestones fit the time left."""
    monkeypatch.setattr("time.process_time", Clock())
    recipe = recipe_of(
        "bert", corpus_file, "training.processor_seconds=50", "training.save_every=4", "training.evaluate_every=1000"
    )
    interrupted = PretrainingSession.start(recipe, tmp_path / "run")
    train(interrupted, 19)  # beyond the second milestone, then killed
    decided = interrupted.recipe.training.milestones
    interrupted.run.close()
    resumed = PretrainingSession.resume(tmp_path / "run")
    assert resumed.resumed_at == 16 and resumed.recipe.training.milestones == decided and len(decided) == 3
    last = train(resumed)
    assert resumed.recipe.training.milestones[:3] == decided and "bit for bit" not in caplog.text
    assert last.step.processor_seconds == pytest.approx(50, rel=0.05)
    config = Recipe.load(resumed.finish()).training
    assert config.milestones == resumed.recipe.training.milestones and config.steps == 60


def test_full_disk_is_reported_when_a_milestone_is_set(corpus_file, tmp_path, monkeypatch):
    monkeypatch.setattr("time.process_time", Clock())
    session = PretrainingSession.start(
        recipe_of("skipgram", corpus_file, "training.processor_seconds=50"), tmp_path / "run"
    )

    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("polyseme.training.storage.run_dir.rewrite_file", full)
    with pytest.raises(CheckpointError, match=r"No space left on device.*--resume"):
        train(session)
    lock_folder(tmp_path / "run").release()  # it is not locked any more


def test_runs_of_few_steps_are_not_adapted(corpus_file, tmp_path):
    recipe = recipe_of("skipgram", corpus_file, "training.processor_seconds=50", "training.budget=9steps")
    session = PretrainingSession.start(recipe, tmp_path / "run")
    assert session.recipe.training.milestones == () and session.total_steps == 9
    session.run.close()
