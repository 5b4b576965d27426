"""Fine-tuning under a time budget: most of the time is for training, whatever the dev data cost."""

import logging

import pytest

import polyseme as ps
from polyseme.api import open_finetuning, plan_finetuning_runs
from polyseme.training.finetuning import FineTuningSession
from polyseme.training.optimization.optimizer_config import TrainingConfig
from polyseme.training.recipes.finetune_recipe import FineTuningRecipe
from polyseme.training.resources import StepTime, fit_into_time
from polyseme.training.storage.history import read_history

TINY = ("model.vocab_size=400", "model.width=32", "data.sequence_length=32", "training.threads=1")


def fit(seconds, *, step, dev_batch, dev_batches, **settings):
    """The config for a time, and the seconds of training, of its validations and of the last evaluation."""
    config = fit_into_time(
        TrainingConfig(**settings),
        seconds,
        step=step,
        dev_seconds=lambda number: dev_batch * min(number, dev_batches),
        all_batches=dev_batches,
        most_batches=32,
    )
    every = config.evaluate_every or -(-config.steps // config.num_evaluations)
    validations = -(-config.steps // every) * config.evaluate_batches * dev_batch
    return config, config.steps * step, validations, dev_batches * dev_batch


def test_cheap_validations_are_as_many_and_as_large_as_without_a_time():
    config, *_ = fit(100, step=0.1, dev_batch=0.001, dev_batches=50)
    assert (config.num_evaluations, config.evaluate_batches, config.evaluate_every) == (10, 32, 0)
    without_dev, *_ = fit(100, step=0.1, dev_batch=0.0, dev_batches=0)
    assert (without_dev.steps, without_dev.evaluate_batches) == (1000, 0)


@pytest.mark.parametrize("dev_batch", [0.01, 0.02, 0.05, 0.1, 0.15])
@pytest.mark.parametrize("step", [0.01, 0.3, 1.0])
def test_validation_takes_at_most_a_fifth(step, dev_batch):
    config, training, validations, final = fit(20, step=step, dev_batch=dev_batch, dev_batches=16)
    assert validations + final <= 20 / 5 + 1e-9 and training >= 0.8 * 20 - step
    assert config.evaluate_batches >= 2 and config.num_evaluations >= 2
    assert config.evaluate_batches < 16 or dev_batch < 0.03
    assert config.num_evaluations == 10 or config.evaluate_batches == 2, "first they become smaller, then fewer"


def test_expensive_dev_data_leaves_half_of_the_time_for_training():
    config, training, *_ = fit(20, step=0.5, dev_batch=1.0, dev_batches=100)
    assert (config.num_evaluations, config.evaluate_batches, training) == (2, 2, 10)
    config, *_ = fit(-3, step=0.5, dev_batch=1.0, dev_batches=1)  # measuring has taken all of it
    assert config.steps == 1


def test_settings_of_validations_take_precedence():
    config, *_ = fit(20, step=0.1, dev_batch=0.1, dev_batches=16, evaluate_every=5)
    assert (config.evaluate_every, config.num_evaluations, config.evaluate_batches) == (5, 10, 2)
    config, *_ = fit(20, step=0.1, dev_batch=0.1, dev_batches=16, evaluate_batches=7)
    assert (config.num_evaluations, config.evaluate_batches) == (3, 7)
    config, *_ = fit(20, step=0.1, dev_batch=0.001, dev_batches=16, num_evaluations=4)
    assert config.num_evaluations == 4


@pytest.fixture(scope="module")
def base(corpus_file, tmp_path_factory):
    """A tiny BERT."""
    folder = tmp_path_factory.mktemp("base") / "bert"
    ps.pretrain("bert", corpus=corpus_file, size="tiny", budget="2steps", settings=TINY, out=folder)
    return folder


@pytest.fixture
def tune(base, tmp_path, monkeypatch):
    """Start a fine-tuning for a time, on a machine that takes these seconds per step and per dev batch."""
    rows = "the old river\tnature\n" * 160 + "new money here\tbank\n" * 160  # sorted by label
    (tmp_path / "train.tsv").write_text("text\tlabel\n" + rows)
    (tmp_path / "dev.tsv").write_text("text\tlabel\n" + rows * 2)

    def start(budget, *, step, dev_batch, out="out", **options):
        times = StepTime(seconds=step, processor_seconds=step, startup_processor_seconds=0.0, spent=1.0)
        monkeypatch.setattr(FineTuningSession, "measure_step_time", lambda *_, **__: times)
        monkeypatch.setattr(FineTuningSession, "_measure_dev_batches", lambda session: {"classify": dev_batch})
        runs = plan_finetuning_runs(tmp_path / out)
        files = {"train": tmp_path / "train.tsv", "dev": tmp_path / "dev.tsv"}
        (session,) = open_finetuning(base, runs, budget=budget, settings=["training.threads=1"], **files, **options)
        return session

    return start


def test_a_short_time_trains(tune, tmp_path, caplog):
    """Ten validations of 0.8 s each and the last evaluation would take half of twenty seconds."""
    session = tune("20s", step=0.5, dev_batch=0.08)
    assert 30 <= session.total_steps <= 35 and not caplog.records
    config = session.recipe.training
    assert 2 <= config.num_evaluations < 10 or config.evaluate_batches < 10
    (source, examples), number = session.dev["classify"], 64 * config.evaluate_batches
    assert len(examples) == number < 640 and source.num_batches == config.evaluate_batches
    assert {example.label for example in examples} == {"nature", "bank"}, "a sample, not the start of the file"
    list(session.steps())
    session.finish()
    validations = [row["step"] for row in read_history(tmp_path / "out") if "dev" in row]
    assert 3 <= len(validations) <= 1 + config.num_evaluations and validations[0] == 0
    assert FineTuningRecipe.load(tmp_path / "out").training == config


def test_the_choice_is_resumed(tune, tmp_path, monkeypatch):
    """Nothing is measured again, and the same examples are used."""
    begun = tune("20s", step=0.5, dev_batch=0.2)
    begun.run.close()
    monkeypatch.setattr(FineTuningSession, "measure_step_time", lambda *_, **__: pytest.fail("measured again"))
    resumed = FineTuningSession.resume(tmp_path / "out")
    assert resumed.recipe == begun.recipe and resumed.evaluate_every == begun.evaluate_every
    assert [example.row for example in resumed.dev["classify"][1]] == [
        example.row for example in begun.dev["classify"][1]
    ]
    resumed.run.close()


@pytest.mark.parametrize(
    ("options", "advice"),
    [({}, "give a longer --budget, --method frozen or fewer dev examples"), ({"method": "frozen"}, "give a longer")],
)
def test_too_short_a_time_is_reported(tune, caplog, options, advice):
    with caplog.at_level(logging.WARNING):
        session = tune("20s", step=3.0, dev_batch=0.1, **options)
    session.run.close()
    (record,) = caplog.records
    assert "a budget of 20s has time for 5 steps, 0.5 epochs (3 s per step, 1 s to evaluate all" in record.message
    assert record.message.endswith(advice if not options else "give a longer --budget or fewer dev examples")
    assert session.total_steps == 5


def test_no_warning_for_budgets_that_are_no_time(tune, caplog):
    tune("1steps", step=3.0, dev_batch=9.0).run.close()
    assert not caplog.records
